#!/bin/bash
# mori.io over morikv between two processes, READ and WRITE, every byte compared: GPU memory
# over mori_xgmi (libhipcpu), host memory over mori_rdma (fake libibverbs). A control loses bytes
# and must fail.
# PY-11
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
source=${srcdir:-$(cd "$(dirname "$0")/../../.." && pwd)}
hip=$build/test/fake/hip/lib
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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

run() { # [TEST..]
    mkv_foreign "$LIBMORIKV" timeout 900 "$python" \
        "$source/test/integration/python/${program:-py_mori_io.py}" "$@" 2>&1
}

xgmi() { # [TEST..]
    UCX_TLS=${tls:-mori_xgmi,tcp} MORI_BACKEND=XGMI KV_MEMORY=gpu HIP_LIBRARY=$hip/libamdhip64.so.6 \
        UCX_MORI_HIP_LIB=$hip/libamdhip64.so.6 run "$@"
}

rdma() { # COMMAND..
    UCX_TLS=mori_rdma,tcp UCX_NET_DEVICES=fake0:1,fake1:1,lo MORI_BACKEND=RDMA \
        FAKE_VERBS_WIRE=$work/wire \
        LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
}

# Which devices carry the bytes, by their own counters
devices_move() { # VARIABLES..
    rm -rf "$work/wire"
    rdma mkv_foreign "$LIBMORIKV" env FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic "$@" UCX_LOG_LEVEL=info \
        timeout 300 "$python" "$source/test/integration/python/py_mori_settings.py" move 3 7 >"$work/moved" 2>&1 || {
        cat "$work/moved"
        return 1
    }
}

carried() { # DEVICE
    FAKE_VERBS_WIRE=$work/wire FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic LD_LIBRARY_PATH=$build/test/fake/verbs/.libs \
        mkv_foreign "$LIBMORIKV" "$build/test/fake/verbs/verbs_ctl" bytes "$1" | cut -d' ' -f1
}

only() { # DEVICE OTHER
    if ! [ "$(carried "$1")" -ge 4194304 ] || [ "$(carried "$2")" != 0 ]; then
        echo "py_mori_io.sh: $1 carried $(carried "$1") bytes, $2 $(carried "$2"); expected all by $1"
        return 1
    fi
}

settings_act() {
    program=py_mori_settings.py run || return 1
    devices_move MORI_RDMA_DEVICES=fake1 && only fake1 fake0 || return 1
    grep -q 'queue pair 2 of 3, POST_BATCH 7' "$work/moved" || {
        echo "py_mori_io.sh: expected 3 queue pairs and POST_BATCH 7:"
        grep 'queue pair' "$work/moved"
        return 1
    }
    devices_move MORI_RDMA_DEVICES=fake1 UCX_MORI_RDMA_DEVICES=fake0 && only fake0 fake1
}

every=TwoProcesses.test_every_byte_of_writes_and_reads
xgmi || exit 1
UCX_TLS=tcp,self program=py_mori_calls.py run || exit 1
tls=mori_xgmi,mori_copy,tcp program=py_mori_cases.py xgmi || exit 1
# all of it is read: a pipe that breaks would be a failure of ucx_info
transports=$(rdma mkv_foreign "$LIBMORIKV" ucx_info -d)
if ! grep -q 'Transport: mori_rdma' <<<"$transports"; then
    echo "py_mori_io.sh: UCX lists no mori_rdma here"
else
    rdma run $every TwoProcesses.test_calls_of_atom_move_blocks_of_chunks \
        TwoProcesses.test_a_peer_that_died_is_a_failure_with_a_text || exit 1
    settings_act || exit 1
fi
if HIPCPU_COPY=0 tls=mori_xgmi,mori_copy,tcp program=py_mori_cases.py xgmi Suballocation; then
    echo "py_mori_io.sh: MORI's case passed without a copy"
    exit 1
fi
if HIPCPU_COPY=0 xgmi $every; then
    echo "py_mori_io.sh: the tests pass although nothing was copied"
    exit 1
fi
echo "py_mori_io.sh: passed"
