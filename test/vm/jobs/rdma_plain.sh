# BM-03
# shellcheck shell=bash
# nightly
# limit: 1500
# UCX's own rc_verbs beside mori_rdma: one UCX, one pair of soft-RoCE devices, the same program
# and options, in turn. Means of puts and of libmorikv's plans of 1 MiB and more; red where ours
# is slower by more than 5 %. Ratios alone mean something here.
#
# Debian's UCX and the libucx wheels are built without verbs transports; NIXL's wheel has them. With
# MKV_VM_SHORT one short run of each lane, and nothing is compared.
. "$VM_TREE/test/vm/rdma.sh"
bench_put=$(vm_program "$MKV_BUILD/perf/bench/bench_put")
kv_perf=$(vm_program "$MKV_BUILD/perf/kv_perf/mori_kv_perf")
nixl=$("$VM_TREE/contrib/fetch_nixl" --path 1.5.1)/nixl_cu12.libs
rounds=${MKV_VM_ROUNDS:-5}

[ -e "$nixl/ucx/libuct_ib.so.0.0.0" ] || {
    echo "no UCX with rc_verbs: contrib/devroot run contrib/fetch_nixl 1.5.1 brings one"
    exit 77
}

# The wheel's UCX under the names of programs, and the system's libibverbs, which knows soft-RoCE,
# under the name of the wheel's.
own_ucx() {
    local lib libs=/tmp/libs

    mkdir -p $libs/ucx
    for lib in ucp uct ucs ucm; do
        ln -s "$nixl"/lib$lib-*.so.* $libs/lib$lib.so.0
    done
    ln -s "$nixl/ucx/libuct_ib.so.0.0.0" $libs/ucx/libuct_ib.so.0
    for lib in "$nixl"/libibverbs-*; do
        ln -s "$(ldconfig -p | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)" "$libs/${lib##*/}"
    done
    export LD_LIBRARY_PATH=$libs:$nixl:$LD_LIBRARY_PATH
}

# Settings of rc_verbs for these devices; its strong fence reads by a key that it does not
# have for its peer. Each waits a second for an answer, enough for an emulated processor.
own_ucx
export UCX_IB_GID_INDEX=1 UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_FENCE_MODE=weak
export UCX_RC_VERBS_TIMEOUT=1s UCX_MORI_RDMA_TIMEOUT=1s

# tcp uses lo alone, so bytes that leave the device identify the transport.
put() { # LANE BYTES COUNT
    local before figure

    before=$(rdma_sent 1)
    figure=$(UCX_TLS=$1,tcp timeout -k 5 $rdma_limit "$bench_put" "$2" "$3" rxe0:1,lo rxe1:1,lo 2>/tmp/put) ||
        die "bench_put over $1: $(cat /tmp/put)"
    [ $(($(rdma_sent 1) - before)) -ge $(($2 * $3)) ] || die "puts of $2 bytes did not go over $1: $(cat /tmp/put)"
    echo "put WRITE $2 $1 $figure" | tee -a /tmp/figures
}

plan() { # LANE WRITE|READ
    local decode path=/tmp/kv.sock lane=$1 options=()
    options=(--peer "$path" --op_type "$2" --start_block_size 1m --max_block_size 4m --start_batch_size 4
        --total_buffer_size 32m --num_iter 2 --warmup_iter 1 --large_blk_iter_ftr 1)

    rm -f $path
    UCX_TLS=$lane,tcp UCX_NET_DEVICES=rxe0:1,lo timeout -k 5 $rdma_limit "$kv_perf" --role decode "${options[@]}" \
        >/tmp/decode 2>&1 &
    decode=$!
    vm_wait test -S $path || die "no decode process: $(cat /tmp/decode)"
    UCX_TLS=$lane,tcp UCX_NET_DEVICES=rxe1:1,lo timeout -k 5 $rdma_limit "$kv_perf" --role prefill "${options[@]}" \
        --json /tmp/rows >/tmp/prefill 2>&1 || die "plan over $lane: $(cat /tmp/prefill /tmp/decode)"
    wait $decode || die "plan over $lane: $(cat /tmp/decode)"
    grep -q "\"path\": .*$lane/" /tmp/rows || die "the plan did not go over $lane: $(cat /tmp/rows)"
    # its GB/s have three decimals, which are too few here
    sed -n 's/.*"\(block_size\|bytes\|wall_ns\)": \([0-9]*\),.*/\1 \2/p' /tmp/rows |
        awk -v lane="$lane" -v op="$2" '{ of[$1] = $2 }
            $1 == "wall_ns" { printf "mkv %s %s %s %.2f\n", op, of["block_size"], lane, 1000 * of["bytes"] / $2 }' |
        tee -a /tmp/figures
}

# Run one after the other; the order changes from round to round.
in_turn() { # ROUND COMMAND [ARG...]: COMMAND LANE ARG...
    local command=$2 lane lanes="rc_verbs mori_rdma"

    (($1 % 2 == 1)) || lanes="mori_rdma rc_verbs"
    shift 2
    for lane in $lanes; do
        $command "$lane" "$@"
    done
}

if [ -n "${MKV_VM_SHORT:-}" ]; then
    in_turn 1 put 65536 20
    exit 0
fi
for ((round = 1; round <= rounds; round++)); do
    in_turn $round put 1048576 40
    in_turn $round put 4194304 10
    in_turn $round put 16777216 2
    in_turn $round plan WRITE
    in_turn $round plan READ
done
echo "MB/s (puts: 2^20 bytes, plans: 10^6)"
"$VM_TREE/perf/kv_perf/lane_ratios.sh" /tmp/figures mean
