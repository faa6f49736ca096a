#!/bin/sh
# The conformance suite on mori_rdma over the fake libibverbs: once for each kind of
# device, so that small queues, one or two scatter entries, no inline data, no atomics
# and no shared receive queues are all met.
set -eu
build=${MKV_BUILD_DIR:-$PWD}
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH=$build/test/fake/verbs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# Peers die in every variant. With the default timeouts for a silent device and for recovery, the
# suite would wait for them a hundred times. it_rdma has the defaults.
export UCX_MORI_RDMA_TIMEOUT=131ms UCX_MORI_RDMA_RETRY_COUNT=3 UCX_MORI_RDMA_RECOVERY_TIMEOUT=500ms
wire=$(mktemp -d)
trap 'rm -rf "$wire"' EXIT

run() { # NAME DEVICES VARIANT [VARIABLE=VALUE...]
    name=$1
    devices=$2
    variant=$3
    shift 3
    echo "== $name"
    env "$@" FAKE_VERBS_WIRE="$wire/$name" FAKE_VERBS_DEVICES="$devices" \
        sh "$here/run.sh" mori_rdma -1 ${variant:+-v "$variant"} >"$wire/log" 2>&1 || {
        grep -v '^ok' "$wire/log"
        exit 1
    }
    tail -n 1 "$wire/log"
    rm -f "$wire/$name"
}

# Devices that differ from the others in limits and in responses, not in memory
more() {
    [ -n "${MKV_TEST_FEWER:-}" ] || run "$@"
}

run ionic a:ionic,b:ionic ''
more bnxt a:bnxt,b:bnxt,c:bnxt peer UCX_MORI_RDMA_DEVICES=a:1,b
run mlx5 a:mlx5,b:mlx5 peer/rocm-host UCX_MORI_RDMA_NUM_QPS=4 UCX_MORI_RDMA_STRIPE_SIZE=4k \
    UCX_MORI_RDMA_ATOMICS=y
more mlx5_ib a:mlx5_ib,b:mlx5_ib peer UCX_MORI_RDMA_ATOMICS=y
more rxe a:rxe,b:rxe peer/host-rocm UCX_MORI_RDMA_ATOMICS=y
run tiny a:tiny,b:tiny peer FAKE_VERBS_CAPS=max_mr=4096
run late a:mlx5,b:mlx5 local FAKE_VERBS_MODE=late UCX_MORI_RDMA_NUM_QPS=2 UCX_MORI_RDMA_ATOMICS=y
run keys a:ionic,b:ionic peer UCX_MORI_RDMA_MAX_MR_SIZE=512k
run dmabuf a:ionic,b:ionic peer/rocm FAKE_VERBS_PEERMEM=n
