#!/bin/bash
# The unmodified MoriTransferEngineConnector of vllm-omni over morikv's mori.io: a chain of three
# processes, and parity with its SharedMemoryConnector. A control loses bytes and must fail. Its
# Python comes from the package registry.
#
#   test/integration/python/py_omni.sh BUILD
#
# Prints PASS: and FAIL: lines; exit status 77: the registry could not give it.
# BF-01, BF-02, BF-03, BF-04, BF-05, BF-06, BF-07, BF-08, BF-09, BF-10, BM-05, BM-06
# PY-05, PY-06, PY-07, TS-08, XF-00
set -uo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
build=$(cd "$1" && pwd)
hip=$build/test/fake/hip/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"$source/contrib/fetch_omni" || exit $?
omni=$("$source/contrib/fetch_omni" --path)
# the name mori refers to morikv, as docs/mori-io.md describes for programs that cannot be changed
export PYTHONPATH=$source/contrib/python:$source/contrib/python/morikv/names:$omni/packages PYTHONDONTWRITEBYTECODE=1
export LIBMORIKV=$build/.libs/libmorikv.so.0 UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n
export HIP_LIBRARY=$hip/libamdhip64.so.6 UCX_MORI_HIP_LIB=$hip/libamdhip64.so.6
# the connector makes a backend for RDMA, whatever carries the bytes
export MORIKV_BACKEND=auto
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"

verdict() { # NAME STATUS
    if [ "$2" = 0 ]; then
        echo "PASS: $1"
        grep -h ' gets: ' "$work/out" | sed 's/^/    /'
    else
        failed=1
        echo "FAIL: $1"
        tail -n 30 "$work/out" | sed 's/^/    /'
    fi
}

moves() { # OMNI_POOL
    OMNI_POOL=$1 timeout 300 python3 "$source/test/integration/python/py_omni.py" "$omni/wheel" >"$work/out" 2>&1
}

UCX_TLS=tcp moves cpu
verdict "vllm-omni's connector, a pool in host memory" $?
UCX_TLS=mori_xgmi,tcp moves cuda
verdict "vllm-omni's connector, a pool in GPU memory over mori_xgmi" $?
! UCX_TLS=mori_xgmi,tcp HIPCPU_COPY=0 moves cuda
verdict "bytes that are not copied are seen" $?
exit $failed
