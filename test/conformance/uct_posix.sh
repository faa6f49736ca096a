#!/bin/sh
# UCX's own posix verifies the suite.
exec sh "$(dirname "$0")/run.sh" posix
