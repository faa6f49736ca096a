# RC-04
# shellcheck shell=bash
# limit: 300
# A container without --ulimit memlock=-1: registration fails in the kernel. One line names the
# limit, and the process continues with less, or by tcp; it does not hang.
. "$VM_TREE/test/vm/rdma.sh"

# A client that may lock so many KB, and is not allowed to lock more.
limited() { # KB LINES
    local status=0

    rdma_serve
    (
        ulimit -l "$1"
        UCX_NET_DEVICES=$(rdma_devices 1) timeout -k 5 60 \
            setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
            ucx_perftest 127.0.0.1 -p $rdma_port -t tag_lat -s 2000 -n 10 -w 1
    ) >/tmp/limited 2>&1 || status=$?
    kill $rdma_server 2>/dev/null
    wait $rdma_server
    echo "== $1 KB: status $status"
    cut -c1-200 /tmp/limited
    [ $status = 0 ] || die "$1 KB: exit status $status"
    [ "$(grep -c 'ulimit -l' /tmp/limited)" = "$2" ] || die "$1 KB: expected $2 lines that name the limit"
    [ "$(wc -l </tmp/limited)" -lt 60 ] || die "$1 KB: the log is flooded"
}

limited 64 1        # not even the receives of one endpoint: over tcp
limited 800 0       # little is enough for a few messages
limited unlimited 0 # the control: the same without a limit
