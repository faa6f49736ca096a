# shellcheck shell=bash
# For jobs of two hosts: such a job runs outside, and directs two machines, host1 and host2,
# each with a kernel, a name, an address and a soft-RoCE device rxe0 of its own, joined by a
# cable, eth0 to eth0. It needs $MKV_BUILD and $VM_TREE; all machines end with it.

. "$VM_TREE/test/vm/guest.sh"

hosts_dir=$(mktemp -d /tmp/ucx-mori-hosts.XXXXXX)
hosts_limit=4200 # seconds of a machine
declare -A hosts_to=() hosts_from=() hosts_process=()

die() {
    echo "$*" >&2
    exit 1
}

hosts_close() {
    local n

    for n in "${!hosts_process[@]}"; do
        host_kill "$n"
    done
    rm -rf "$hosts_dir"
}
trap hosts_close EXIT
trap 'exit 1' TERM INT

# Power on; the machine takes commands when host_ready has returned.
host_boot() { # NUMBER
    local n=$1 to from

    rm -f "$hosts_dir/$n".{to,from,pid}
    mkfifo "$hosts_dir/$n".{to,from}
    "$VM_TREE/test/vm/run" -i -n "$n:$hosts_dir" -c 1 -m 768 -t "$hosts_limit" -- \
        bash -c ". '$VM_TREE/test/vm/guest.sh'; . '$VM_TREE/test/vm/serve.sh'" \
        <"$hosts_dir/$n.to" >"$hosts_dir/$n.from" 2>"$hosts_dir/$n.log" &
    hosts_process[$n]=$!
    exec {to}>"$hosts_dir/$n.to" {from}<"$hosts_dir/$n.from"
    hosts_to[$n]=$to hosts_from[$n]=$from
}

# Output of a command, until the line with its exit status, which is returned.
host_answer() { # NUMBER
    local line mark=$'\001'

    while IFS= read -r line <&"${hosts_from[$1]}"; do
        case $line in
        *"$mark"*)
            printf '%s' "${line%"$mark"*}"
            return "${line##*"$mark"}"
            ;;
        esac
        printf '%s\n' "$line"
    done
    return 125
}

host_ready() { # NUMBER
    host_answer "$1" && return
    cat "$hosts_dir/$1.log"
    wait "${hosts_process[$1]}"
    [ $? != 77 ] || exit 77
    die "host$1 did not boot"
}

# Run a command there; return its output and its exit status. 125: the machine is off.
host() { # NUMBER CMD...
    local n=$1
    shift

    printf '%q ' "$@" >&"${hosts_to[$n]}"
    echo >&"${hosts_to[$n]}"
    host_answer "$n"
}

# Power off, as if unplugged.
host_kill() { # NUMBER
    local n=$1 process=${hosts_process[$1]} fd

    while kill -0 "$process" 2>/dev/null && [ ! -s "$hosts_dir/$n.pid" ]; do
        sleep 0.1 # it is not on yet
    done
    kill -KILL "$(cat "$hosts_dir/$n.pid" 2>/dev/null)" 2>/dev/null
    wait "$process" 2>/dev/null
    for fd in "${hosts_to[$n]}" "${hosts_from[$n]}"; do
        exec {fd}>&-
    done
    unset "hosts_process[$n]"
}
