#!/bin/bash
# Caches in pinned memory of the host (hipHostMalloc of libhipcpu), on both sides, every byte:
# on one host, and by a NIC (the fake libibverbs); the library reports the path.
# RG-08, XM-07
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export UCX_PLUGIN_PATH=$build/.libs MKV_KV_PROGRAMS=kv_basic MORIKV_LOG_LEVEL=info FAKE_VERBS_WIRE=$work/wire

over() { # UCX_TLS DEVICES BACKEND
    local status=0
    UCX_NET_DEVICES=$2 sh "$here/kv_run.sh" "$1" pinned >"$work/out" 2>&1 || status=$?
    [ $status != 77 ] || { tail -n 1 "$work/out"; exit 77; }
    if [ $status != 0 ] || ! grep -q "info: peer .*: $3 carries a .*host memory to host memory" "$work/out"; then
        cat "$work/out"
        echo "kv_pinned.sh: exit status $status over $1; expected 0, and bytes by $3"
        exit 1
    fi
}

over mori_xgmi,mori_copy,tcp lo shm
export UCX_MORI_XGMI_MESSAGES=n
over mori_xgmi,mori_copy,tcp lo tcp
over mori_rdma,mori_copy,tcp fake0:1,fake1:1,lo rdma
echo "kv_pinned.sh: passed"
