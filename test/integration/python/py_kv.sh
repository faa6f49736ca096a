#!/bin/bash
# The Python package between two processes: host memory over tcp, GPU memory over
# mori_xgmi; and it sees it when bytes do not arrive.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
source=${srcdir:-$(cd "$(dirname "$0")/../../.." && pwd)}
hip=$build/test/fake/hip/lib/libamdhip64.so.6
python=${PYTHON:-python3}

"$python" -c 'import cffi' 2>/dev/null || {
    echo "$python has no cffi (Debian: python3-cffi)"
    exit 77
}
export PYTHONPATH=$source/contrib/python PYTHONDONTWRITEBYTECODE=1 LIBMORIKV=$build/.libs/libmorikv.so.0
export UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"
# the interpreter keeps what it has until its end
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

run() { # TLS MEMORY [TEST]
    export UCX_TLS=$1 KV_MEMORY=$2 HIP_LIBRARY=$hip UCX_MORI_HIP_LIB=$hip
    mkv_foreign "$LIBMORIKV" timeout 240 "$python" \
        "$source/test/integration/python/${program:-py_kv.py}" ${3:+"$3"} 2>&1
}

run tcp,self host || exit 1
program=py_bytes.py run tcp,self host || exit 1
program=py_vllm.py run tcp,self host || exit 1
program=py_vllm_ranks.py run tcp,self host || exit 1
program=py_vllm_killed.py run tcp,self host || exit 1
program=py_router.py run tcp,self host || exit 1
run mori_xgmi,tcp gpu TwoProcesses || exit 1
if HIPCPU_COPY=0 run mori_xgmi,tcp gpu TwoProcesses.test_every_byte_of_a_write_and_a_read; then
    echo "py_kv.sh: nothing was copied, and nobody saw it"
    exit 1
fi
