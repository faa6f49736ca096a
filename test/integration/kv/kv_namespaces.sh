#!/bin/sh
# Two processes in separate containers: mounts, process numbers and the network of their own,
# GPU memory on libhipcpu. Every byte arrives in each case. Addresses decide whether mori_xgmi
# is possible; tcp is used if not:
#
#   - other process numbers alone: mori_xgmi, as long as the numbers differ
#   - both are process 1: the GPU runtime mistakes the peer's handle for one of its own, and a
#     warning reports it
#   - another user: its pages cannot be read, and a warning reports it
#   - another network: a runtime that queries the owner of memory (ROCm 7.2) does not find it
#
# If addresses look right but the runtime opens no handle (AMD's error 17 for everything),
# transfers by lists are sent piece by piece.
set -eu
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../../support/environment.sh"
unshare --net --pid --mount --propagation unchanged --fork true 2>/dev/null || {
    echo "unshare(1) makes no namespaces here"
    exit 77
}
command -v ip >/dev/null || {
    echo "ip(8) of iproute2 is not here"
    exit 77
}

dir=$(mktemp -d)
left=mkva$$ right=mkvb$$
holders=
cleanup() {
    # shellcheck disable=SC2086
    [ -z "$holders" ] || kill $holders 2>/dev/null || :
    ip link del $left 2>/dev/null || :
    rm -rf "$dir"
}
trap cleanup EXIT
LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export UCX_PLUGIN_PATH="$build/.libs" UCX_TLS=mori_xgmi,mori_copy,tcp
export HIPCPU_IPC_TIMEOUT=200

# A network with one end of the pair; "holder" keeps it, until it is ended or this script is.
network() { # END ADDRESS
    unshare --net sleep infinity &
    holder=$!
    holders="$holders $holder"
    until [ "$(readlink /proc/$holder/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do
        kill -0 $holder
    done
    ip link set "$1" netns $holder
    nsenter --net="/proc/$holder/ns/net" sh -ec "ip link set lo up
        ip address add '$2/30' dev '$1'
        ip link set '$1' up"
}

# HOW: in a shell that is process 1 of the container, or in its place; user: as "shell", of
# another user than root.
other_user="setpriv --reuid 12345 --clear-groups"
side() { # ROLE HOW NETWORK
    set -- "$@" "$build/perf/kv_perf/mori_kv_perf" --role "$1" --peer "$dir/socket" --timeout 60 \
        --initiator_seg_type VRAM --target_seg_type "${target:-VRAM}" --api "${api:-mkv}" \
        --total_buffer_size 1m --max_batch_size 4 --max_block_size 64k --num_iter 5 --warmup_iter 1 \
        --check_consistency
    how=$2 network=$3
    shift 3
    # shellcheck disable=SC2086
    [ "$how" != user ] || set -- $other_user "$@"
    if [ "$how" != direct ]; then
        # shellcheck disable=SC2016
        set -- sh -c '"$@"; exit $?' sh "$@"
    fi
    # UCX looks for devices in sysfs, which is of the network that mounted it
    # shellcheck disable=SC2016
    [ "$network" = same ] || set -- nsenter --net="/proc/$network/ns/net" \
        sh -ec 'mount --make-private /sys && mount -t sysfs sysfs /sys && exec "$@"' sh "$@"
    exec unshare --mount --propagation unchanged --pid --fork "$@"
}

run() { # NAME HOW_OF_DECODE HOW_OF_PREFILL LEFT RIGHT
    rm -f "$dir/socket"
    (side decode "$2" "$4") >"$dir/decode" 2>&1 &
    decode=$!
    (side prefill "$3" "$5") >"$dir/prefill" 2>&1 || {
        cat "$dir/prefill" "$dir/decode"
        echo "kv_namespaces.sh: $1: the initiator failed"
        exit 1
    }
    wait $decode || {
        cat "$dir/decode"
        echo "kv_namespaces.sh: $1: the target failed"
        exit 1
    }
    cat "$dir/prefill" "$dir/decode" >"$dir/both"
    grep -q 'every byte checked' "$dir/both" || {
        cat "$dir/both"
        echo "kv_namespaces.sh: $1: no byte was checked"
        exit 1
    }
}

expect() { # NAME PATTERN
    grep -q -e "$2" "$dir/both" || {
        cat "$dir/both"
        echo "kv_namespaces.sh: $1: no '$2'"
        exit 1
    }
    echo "ok $1"
}

export UCX_NET_DEVICES=lo
run "other process numbers" shell direct same same
expect "other process numbers" 'path .*mori_xgmi/'
run "two processes 1" direct direct same same
expect "two processes 1" 'path .*: tcp (.*tcp/'
expect "two processes 1" 'WARN .*mori_xgmi does not reach a process of this host: same pid 1 in another pid namespace'
expect "two processes 1" 'rocm memory is slow: .*; it has the same pid 1 in another pid namespace'

# A pid names another process there, or none: the kernel copies no private memory.
target=DRAM api=ucp
export UCX_LOG_LEVEL=info
run "private memory" shell direct same same
expect "private memory" 'copied by messages, because .*: another PID namespace'
expect "private memory" 'path put VRAM>DRAM: .*copy-out mori_xgmi/'
unset UCX_LOG_LEVEL target api

export HIPCPU_FAIL=hipIpcOpenMemHandle:0:17 UCX_MORI_XGMI_OPEN_TIMEOUT=30s
run "no handle opens" shell direct same same
expect "no handle opens" 'has no way to the memory of peer'
unset HIPCPU_FAIL UCX_MORI_XGMI_OPEN_TIMEOUT

# The reason why one process cannot read the other's page is reported, and tcp is used.
if $other_user test -x "$build/perf/kv_perf/mori_kv_perf" && $other_user test -r "$build/.libs/libuct_mori.so.0"; then
    chmod 755 "$dir"
    umask 0
    run "another user" direct user same same
    umask 022
    expect "another user" "does not reach a peer of another user: .* is user 0's, and this process is user 12345's"
    expect "another user" 'path .*: tcp (.*tcp/'
fi

ip link add $left type veth peer name $right
network $left 10.213.7.1
left_holder=$holder
network $right 10.213.7.2
right_holder=$holder
export HIPCPU_VERSION=7.2 HIPCPU_RULES=amd
run "one network, ROCm 7.2" shell direct same same
expect "one network, ROCm 7.2" 'path .*mori_xgmi/'
export UCX_NET_DEVICES=$left,$right
run "two networks, ROCm 7.2" shell direct $left_holder $right_holder
expect "two networks, ROCm 7.2" 'path .*: tcp (.*tcp/'
echo "kv_namespaces.sh: passed"
