# BM-01
# shellcheck shell=bash
# nightly
# limit: 900
# Not a test of speed (there is none under emulation): figures of one run, side by side.
# Microseconds one way of ib_write_lat, of UCX's put over mori_rdma, and over tcp on the same
# pair, 8 bytes to 64 KiB: medians of $rounds rounds in turn, each the median of its puts. Both
# processes poll memory without pause, with each of them. With MKV_VM_SHORT two sizes, once.
. "$VM_TREE/test/vm/rdma.sh"
rounds=${MKV_VM_ROUNDS:-5} count=200
sizes="8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768 65536"
[ -z "${MKV_VM_SHORT:-}" ] || rounds=1 count=20 sizes="8 65536"
# The kernel's threads move the packets on the same processors; pollers yield to them.
chrt --idle --pid 0 $$ || die "no scheduling policy"
export UCX_MORI_RDMA_TIMEOUT=1s # fit for an emulated processor, as -u 18

write_lat() { # lines "verbs BYTES MICROSECONDS"
    local size

    for size in $sizes; do
        rdma_perftest ib_write_lat -s "$size" -n $count -u 18
        awk -v s="$size" '$1 == s { print "verbs", s, $5 }' /tmp/verbs.client
    done
}

# All sizes in one pair of processes; a line of the batch begins with its name.
ucx_lat() { # NAME: lines "NAME BYTES MICROSECONDS"
    local size

    for size in $sizes; do
        echo "$size -t ucp_put_lat -s $size -n $count -w $((count / 10))"
    done >/tmp/batch
    rdma_serve -b /tmp/batch -e
    rdma_client -b /tmp/batch -e -f -v >/tmp/ucx.client 2>&1 || die "ucp_put_lat: $(cat /tmp/ucx.client)"
    wait "$rdma_server"
    awk -F , -v name="$1" '$1 ~ /^[0-9]+$/ { print name, $1, $3 }' /tmp/ucx.client
}

for ((round = 0; round < rounds; round++)); do
    write_lat
    ucx_lat mori_rdma
    UCX_TLS=tcp ucx_lat tcp || exit 1
done >/tmp/figures

median() { # NAME SIZE
    awk -v name="$1" -v s="$2" '$1 == name && $2 == s { print $3 }' /tmp/figures | sort -n |
        awk -v rounds="$rounds" '{ figures[NR] = $1 } END { if (NR == rounds) print figures[int((NR + 1) / 2)] }'
}

echo "| bytes | ib_write_lat | ucp_put_lat over mori_rdma | of ib_write_lat's | over tcp |"
echo "|--:|--:|--:|--:|--:|"
for size in $sizes; do
    echo "$size $(median verbs "$size") $(median mori_rdma "$size") $(median tcp "$size")"
done | awk 'NF != 4 { exit 1 } { printf "| %d | %.0f | %.0f | %.2f | %.0f |\n", $1, $2, $3, $3 / $2, $4 }' ||
    die "not $rounds figures of each: $(cat /tmp/figures)"
