# shellcheck shell=bash
# nightly
# hosts: 1
# limit: 600
# One list of calls with host memory for the RDMA backend of MORI's own engine, over verbs, and
# for mori.io over mori_rdma: each difference has a row with its reason.
#
# MORI finds the NIC of a GPU in the list of PCI functions, where the guest has no GPU. It reads
# that list and librocm_smi64 at each start, also without a GPU.
work=$MKV_BUILD/vm/mori_calls
mkdir -p "$work"
MKV_MORI=$("$VM_TREE/test/kfd/build_mori_calls" "$work/mori_calls") || exit
{
    printf 'int rsmi_%s(void) { return 0; }\n' init shut_down dev_pci_id_get is_P2P_accessible \
        topo_get_link_type topo_get_link_weight status_string
    echo 'int rsmi_num_monitor_devices(unsigned *count) { *count = 1; return 0; }'
} | gcc -x c -shared -fPIC -o "$work/librocm_smi64.so.1" - || exit
export MKV_MORI=$work:$MKV_MORI

# MORI looks for a PCI function in the path of each device, and loops for ever without one: the
# parent of "/" is "/" (ParseBusIdFromSysfs(), src/application/topology/net.cpp). Give each a
# path that has one.
pci_paths() {
    local name path

    for name in /sys/class/infiniband/*; do
        name=${name##*/}
        path=/tmp/0000:00:1${name#rxe}.0/infiniband/$name
        mkdir -p "$path"
        mount --bind "/sys/devices/virtual/infiniband/$name" "$path" || return
    done
    mount -t tmpfs tmpfs /sys/class/infiniband && ln -s /tmp/0000:*/infiniband/* /sys/class/infiniband
}

# MORI reads a message from a socket that does not block. Where the message comes later, as on a
# busy machine, the process ends by SIGABRT (TCPEndpoint::Recv(), EAGAIN): that is no answer.
answer_of() { # CASE
    local status tries

    for tries in $(seq 20); do
        # its log is on the same stream
        LD_LIBRARY_PATH=$MKV_MORI timeout 300 "$MKV_BUILD/vm/mori_calls/mori_calls" rdma "$1" 2>/tmp/errors |
            grep "^$1:" >/tmp/answer
        status=${PIPESTATUS[0]}
        cat /tmp/errors >&2
        if [ -s /tmp/answer ] || ! grep -q 'ReadMessageHeader.*errno=11 ' /tmp/errors; then break; fi
    done
    [ "$tries" = 1 ] || echo "$1: $tries tries" >&2
    if [ -s /tmp/answer ]; then cat /tmp/answer; else echo "$1: status=$status"; fi
}

in_guest() {
    local name

    pci_paths || return
    for name in $(LD_LIBRARY_PATH=$MKV_MORI "$MKV_BUILD/vm/mori_calls/mori_calls" rdma); do
        answer_of "$name"
    done >"$VM_OUT/theirs"
    # shellcheck disable=SC2046
    PYTHONPATH=$VM_TREE/contrib/python LIBMORIKV=$MKV_BUILD/.libs/libmorikv.so.0 \
        UCX_PLUGIN_PATH=$MKV_BUILD/.libs UCX_TLS=mori_rdma,tcp UCX_NET_DEVICES=rxe0:1,lo \
        timeout 600 "$VM_TREE/test/kfd/mori_calls.py" rdma $(cut -d: -f1 "$VM_OUT/theirs") >"$VM_OUT/ours"
}

"$VM_TREE/test/vm/run" -p 1 -t 2900 -o "$work" -- bash -c "$(declare -f pci_paths answer_of in_guest); in_guest" || exit
grep . "$work/theirs" "$work/ours"
"$VM_TREE/test/kfd/compare_calls.py" rdma "$work/ours" "$work/theirs" "$VM_TREE/test/kfd/mori_differences.txt"
