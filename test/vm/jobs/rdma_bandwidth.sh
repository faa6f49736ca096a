# BM-01
# shellcheck shell=bash
# nightly
# limit: 1200
# Not a test of speed (there is none under emulation): figures of one run, side by side.
# Megabytes a second of ib_write_bw, of UCX's put over mori_rdma, and over tcp on the same pair.
# With MKV_VM_SHORT only the parts that no other job has (both sides asleep, on two queue pairs),
# and figures that do not depend on the machine: packets for the same bytes, packets sent again,
# doorbells.
. "$VM_TREE/test/vm/rdma.sh"
bench_put=$(vm_program "$MKV_BUILD/perf/bench/bench_put")

write_bw() { # SIZE COUNT [ARG...]
    local size=$1 count=$2
    shift 2

    rdma_perftest ib_write_bw -s "$size" -n "$count" "$@"
    awk -v s="$size" '$1 == s { print $4 }' /tmp/verbs.client
}

ucx_bw() { # SIZE COUNT [ARG...]
    local size=$1 count=$2
    shift 2

    rdma_serve "$@"
    rdma_client -t ucp_put_bw -e -s "$size" -n "$count" -w $((count / 10 + 1)) -f -q "$@" \
        >/tmp/ucx.client 2>&1 || die "ucp_put_bw: $(cat /tmp/ucx.client)"
    wait "$rdma_server"
    # iterations, 3 latencies, bandwidth of the end and of all, messages a second of both
    awk 'NF >= 8 && $1 ~ /^[0-9]+$/ { print $6 }' /tmp/ucx.client
}

# ib_write_bw keeps 128 writes in flight. Its server sleeps and its client polls, which takes
# a processor from the kernel's threads that move the packets. ucx_perftest's server polls
# with all options (-o, -E), so that two processes poll; bench_put's target sleeps.
perftest_bw() { # SIZE COUNT
    ucx_bw "$@" -o -O 128
}

put_bw() { # SIZE COUNT [TARGET-WAIT [WAIT]]
    local size=$1 count=$2
    shift 2

    timeout -k 5 $rdma_limit "$bench_put" "$size" "$count" "$(rdma_devices 0)" "$(rdma_devices 1)" "$@" \
        2>/tmp/put || die "bench_put: $(cat /tmp/put)"
}

# Run beside a process that never sleeps, like ucx_perftest's server.
beside_a_loop() { # CMD...
    local loop status=0

    (while :; do :; done) &
    loop=$!
    "$@" || status=$?
    kill $loop
    wait $loop 2>/dev/null
    return $status
}

# The kernel's threads move the packets on the same processors; pollers yield to them.
giving_way() { # CMD...
    (chrt --idle --pid 0 "$BASHPID" && "$@")
}

counter() { # NAME
    cat "/sys/class/infiniband/rxe1/ports/1/hw_counters/$1"
}

# Set packets and retries to the numbers that rxe1 has sent in CMD, without those of connecting.
counted() { # CMD...
    packets=$(counter sent_pkts) retries=$(counter completer_retry_err)
    "$@" >/tmp/counted || exit 1
    packets=$(($(counter sent_pkts) - packets))
    retries=$(($(counter completer_retry_err) - retries))
}

# Each waits a second for an answer, which is long enough for an emulated processor.
same_packets() {
    local size=65536 count=200 verbs verbs_retries requests doorbells bytes

    counted write_bw $size $count -u 18
    verbs=$packets verbs_retries=$retries
    UCX_MORI_RDMA_TIMEOUT=1s UCX_LOG_LEVEL=info counted perftest_bw $size $count
    read -r requests doorbells bytes < <(sed -n 's/.*queue pair 0 of 1.*: \([0-9]*\) work requests, \([0-9]*\) doorbells, \([0-9]*\) bytes.*/\1 \2 \3/p' \
        /tmp/ucx.client | tail -1)
    [ -n "$bytes" ] || die "no counters: $(cat /tmp/ucx.client)"
    echo "ib_write_bw: $verbs packets for $count writes of $size bytes, $verbs_retries retries"
    echo "mori_rdma: $packets packets for $bytes bytes, $retries retries," \
        "$doorbells doorbells for $requests work requests"
    # ib_write_bw rings for each
    [ "$doorbells" -le "$requests" ] && [ "$retries" -le "$verbs_retries" ] &&
        [ $((packets * count * size * 100)) -le $((verbs * bytes * 101)) ]
}

same_packets || same_packets || same_packets || die "not as few packets as ib_write_bw"
export UCX_MORI_RDMA_TIMEOUT=1s
if [ -n "${MKV_VM_SHORT:-}" ]; then
    asleep=$(UCX_MORI_RDMA_NUM_QPS=2 put_bw 65536 40 sleep sleep) || exit 1
    echo "puts of 65536 bytes, both asleep, on two queue pairs: $asleep MB/s"
    [ -n "$asleep" ] || die "no bandwidth"
    exit 0
fi

rounds=${MKV_VM_ROUNDS:-5}

# Means of lines of two figures, their ratio, and the spread of single runs.
compare() { # WHAT
    awk -v what="$1" -v rounds="$rounds" 'NF == 2 {
            verbs += $1; mori += $2; ratio = $2 / $1; ++num
            least = (num == 1 || ratio < least) ? ratio : least
            most = (ratio > most) ? ratio : most
        } END {
            if (num < rounds) exit 1
            printf "%s: ib_write_bw %.1f, mori_rdma %.1f, ratio of the means of %d %.2f (single runs %.2f to %.2f)\n",
                what, verbs / num, mori / num, num, mori / verbs, least, most
        }'
}

# Run in turn, as each spreads from run to run by more than they differ, and on even terms:
# one process polls, two do, or one that gets a processor only when the kernel needs none.
in_turn() { # SIZE COUNT
    local size=$1 i

    rm -f /tmp/one /tmp/two /tmp/idle
    for ((i = 0; i < rounds; i++)); do
        echo "$(write_bw "$@" -u 18) $(put_bw "$@")" >>/tmp/one
        echo "$(beside_a_loop write_bw "$@" -u 18) $(perftest_bw "$@")" >>/tmp/two
        echo "$(giving_way write_bw "$@" -u 18) $(giving_way put_bw "$@")" >>/tmp/idle
    done
    compare "$size bytes, the client polls" </tmp/one &&
        compare "$size bytes, two processes poll" </tmp/two &&
        compare "$size bytes, the client polls and gives way" </tmp/idle
}

in_turn 65536 800 || die "not $rounds runs of each"
in_turn 1048576 50 || die "not $rounds runs of each"
echo "| bytes | ib_write_bw | mori_rdma, client polls | with NUM_QPS=2 | both asleep | both poll (ucx_perftest) | ucp_put over tcp |"
echo "|---|---|---|---|---|---|---|"
rows="4096 2000
65536 800
1048576 50
16777216 5"
while read -r size count; do
    verbs=$(write_bw "$size" "$count" -u 18) || exit 1
    mori=$(put_bw "$size" "$count") || exit 1
    two=$(UCX_MORI_RDMA_NUM_QPS=2 put_bw "$size" "$count") || exit 1
    asleep=$(put_bw "$size" "$count" sleep sleep) || exit 1
    both=$(perftest_bw "$size" "$count") || exit 1
    tcp=$(UCX_TLS=tcp ucx_bw "$size" "$count") || exit 1 # its server takes part in a put
    echo "| $size | $verbs | $mori | $two | $asleep | $both | $tcp |"
done <<<"$rows"
