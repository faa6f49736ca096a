#!/bin/sh
# UCX's own self: keeps the suite honest.
exec sh "$(dirname "$0")/run.sh" self ${MKV_TEST_FEWER:+-1}
