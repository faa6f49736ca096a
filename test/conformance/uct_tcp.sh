#!/bin/sh
# UCX's own tcp verifies the suite.
exec sh "$(dirname "$0")/run.sh" tcp
