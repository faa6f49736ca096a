#!/bin/sh
# libmorikv between two processes over mori_rdma on the fake libibverbs: its tests on host
# memory, then mori_kv_perf, every byte compared, on host and on GPU memory (libhipcpu).
# CC-07, CF-02, CF-03, CF-05, CF-06, CF-09, DO-05, TR-05, TS-03
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export UCX_PLUGIN_PATH="$build/.libs" UCX_TLS=mori_rdma,tcp UCX_NET_DEVICES=fake0:1,fake1:1,lo
export FAKE_VERBS_WIRE="$dir/wire"

if ! mkv_foreign "$build/.libs/libuct_mori.so" ucx_info -d | grep -q 'Transport: mori_rdma'; then
    echo "kv_rdma.sh: UCX lists no mori_rdma here"
    exit 77
fi

device() { # TEXT STATUS MKV_TEST_RDMA_DEVICE
    status=0
    told=$(MKV_TEST_RDMA_DEVICE=$3 sh -c ". '$here/../../support/environment.sh'; . '$here/kv_device.sh'; echo \"\$tls\"") || status=$?
    case $status$told in
    "$2"*"$1"*) ;;
    *)
        echo "kv_rdma.sh: MKV_TEST_RDMA_DEVICE='$3' gave '$told', exit status $status; expected '$1' and $2"
        exit 1
        ;;
    esac
}

device 'without RDMA, over tcp' 0 ''
device 'over mori_rdma,tcp' 0 fake0:1,fake1:1
device 'mori_rdma has no fake9:1 here, but: fake0:1 fake1:1' 1 fake0:1,fake9:1

# No usable device: UCX and libmorikv report the cause, and no process dies of a signal.
unusable() { # TEXT, and what is set
    text=$1 status=0
    shift
    env "$@" "$build/perf/kv_perf/mori_kv_perf" --num_iter 1 --warmup_iter 1 >"$dir/out" 2>&1 || status=$?
    if [ $status != 1 ] || ! grep -q "mkv_open: ucp_init() failed: No such device; $text" "$dir/out"; then
        cat "$dir/out"
        echo "kv_rdma.sh: $*: exit status $status, expected 1 and '$text'"
        exit 1
    fi
}

unusable 'requested transports: mori_rdma, network devices: fake9:1' UCX_TLS=mori_rdma UCX_NET_DEVICES=fake9:1
unusable 'requested transports: mori_rdma, network devices: fake7:1' MORIKV_TLS=mori_rdma MORIKV_NET_DEVICES=fake7:1

# Sanitizers and the second UCX run the programs that depend on the lane; the others run over
# mori_xgmi.
[ -z "${MKV_TEST_FEWER:-}" ] || export MKV_KV_PROGRAMS="kv_basic kv_ops kv_ranks kv_fault"

# Peers die here again and again; it_rdma has the settings of a device in a cluster.
UCX_MORI_RDMA_TIMEOUT=131ms UCX_MORI_RDMA_RETRY_COUNT=3 UCX_MORI_RDMA_RECOVERY_TIMEOUT=2s \
    sh "$here/kv_run.sh" "$UCX_TLS" host

perf() {
    echo "mori_kv_perf $*"
    "$build/perf/kv_perf/mori_kv_perf" --check_consistency --total_buffer_size "$size" "$@" >"$dir/out" 2>&1 || {
        cat "$dir/out"
        exit 1
    }
    if ! grep -q 'mori_rdma/' "$dir/out" || ! grep -q 'every byte checked' "$dir/out"; then
        cat "$dir/out"
        echo "kv_rdma.sh: the bytes went another way, or were not checked"
        exit 1
    fi
}

# A single variable is set: GPUs of one host use mori_xgmi although there are NICs, and the
# NICs on request.
if [ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ]; then
    for want in auto:mori_xgmi xgmi:mori_xgmi rdma:mori_rdma; do
        (
            unset UCX_TLS
            MORIKV_BACKEND=${want%:*} "$build/perf/kv_perf/mori_kv_perf" --check_consistency --total_buffer_size 8m \
                --start_block_size 4096 --max_block_size 4096 --start_batch_size 128 --num_iter 2 --warmup_iter 1 \
                --initiator_seg_type VRAM --target_seg_type VRAM
        ) >"$dir/out" 2>&1 || true
        if ! grep -q "^path put rocm>rocm: [a-z]* (zero-copy ${want#*:}/" "$dir/out"; then
            cat "$dir/out"
            echo "kv_rdma.sh: MORIKV_BACKEND=${want%:*} did not go by ${want#*:}"
            exit 1
        fi
    done
fi

size=32m
sweep="--start_batch_size 512 --num_iter 4 --warmup_iter 1"
for op in WRITE READ; do
    # shellcheck disable=SC2086
    perf $sweep --op_type $op
    # shellcheck disable=SC2086
    perf $sweep --op_type $op --api ucp --start_block_size 1000
    # shellcheck disable=SC2086
    FAKE_VERBS_PEERMEM=n perf $sweep --op_type $op --initiator_seg_type VRAM --target_seg_type VRAM
    UCX_MORI_RDMA_NUM_QPS=4 UCX_MORI_RDMA_TX_DEPTH=16 \
        perf --model Llama-3-70B --requests 4 --input_length 128 --output_length 16 --op_type $op
done

few="--num_iter 2 --warmup_iter 1 --large_blk_iter_ftr 1"
# The rest compares settings by their counters, which neither a sanitizer nor another UCX changes;
# queues that are full at once and requests of one entry are code of their own.
if [ -n "${MKV_TEST_FEWER:-}" ]; then
    for op in WRITE READ; do
        # shellcheck disable=SC2086
        UCX_MORI_RDMA_TX_DEPTH=8 UCX_MORI_RDMA_TX_MAX_SGE=1 UCX_MORI_RDMA_POST_BATCH=1 \
            perf $few --op_type $op --start_block_size 256 --start_batch_size 20000
    done
    echo "kv_rdma.sh: passed, settings not compared"
    exit 0
fi

# Work requests and doorbells of each queue pair that carried data, from the transport's log.
carriers() { # QPS
    sed -n "s/.*queue pair [0-9]* of $1, .*: \([0-9]*\) work requests, \([0-9]*\) doorbells, [0-9]\{8,\} bytes/\1 \2/p" "$dir/out"
}

wrong() { # TEXT
    grep 'queue pair' "$dir/out" || true
    echo "kv_rdma.sh: $*"
    exit 1
}

# The settings show in the counters and not in the bytes: queues of 8 take the 100 000 blocks
# of one request; 64 MiB go by 1, 2 and 4 queue pairs; a doorbell is for 1, 16, 32 requests.
export UCX_LOG_LEVEL=info
for op in WRITE READ; do
    # shellcheck disable=SC2086
    UCX_MORI_RDMA_TX_DEPTH=8 perf $few --op_type $op --start_block_size 256 --start_batch_size 100000
    # mlx5: the first get from an ionic is written by its owner
    for qps in 1 2 4; do
        # shellcheck disable=SC2086
        size=128m FAKE_VERBS_DEVICES=fake0:mlx5,fake1:mlx5 UCX_MORI_RDMA_NUM_QPS=$qps perf $few --op_type $op --start_block_size 64m
        [ "$(carriers $qps | wc -l)" = $qps ] || wrong "expected bytes on $qps queue pairs"
    done
    # with one entry each, a work request is a block, also where the owner puts what is read;
    # by one queue pair, as the fake ionic's default is two
    for batch in 1 16 auto; do
        # shellcheck disable=SC2086
        UCX_MORI_RDMA_NUM_QPS=1 UCX_MORI_RDMA_TX_MAX_SGE=1 UCX_MORI_RDMA_POST_BATCH=$batch perf $few --op_type $op --start_batch_size 4096
        carriers 1 | awk -v batch=$batch '
            { sum += $1; rung += $2; n = (batch == "auto") ? 32 : batch }
            END { exit !(sum >= 3 * 4096 && rung >= sum / n && rung <= (n > 1) * (sum / n + 64) + sum / n) }' ||
            wrong "expected a doorbell for $batch work requests"
    done
done
echo "kv_rdma.sh: passed"
