#!/bin/bash
# Prefill and decode of a tiny LLM, each with its caches in the memory of a GPU of its own: over
# mori_xgmi and nothing else, asked by HTTP, against one process. Two GPUs of libhipcpu, or of the
# machine with MKV_TEST_REAL_HIP.
# TS-01
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
source=${srcdir:-$(cd "$(dirname "$0")/../../.." && pwd)}
hip=$build/test/fake/hip/lib
python=${PYTHON:-python3}

"$python" -c 'import cffi' 2>/dev/null || {
    echo "$python has no cffi (Debian: python3-cffi)"
    exit 77
}
export PYTHONPATH=$source/contrib/python PYTHONDONTWRITEBYTECODE=1 LIBMORIKV=${LIBMORIKV:-$build/.libs/libmorikv.so.0}
export UCX_PLUGIN_PATH=${UCX_PLUGIN_PATH:-$build/.libs} UCX_WARN_UNUSED_ENV_VARS=n
export UCX_TLS=mori_xgmi,tcp MORIKV_BACKEND=xgmi MORIKV_STRICT=y
if [ -z "${MKV_TEST_REAL_HIP:-}" ]; then
    export LD_LIBRARY_PATH=$hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HIPCPU_DEVICES=2
    unset HIP_VISIBLE_DEVICES
fi
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"
# the interpreter keeps what it has until its end
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

mkv_foreign "$LIBMORIKV" timeout 900 "$python" "$source/test/integration/python/py_llm.py" "$@" 2>&1
