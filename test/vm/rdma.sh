# shellcheck shell=bash
# For jobs: pairs of UCX processes, one on each end of the soft-RoCE pairs.

export UCX_PLUGIN_PATH=$MKV_BUILD/.libs LD_LIBRARY_PATH=$MKV_BUILD/.libs
export UCX_TLS=mori_rdma,tcp UCX_WARN_UNUSED_ENV_VARS=n
rdma_rails=1    # pairs each process may use
rdma_port=13400 # of the next pair
rdma_limit=280  # seconds for a pair, on a busy machine

die() {
    echo "$*" >&2
    exit 1
}

# Devices of end 0 or 1: tcp keeps to lo, and by itself has the end's network device.
rdma_devices() { # END
    local n list=lo

    [ "$UCX_TLS" != tcp ] || {
        echo "v$1"
        return
    }
    for ((n = 0; n < rdma_rails; n++)); do
        list=rxe$((2 * n + $1)):1,$list
    done
    echo "$list"
}

rdma_listening() { # PORT
    grep -q "$(printf ':%04X 0*:0000 0A' "$1")" /proc/net/tcp /proc/net/tcp6
}

# Bytes that left device rxeNUMBER.
rdma_sent() { # NUMBER
    cat "/sys/class/net/v$1/statistics/tx_bytes"
}

# Start a ucx_perftest server on end 0; its process is $rdma_server.
rdma_serve() { # [ARG...]
    rdma_port=$((rdma_port + 1))
    UCX_NET_DEVICES=$(rdma_devices 0) timeout -k 5 $rdma_limit \
        ucx_perftest -p $rdma_port "$@" >/tmp/server.$rdma_port 2>&1 &
    rdma_server=$!
    vm_wait rdma_listening $rdma_port || die "no ucx_perftest listens: $(cat /tmp/server.$rdma_port)"
}

# The client of the server just started, on end 1, in the foreground.
rdma_client() { # ARG...
    UCX_NET_DEVICES=$(rdma_devices 1) timeout -k 5 $rdma_limit \
        ucx_perftest 127.0.0.1 -p $rdma_port "$@"
}

# Run a program of perftest, such as ib_write_bw, on both ends. The client's output goes to /tmp/verbs.client.
rdma_perftest() { # PROGRAM [ARG...]
    rdma_port=$((rdma_port + 1))
    set -- "$@" -x 1 -F -p $rdma_port
    timeout 600 "$@" -d rxe0 >/tmp/verbs.server 2>&1 &
    vm_wait rdma_listening $rdma_port || die "no $1 listens: $(cat /tmp/verbs.server)"
    timeout 600 "$@" -d rxe1 127.0.0.1 >/tmp/verbs.client 2>&1 || die "$1: $(cat /tmp/verbs.client)"
    wait $!
}

# A batch of tests with peer error handling; every line of FILE is "name arguments".
rdma_batch() { # FILE [ARG...]
    local file=$1 status=0 name
    shift

    rdma_serve -b "$file" -e
    rdma_client -b "$file" -e -f "$@" >/tmp/client.$rdma_port 2>&1 || status=$?
    wait $rdma_server || status=$?
    cat /tmp/client.$rdma_port
    if [ $status != 0 ]; then
        cat /tmp/server.$rdma_port
        die "$file: exit status $status"
    fi
    while read -r name _; do
        grep -q "$name" /tmp/client.$rdma_port || die "$file: no result for $name"
    done <"$file"
    if grep -E 'ERROR|WARN' /tmp/client.$rdma_port /tmp/server.$rdma_port; then
        die "$file: errors or warnings in a good run"
    fi
}
