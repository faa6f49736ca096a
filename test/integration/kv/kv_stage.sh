#!/bin/bash
# Short pieces of GPU memory (libhipcpu) by way of staging over mori_rdma on the fake libibverbs,
# between two processes: every byte is compared, and work requests are counted. The controls are
# the same runs with the option on no side, and on one side.
# TR-01
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
[ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] || {
    echo "kv_stage.sh: there is no libhipcpu in this build"
    exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export UCX_PLUGIN_PATH=$build/.libs UCX_TLS=mori_xgmi,mori_copy,mori_rdma,tcp UCX_NET_DEVICES=fake0:1,fake1:1,lo
export FAKE_VERBS_WIRE=$dir/wire FAKE_VERBS_PEERMEM=n UCX_LOG_LEVEL=info MORIKV_LOG_LEVEL=info

if ! mkv_foreign "$build/.libs/libuct_mori.so" ucx_info -d | grep 'Transport: mori_rdma' >/dev/null; then
    echo "kv_stage.sh: UCX lists no mori_rdma here"
    exit 77
fi

fail() {
    tail -n 60 "$dir/prefill" "$dir/decode"
    echo "kv_stage.sh: $*"
    exit 1
}

# mori_xgmi copies within each process alone: the two look for each other in different folders.
side() { # ROLE BELOW ARG...
    local role=$1 below=$2
    shift 2
    mkdir -p "$dir/$role.d"
    UCX_MORI_XGMI_SHM_DIR=$dir/$role.d MORIKV_STAGE_BELOW=$below "$build/perf/kv_perf/mori_kv_perf" --role "$role" \
        --peer "$dir/peer" --check_consistency --op_type WRITE \
        --initiator_seg_type VRAM --target_seg_type VRAM "$@" >"$dir/$role" 2>&1
}

# Work requests of all queue pairs of both processes, those of messages included.
requests() { # BELOW OF-DECODE ARG...
    local source=$1 sink=$2 pid status=0
    shift 2
    rm -rf "$dir/peer"
    side decode "$sink" "$@" &
    pid=$!
    side prefill "$source" "$@" || status=$?
    wait $pid || status=$?
    [ $status = 0 ] || fail "$* with STAGE_BELOW=$source and $sink: exit status $status"
    grep -q 'every byte checked' "$dir/prefill" "$dir/decode" || fail "$*: the bytes were not checked"
    # of a READ its owner, decode, has the path
    grep -qE '^path put rocm>rocm: .*mori_rdma/|rdma carries a put of rocm memory to rocm memory: .* mori_rdma/' \
        "$dir/prefill" "$dir/decode" || fail "$*: the bytes did not go by mori_rdma"
    count=$(cat "$dir/prefill" "$dir/decode" | sed -n 's/.*queue pair [0-9]* of .*: \([0-9]*\) work requests, .*/\1/p' |
        awk '{ sum += $1 } END { print sum + 0 }')
}

staged() {
    cat "$dir/prefill" "$dir/decode" | grep -c 'copies between blocks and staging: sgl mori_xgmi/'
}

compare() { # LEAST-PLAIN MOST-STAGED ARG...
    local least=$1 most=$2 plain
    shift 2
    requests 0 0 "$@"
    plain=$count
    [ "$plain" -ge "$least" ] || fail "$*: $plain work requests without staging, expected $least or more"
    requests 4k 4k "$@"
    [ "$count" -le "$most" ] || fail "$*: $count work requests with staging, expected at most $most of $plain"
    [ "$(staged)" = 2 ] || fail "$*: mori_xgmi did not copy on both sides"
    echo "kv_stage.sh: $* took $plain work requests in lists, $count by way of staging"
}

small="--num_iter 2 --warmup_iter 1 --start_block_size 256 --max_block_size 256 --start_batch_size 4096 --total_buffer_size 32m"
# Sanitizers and the second UCX move pieces of rows and columns, once
if [ -n "${MKV_TEST_FEWER:-}" ]; then
    requests 4k 4k --model Llama-3-70B --requests 1 --input_length 32 --output_length 1 --total_buffer_size 48m \
        --tp 4 --decode_tp 4 --layout nhd --decode_layout hnd
    [ "$(staged)" = 2 ] || fail "mori_xgmi did not copy on both sides"
    echo "kv_stage.sh: passed, nothing compared"
    exit 0
fi
# shellcheck disable=SC2086
compare 12288 256 $small
# shellcheck disable=SC2086
compare 12288 256 $small --op_type READ
compare 8192 512 --model Llama-3-70B --requests 1 --input_length 32 --output_length 1 --total_buffer_size 48m \
    --tp 4 --decode_tp 4 --layout nhd --decode_layout hnd
# shellcheck disable=SC2086
requests 4k 0 $small
[ "$count" -ge 12288 ] || fail "$count work requests to a peer that stages nothing, expected 12288 or more"
echo "kv_stage.sh: passed"
