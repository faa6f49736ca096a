#!/bin/sh
# UCX's own cma verifies the suite.
exec sh "$(dirname "$0")/run.sh" cma
