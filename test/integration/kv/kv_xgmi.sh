#!/bin/sh
# GPU memory over mori_xgmi, each process on its own device.
# TR-02, TR-03, TR-09
export MKV_TEST_ROUNDS="${MKV_TEST_ROUNDS:-10000}"
exec sh "$(dirname "$0")/kv_run.sh" mori_xgmi,tcp gpu
