# shellcheck shell=bash
# The laboratory itself: both devices work, by the wire, and what disturbs them does.

die() {
    echo "$*"
    exit 1
}

state() { ibv_devinfo -d "rxe$1" | grep -o 'PORT_[A-Z]*'; }
is_state() { [ "$(state "$1")" = "$2" ]; }
become() { vm_wait is_state 0 "$1" && vm_wait is_state 1 "$1"; }
sent() { cat "/sys/class/net/v$1/statistics/tx_packets"; }
listening() { grep -q "$(printf ':%04X 0*:0000 0A' "$1")" /proc/net/tcp /proc/net/tcp6; }

pingpong() { # A B ROUNDS
    local server

    timeout 100 ibv_rc_pingpong -d "rxe$1" -g 1 -n "$3" >/tmp/server 2>&1 &
    server=$!
    vm_wait listening 18515 || return 1
    timeout 100 ibv_rc_pingpong -d "rxe$2" -g 1 -n "$3" 127.0.0.1 || { cat /tmp/server; kill $server; wait $server; return 1; }
    wait $server
}

for n in 0 1 2 3; do
    is_state $n PORT_ACTIVE || die "rxe$n is $(state $n)"
done
for n in 0 2; do
    before=$(sent $n)
    pingpong $n $((n + 1)) 50 || die "no ping-pong between rxe$n and rxe$((n + 1))"
    [ $(($(sent $n) - before)) -ge 50 ] || die "the packets did not cross v$n"
done

vm_netem 0 loss 10%
# the kernel's soft-RoCE has been seen to stand still for good here, once in some dozens of runs
pingpong 0 1 50 || pingpong 0 1 50 || die "no ping-pong with packets lost"
tc -s qdisc show dev v0 | grep -q 'dropped [1-9]' || die "netem lost nothing"
vm_netem_off 0

vm_link_down 0
become PORT_DOWN || die "the ports did not go down"
vm_link_up 0
become PORT_ACTIVE || die "the ports did not come up"
pingpong 0 1 50 || die "no ping-pong after the link came back"
