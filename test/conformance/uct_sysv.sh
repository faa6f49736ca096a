#!/bin/sh
# UCX's own sysv verifies the suite.
exec sh "$(dirname "$0")/run.sh" sysv
