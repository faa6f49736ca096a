#!/bin/sh
# UCX's own self verifies the suite.
exec sh "$(dirname "$0")/run.sh" self ${MKV_TEST_FEWER:+-1}
