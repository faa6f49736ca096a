#!/bin/sh
# UCX's own tcp: keeps the suite honest.
exec sh "$(dirname "$0")/run.sh" tcp
