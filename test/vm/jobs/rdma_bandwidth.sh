# shellcheck shell=bash
# limit: 600
# Not a test of speed (there is none under emulation): figures of one run, side by side.
# Megabytes a second of ib_write_bw, of UCX's put over mori_rdma, and over tcp on the same pair.
# With MKV_VM_SHORT, one row and few rounds.
. "$VM_TREE/test/vm/rdma.sh"

write_bw() { # SIZE COUNT
    rdma_port=$((rdma_port + 1))
    timeout 60 ib_write_bw -d rxe0 -x 1 -F -s "$1" -n "$2" -p $rdma_port >/tmp/bw.server 2>&1 &
    vm_wait rdma_listening $rdma_port || die "no ib_write_bw listens: $(cat /tmp/bw.server)"
    timeout 60 ib_write_bw -d rxe1 -x 1 -F -s "$1" -n "$2" -p $rdma_port 127.0.0.1 >/tmp/bw.client 2>&1 ||
        die "ib_write_bw: $(cat /tmp/bw.client)"
    wait $!
    awk -v s="$1" '$1 == s { print $4 }' /tmp/bw.client
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

# As with ib_write_bw, 128 puts are under way, the server waits (-o), and the client polls,
# which takes a processor from the kernel's threads that move the packets. Over tcp the server
# cannot wait: there it takes part in a put.
mori_bw() { # SIZE COUNT
    ucx_bw "$@" -o -O 128
}

# Both sleep on the event descriptor, which ib_write_bw cannot.
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

echo "| bytes | ib_write_bw | ucp_put over mori_rdma | with NUM_QPS=2 | asleep | ucp_put over tcp |"
echo "|---|---|---|---|---|---|"
if [ -n "${MKV_VM_SHORT:-}" ]; then
    rows="65536 40"
else
    rows="4096 1000
65536 400
1048576 30"
fi
while read -r size count; do
    verbs=$(write_bw "$size" "$count") || exit 1
    mori=$(mori_bw "$size" "$count") || exit 1
    two=$(UCX_MORI_RDMA_NUM_QPS=2 mori_bw "$size" "$count") || exit 1
    asleep=$(sleeping_bw "$size" "$count") || exit 1
    tcp=$(tcp_bw "$size" "$count") || exit 1
    echo "| $size | $verbs | $mori | $two | $asleep | $tcp |"
done <<<"$rows"
