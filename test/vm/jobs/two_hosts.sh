# MD-08, TR-10
# shellcheck shell=bash
# nightly
# hosts: 2
# limit: 900
# The same programs on two hosts and on one: libmorikv over mori_rdma and over tcp alone, WRITE
# and READ, by addresses that one host gives to the other; a host that is switched off in the
# middle and comes back under its name; a cable that is pulled; wrong bytes, which must be
# detected.
mori_kv_perf=$(vm_program "$MKV_BUILD/perf/kv_perf/mori_kv_perf")
kv_hosts=$(vm_program "$MKV_BUILD/test/integration/kv/kv_hosts")
export MKV_TEST_LIMIT_S=500
all=mori_xgmi,mori_copy,mori_rdma,tcp
port=13500 # of the machines' own

# Start a program there under a name
begin() { # HOST NAME TRANSPORTS CMD...
    local devices=eth0
    [ "$3" = tcp ] || devices=rxe0:1,eth0
    host "$1" host_begin "$2" env UCX_TLS="$3" UCX_NET_DEVICES="$devices" UCX_WARN_UNUSED_ENV_VARS=n \
        UCX_PLUGIN_PATH="$MKV_BUILD/.libs" LD_LIBRARY_PATH="$MKV_BUILD/test/fake/hip/lib:$MKV_BUILD/.libs" \
        MKV_TEST_MEM="${memory:-host}" MORIKV_PEER_DEAD="${peer_dead:-0}" "${@:4}"
}

expect() { # TEXT PATTERN WHAT
    grep -q -e "$2" <<<"$1" || die "$3: expected '$2' in: $1"
}

# Prefill and decode, on the hosts named; all bytes compared, by the transport named.
perf() { # PREFILL-HOST DECODE-HOST TRANSPORTS PATH ARG...
    local prefill decode common
    port=$((port + 1))
    common=(--check_consistency --total_buffer_size 8m --start_batch_size 128 --num_iter 2 --warmup_iter 1 --timeout 60)

    begin "$2" decode "$3" "$mori_kv_perf" --role decode --peer ":$port" "${common[@]}" "${@:5}"
    begin "$1" prefill "$3" "$mori_kv_perf" --role prefill --peer "host$2:$port" "${common[@]}" "${@:5}"
    prefill=$(host "$1" host_end prefill) || die "prefill on host$1: $prefill"
    decode=$(host "$2" host_end decode) || die "decode on host$2: $decode"
    echo "$prefill"
    expect "$prefill$decode" 'every byte checked' "host$1 to host$2"
    expect "$prefill$decode" "$4" "host$1 to host$2"
    [ "$1" = "$2" ] || ! grep -q mori_xgmi/ <<<"$prefill$decode" || die "mori_xgmi between hosts"
}

expect_output() { # HOST NAME PATTERN
    local text
    text=$(host "$1" wait_for_output "$2" "$3") || die "$2 on host$1 never printed '$3': $text"
}

host_boot 1
host_boot 2
host_ready 1
host_ready 2

echo "== two hosts, and one"
gpus=(--initiator_seg_type VRAM --target_seg_type VRAM)
for op in WRITE READ; do
    perf 1 2 $all mori_rdma/rxe0 --op_type $op
    perf 1 2 $all mori_rdma/rxe0 --op_type $op "${gpus[@]}"
    perf 1 2 tcp tcp/eth0 --op_type $op
    perf 1 1 $all mori_xgmi/ --op_type $op "${gpus[@]}"
    perf 1 1 $all '' --op_type $op
done

# A process keeps one context while its peers connect and leave.
stay() { # TRANSPORTS PEERS
    port=$((port + 1)) transports=$1
    begin 1 stays "$1" "$kv_hosts" stay ":$port" "$2"
}

come() { # HOST TRANSFERS [lie]
    begin "$1" comes "$transports" "$kv_hosts" come "host1:$port" "${@:2}"
}

all_moved() { # HOST
    local text
    text=$(host "$1" host_end comes) || die "the visitor from host$1: $text" "$(host 1 cat /tmp/stays)"
}

# Stop in the middle of a transfer that would be followed by others.
come_for_good() {
    come 2 0
    expect_output 2 comes 'moved 3'
}

# Expect that a program ended by itself, with an error.
failed() { # HOST NAME PATTERN
    local text status=0
    text=$(host "$1" host_end "$2") || status=$?
    echo "$text"
    [ $status = 1 ] || die "$2 on host$1 ended with $status"
    expect "$text" "$3" "$2 on host$1"
}

ended_well() { # PATTERN...
    local text pattern
    text=$(host 1 host_end stays) || die "the host that stays: $text"
    echo "$text"
    for pattern in "$@"; do
        expect "$text" "$pattern" "the host that stays"
    done
}

memory=gpu
echo "== a host is switched off, one host goes on alone, the other one comes back"
stay $all 4
come 2 10
all_moved 2
come_for_good
host_kill 2
expect_output 1 stays 'peer on host2: lost'
host_boot 2
come 1 10
all_moved 1
host_ready 2
come 2 10
all_moved 2
ended_well 'peer on host1: 10 transfers' 'peer on host1, this host: path.*mori_xgmi/'
text=$(host 1 grep -c 'peer on host2: 10 transfers' /tmp/stays)
[ "$text" = 2 ] || die "host2 was there $text times, expected 2"
text=$(host 1 grep 'peer on host2, another host: path' /tmp/stays | grep -c 'mori_rdma/rxe0')
[ "$text" = 3 ] || die "host2 was reached over mori_rdma $text times, expected 3"

pulled() { # TRANSPORTS
    echo "== the cable is pulled: $1"
    stay "$1" 1
    come_for_good
    host 2 ip link set eth0 down
    ended_well 'peer on host2: lost'
    failed 2 comes 'did not end well'
    host 2 ip link set eth0 up
}
pulled $all
memory=host peer_dead=10s pulled tcp # the kernel would send again for a quarter of an hour

echo "== bytes that are not what they should be"
stay $all 1
come 2 4 lie
failed 1 stays 'expected 0x'
