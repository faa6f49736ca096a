#!/bin/sh
# UCX's own posix: keeps the suite honest.
exec sh "$(dirname "$0")/run.sh" posix
