#!/bin/bash
# The unmodified connectors of vLLM and SGLang for MORI-IO over morikv's mori.io, GPU memory on
# libhipcpu, every byte compared; over mori_xgmi, and over mori_rdma on the fake libibverbs. A
# control loses bytes and must fail. Their Python comes from the package registry.
#
#   test/integration/python/py_engines.sh BUILD
#
# Prints PASS: and FAIL: lines; exit status 77: the registry could not give them.
# PL-05, PY-11, XF-00
set -uo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
build=$(cd "$1" && pwd)
hip=$build/test/fake/hip/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"$source/contrib/fetch_engines" || exit $?
engines=$("$source/contrib/fetch_engines" --path)
export PYTHONPATH=$source/contrib/python:$engines/packages PYTHONDONTWRITEBYTECODE=1
export LIBMORIKV=$build/.libs/libmorikv.so.0 UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n
export HIP_LIBRARY=$hip/libamdhip64.so.6 UCX_MORI_HIP_LIB=$hip/libamdhip64.so.6
# SGLang's manager makes a backend for RDMA, whatever carries the bytes
export MORIKV_BACKEND=auto
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"

verdict() { # NAME STATUS
    if [ "$2" = 0 ]; then
        echo "PASS: $1"
    else
        failed=1
        echo "FAIL: $1"
        tail -n 30 "$work/out" | sed 's/^/    /'
    fi
}

moves() { # MORI_BACKEND
    MORI_BACKEND=$1 timeout 300 python3 "$source/test/integration/python/py_engines.py" \
        "$engines/wheels" >"$work/out" 2>&1
}

UCX_TLS=mori_xgmi,tcp moves XGMI
verdict "vLLM's and SGLang's connectors over mori_xgmi" $?
! UCX_TLS=mori_xgmi,tcp HIPCPU_COPY=0 moves XGMI
verdict "bytes that are not copied are seen" $?
UCX_TLS=mori_rdma,tcp UCX_NET_DEVICES=fake0:1,fake1:1,lo FAKE_VERBS_WIRE=$work/wire FAKE_VERBS_PEERMEM=n \
    LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$hip moves RDMA
verdict "vLLM's and SGLang's connectors over mori_rdma" $?
exit $failed
