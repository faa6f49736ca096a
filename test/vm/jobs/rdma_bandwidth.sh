# shellcheck shell=bash
# limit: 1200
# Not a test of speed (there is none under emulation): figures of one run, side by side.
# Megabytes a second of ib_write_bw, of UCX's put over mori_rdma, and over tcp on the same pair.
# With MKV_VM_SHORT only what no other job has: both sides asleep, on two queue pairs; and what
# does not depend on the machine: packets for the same bytes, packets sent again, doorbells.
. "$VM_TREE/test/vm/rdma.sh"

write_bw() { # SIZE COUNT [ARG...]
    local size=$1 count=$2
    shift 2

    rdma_port=$((rdma_port + 1))
    timeout 60 ib_write_bw -d rxe0 -x 1 -F -s "$size" -n "$count" -p $rdma_port "$@" >/tmp/bw.server 2>&1 &
    vm_wait rdma_listening $rdma_port || die "no ib_write_bw listens: $(cat /tmp/bw.server)"
    timeout 60 ib_write_bw -d rxe1 -x 1 -F -s "$size" -n "$count" -p $rdma_port "$@" 127.0.0.1 \
        >/tmp/bw.client 2>&1 ||
        die "ib_write_bw: $(cat /tmp/bw.client)"
    wait $!
    awk -v s="$size" '$1 == s { print $4 }' /tmp/bw.client
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

# As with ib_write_bw, 128 puts are under way, the server takes no part (-o), and the client
# polls, which takes a processor from the kernel's threads that move the packets. ib_write_bw's
# server sleeps meanwhile; ucx_perftest's polls for its client, so that two poll here. Over tcp
# the server takes part in a put.
mori_bw() { # SIZE COUNT
    ucx_bw "$@" -o -O 128
}

# The client sleeps on the event descriptor, which ib_write_bw cannot; the server polls all the
# same, so that one process polls, as with ib_write_bw.
sleeping_bw() { # SIZE COUNT
    ucx_bw "$@" -E sleep -O 128
}

tcp_bw() { # SIZE COUNT
    (
        export UCX_TLS=tcp
        rdma_devices() { echo "v$1"; }
        ucx_bw "$@"
    )
}

counter() { # NAME
    cat "/sys/class/infiniband/rxe1/ports/1/hw_counters/$1"
}

# Set packets and retries to what rxe1 has sent in CMD, for bytes beside what connecting takes.
counted() { # CMD...
    packets=$(counter sent_pkts) retries=$(counter completer_retry_err)
    "$@" >/tmp/counted || exit 1
    packets=$(($(counter sent_pkts) - packets))
    retries=$(($(counter completer_retry_err) - retries))
}

# Both wait a second for an answer, which is long enough for an emulated processor.
same_packets() {
    local size=65536 count=200 verbs verbs_retries requests doorbells bytes

    counted write_bw $size $count -u 18
    verbs=$packets verbs_retries=$retries
    UCX_MORI_RDMA_TIMEOUT=1s UCX_LOG_LEVEL=info counted mori_bw $size $count
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
if [ -n "${MKV_VM_SHORT:-}" ]; then
    asleep=$(UCX_MORI_RDMA_NUM_QPS=2 sleeping_bw 65536 40) || exit 1
    echo "puts of 65536 bytes, asleep, on two queue pairs: $asleep MB/s"
    [ -n "$asleep" ] || die "no bandwidth"
    exit 0
fi

# Five times in turn, as either spreads from run to run by more than they differ.
in_turn() { # SIZE COUNT
    local i

    for i in 1 2 3 4 5; do
        echo "$i $(write_bw "$1" "$2" -u 18) $(UCX_MORI_RDMA_TIMEOUT=1s mori_bw "$1" "$2")"
    done | awk -v size="$1" 'NF == 3 {
            verbs += $2; mori += $3; ratio = $3 / $2; ++num
            least = (num == 1 || ratio < least) ? ratio : least
            most = (ratio > most) ? ratio : most
        } END {
            if (num < 5) exit 1
            printf "mean of five of %d bytes: ib_write_bw %.1f, mori_rdma %.1f, ratio %.2f (single runs %.2f to %.2f)\n",
                size, verbs / num, mori / num, mori / verbs, least, most
        }'
}

in_turn 65536 400 || die "not five runs of each"
in_turn 1048576 30 || die "not five runs of each"
echo "| bytes | ib_write_bw | ucp_put over mori_rdma | with NUM_QPS=2 | asleep | ucp_put over tcp |"
echo "|---|---|---|---|---|---|"
rows="4096 1000
65536 400
1048576 30"
while read -r size count; do
    verbs=$(write_bw "$size" "$count") || exit 1
    mori=$(mori_bw "$size" "$count") || exit 1
    two=$(UCX_MORI_RDMA_NUM_QPS=2 mori_bw "$size" "$count") || exit 1
    asleep=$(sleeping_bw "$size" "$count") || exit 1
    tcp=$(tcp_bw "$size" "$count") || exit 1
    echo "| $size | $verbs | $mori | $two | $asleep | $tcp |"
done <<<"$rows"
