#!/bin/sh
# UCX's own sysv: keeps the suite honest.
exec sh "$(dirname "$0")/run.sh" sysv
