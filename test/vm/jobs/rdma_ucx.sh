# shellcheck shell=bash
# limit: 600
# Unmodified ucx_perftest over mori_rdma: every kind of transfer, with peer error handling. Not
# atomics: UCP emulates them, and not with error handling; the conformance suite has them.
. "$VM_TREE/test/vm/rdma.sh"

# the retries of a device are for microseconds: an emulated processor that others hold up takes
# longer than all of them for a window of 1 MiB
export UCX_MORI_RDMA_TIMEOUT=1s

cat >/tmp/small <<'END'
put_lat_8 -t ucp_put_lat -s 8 -n 50 -w 5
put_lat_4k -t ucp_put_lat -s 4096 -n 40 -w 5
get_8 -t ucp_get -s 8 -n 40 -w 5
get_64k -t ucp_get -s 65536 -n 20 -w 5
am_lat_8 -t ucp_am_lat -s 8 -n 50 -w 5
am_lat_8k -t ucp_am_lat -s 8192 -n 40 -w 5
tag_lat_8 -t tag_lat -s 8 -n 50 -w 5
tag_lat_64k -t tag_lat -s 65536 -n 20 -w 5
stream_lat_8 -t stream_lat -s 8 -n 50 -w 5
END
cat >/tmp/large <<'END'
put_bw_64 -t ucp_put_bw -s 64 -n 400 -w 20
put_bw_64k -t ucp_put_bw -s 65536 -n 30 -w 5
put_bw_1m -t ucp_put_bw -s 1048576 -n 5 -w 1
get_1m -t ucp_get -s 1048576 -n 5 -w 1
am_bw_1k -t ucp_am_bw -s 1024 -n 400 -w 20
am_bw_1m -t ucp_am_bw -s 1048576 -n 5 -w 1
tag_bw_1k -t tag_bw -s 1024 -n 400 -w 20
tag_bw_1m -t tag_bw -s 1048576 -n 5 -w 1
stream_bw_64k -t stream_bw -s 65536 -n 20 -w 5
END

before=$(rdma_sent 1)
rdma_batch /tmp/small
rdma_batch /tmp/large
moved=$(($(rdma_sent 1) - before))
# 1 MiB x 5 x three tests go from end 1: by the wire, not by lo
[ $moved -gt 15000000 ] || die "only $moved bytes crossed the pair"
