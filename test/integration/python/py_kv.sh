#!/bin/bash
# The Python package between two processes: host memory over tcp, GPU memory over mori_xgmi. A
# control loses bytes and must fail.
# BM-02, MD-04, PY-01, PY-02, PY-03, PY-08, PY-12, TS-10
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
# the interpreter keeps its memory until its end
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

run() { # TLS MEMORY [ARG...]
    export UCX_TLS=$1 KV_MEMORY=$2 HIP_LIBRARY=$hip UCX_MORI_HIP_LIB=$hip
    shift 2
    mkv_foreign "$LIBMORIKV" timeout 900 "$python" \
        "$source/test/integration/python/${program:-py_kv.py}" "$@" 2>&1
}

# Opt-in: a thousand orders in which objects die take ten minutes under valgrind. Python's own
# allocator would hide freed memory from valgrind.
if [ -n "${MKV_ORDERS_VALGRIND:-}" ]; then
    export UCX_TLS=tcp,self PYTHONMALLOC=malloc
    exec valgrind -q --fair-sched=try --error-exitcode=99 --suppressions="$source/contrib/valgrind.supp" \
        "$python" "$source/test/integration/python/py_orders.py" 1000 8
fi

run tcp,self host || exit 1
program=py_bytes.py run tcp,self host || exit 1
program=py_orders.py run tcp,self host ${MKV_TEST_FEWER:+100 2} || exit 1
program=py_orders.py run mori_xgmi,tcp gpu 100 2 || exit 1
program=py_vllm.py run tcp,self host || exit 1
program=py_vllm_clients.py run tcp,self host || exit 1
program=py_vllm_ranks.py run tcp,self host || exit 1
program=py_vllm_killed.py run tcp,self host || exit 1
program=py_router.py run tcp,self host || exit 1
run mori_xgmi,tcp gpu TwoProcesses || exit 1
if HIPCPU_COPY=0 run mori_xgmi,tcp gpu TwoProcesses.test_every_byte_of_a_write_and_a_read; then
    echo "py_kv.sh: the tests pass although nothing was copied"
    exit 1
fi
