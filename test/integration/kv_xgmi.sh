#!/bin/sh
# GPU memory over mori_xgmi, each process on its own device.
exec sh "$(dirname "$0")/kv_run.sh" mori_xgmi,tcp gpu
