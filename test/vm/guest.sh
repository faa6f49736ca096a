# shellcheck shell=bash
# The guest's network: sourced before the job's command, exported to it.
#
# Pair N joins vM and vM+1 (M = 2N) by veth: rxeM on vM with address 10.9.N.1, rxeM+1 on
# vM+1 with 10.9.N.2. Both addresses are this host's own, so the kernel would take the
# loopback device, where soft-RoCE loses its packets: rules send them over the pair.

# shellcheck source=test/support/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/environment.sh"

vm_mtu=4200 # room for a RoCE MTU of 4096

vm_address() { echo "10.9.$(($1 / 2)).$(($1 % 2 + 1))"; } # NUMBER

vm_peer() { echo $(($1 ^ 1)); } # NUMBER

# Routes and neighbours of one end; the kernel drops them with the link.
vm_end_commands() { # NUMBER MAC-OF-PEER
    local n=$1 peer
    peer=$(vm_peer "$n")

    echo "route replace $(vm_address "$peer")/32 dev v$n src $(vm_address "$n") table $((200 + n))"
    echo "neigh replace $(vm_address "$peer") lladdr $2 dev v$n nud permanent"
}

vm_mac() { printf '02:00:00:00:09:%02x' "$1"; } # NUMBER

vm_pair_commands() { # PAIR
    local a=$((2 * $1)) b=$((2 * $1 + 1)) n

    echo "link add v$a mtu $vm_mtu address $(vm_mac $a) type veth" \
        "peer name v$b mtu $vm_mtu address $(vm_mac $b)"
    for n in $a $b; do
        echo "address add $(vm_address "$n")/24 dev v$n"
        echo "link set v$n up"
        echo "rule add pref 10 iif v$n lookup local"
        echo "rule add pref 100 to $(vm_address "$(vm_peer "$n")") lookup $((200 + n))"
    done
    for n in $a $b; do
        vm_end_commands "$n" "$(vm_mac "$(vm_peer "$n")")"
    done
}

vm_rule_commands() {
    echo "rule add pref 32000 lookup local"
    echo "rule del pref 0"
    echo "rule add pref 5 to 127.0.0.0/8 lookup local"
}

# Make pairs 0 to COUNT - 1. Once in the life of the machine.
vm_pairs_up() { # COUNT
    local n conf=/proc/sys/net/ipv4/conf

    [ "$1" -gt 0 ] || return 0
    echo 0 >$conf/all/rp_filter
    echo 0 >$conf/default/rp_filter
    echo 1 >$conf/default/accept_local
    echo 1 >$conf/default/arp_ignore
    echo 2 >$conf/default/arp_announce
    {
        vm_rule_commands
        for ((n = 0; n < $1; n++)); do
            vm_pair_commands $n
        done
    } | ip -batch - || return 1
    for ((n = 0; n < 2 * $1; n++)); do
        echo "link add rxe$n type rxe netdev v$n"
    done | rdma -b -
}

# Set up a host: its name, the other's, and a device on the cable between them.
vm_host_up() { # NUMBER
    hostname "host$1"
    printf '10.10.0.%d host%d\n' 1 1 2 2 >>/etc/hosts
    printf '%s\n' "link set eth0 mtu $vm_mtu up" "address add 10.10.0.$1/24 dev eth0" | ip -batch - &&
        rdma link add rxe0 type rxe netdev eth0
}

# Disturb packets that leave rxeNUMBER: vm_netem 0 loss 5%; vm_netem 0 delay 20ms.
vm_netem() { # NUMBER NETEM-ARGUMENT...
    local n=$1
    shift
    tc qdisc replace dev "v$n" root netem limit 100000 "$@"
}

vm_netem_off() { # NUMBER
    tc qdisc del dev "v$1" root 2>/dev/null || true
}

# Port events: both ends see the port go down and come up.
vm_link_down() { # NUMBER
    ip link set "v$1" down
}

vm_link_up() { # NUMBER
    local n=$1 peer
    peer=$(vm_peer "$n")
    {
        echo "link set v$n up"
        vm_end_commands "$n" "$(vm_mac "$peer")"
        vm_end_commands "$peer" "$(vm_mac "$n")"
    } | ip -batch -
}

# The GID of an address, as sysfs writes it.
vm_gid() { # ADDRESS
    local -a part
    IFS=. read -r -a part <<<"$1"
    printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x\n' "${part[0]}" "${part[1]}" "${part[2]}" "${part[3]}"
}

vm_other_address() { echo "10.8.0.$(($1 + 1))"; } # NUMBER

# The first place of an address in the table of rxeNUMBER.
vm_gid_index() { # NUMBER ADDRESS
    grep -lx "$(vm_gid "$2")" "/sys/class/infiniband/rxe$1/ports/1/gids/"* 2>/dev/null |
        sed 's|.*/||' | sort -n | head -n 1 | grep .
}

# Remove the address of rxeNUMBER, let another one take its place in the table, and add the
# address again.
vm_address_move() { # NUMBER
    local n=$1
    {
        echo "address del $(vm_address "$n")/24 dev v$n"
        echo "address add $(vm_other_address "$n")/24 dev v$n"
        echo "address add $(vm_address "$n")/24 dev v$n"
        vm_end_commands "$n" "$(vm_mac "$(vm_peer "$n")")"
    } | ip -batch - || return 1
    vm_wait vm_gid_index "$n" "$(vm_other_address "$n")" >/dev/null
    vm_wait vm_gid_index "$n" "$(vm_address "$n")" >/dev/null
}

vm_address_back() { # NUMBER
    local n=$1
    {
        echo "address del $(vm_other_address "$n")/24 dev v$n"
        echo "address del $(vm_address "$n")/24 dev v$n"
        echo "address add $(vm_address "$n")/24 dev v$n"
        vm_end_commands "$n" "$(vm_mac "$(vm_peer "$n")")"
    } | ip -batch - || return 1
    vm_wait vm_gid_index "$n" "$(vm_address "$n")" >/dev/null
}

# Restore the network to its state after the boot.
vm_restore() {
    local path n

    for path in /sys/class/net/v[0-9]*; do
        n=${path##*/v}
        vm_netem_off "$n"
        [ "$(cat "$path/operstate")" = up ] || vm_link_up "$n"
        ! ip address show dev "v$n" | grep -q "$(vm_other_address "$n")/" || vm_address_back "$n"
    done
}

# Wait for a condition, not for a time: vm_wait COMMAND... until it succeeds (60 s).
vm_wait() {
    local end=$((SECONDS + 60))

    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "vm_wait: still false: $*" >&2; return 1; }
        sleep 0.1
    done
}

# A program of the build folder without libtool's wrapper, which costs a second here.
vm_program() { # PATH
    local real
    real=$(dirname "$1")/.libs/$(basename "$1")
    if [ -x "$real" ]; then echo "$real"; else echo "$1"; fi
}

export vm_mtu
export -f vm_address vm_peer vm_end_commands vm_mac vm_netem vm_netem_off vm_link_down \
    vm_link_up vm_restore vm_wait vm_program
