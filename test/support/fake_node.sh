#!/bin/sh
# Run a command on what looks like a node of eight GPUs and eight NICs:
#
#   test/support/fake_node.sh COMMAND...
#
# GPU i of libhipcpu and NIC ni, at PCI addresses 0000:ic:00.0 and 0000:id:00.0, are behind one
# switch; /sys, which UCX reads for that, and /dev/infiniband show this in a private mount
# namespace of the command. Sets HIPCPU_DEVICES and FAKE_VERBS_DEVICES. Exit status 77: such a
# namespace cannot be made here.
set -eu

if [ "${FAKE_NODE:-}" = "" ]; then
    for how in private unchanged; do # a root that is no mount point can only stay as it is
        if unshare --mount --propagation $how true 2>/dev/null; then
            work=$(mktemp -d)
            rc=0
            FAKE_NODE=$work unshare --mount --propagation $how "$0" "$@" || rc=$?
            rm -rf "$work"
            exit $rc
        fi
    done
    echo "no mount namespace can be had here"
    exit 77
fi

work=$FAKE_NODE
mkdir "$work/devices" "$work/class" "$work/class/infiniband" "$work/class/net" "$work/bus" \
    "$work/bus/pci" "$work/bus/pci/devices" "$work/dev" "$work/dev/infiniband" "$work/dev/shm"
if ! mount --rbind /sys/devices "$work/devices" || ! mount -t tmpfs none /sys/devices; then
    echo "/sys cannot be mounted over here"
    exit 77
fi

# what is no PCI device stays
for folder in "$work"/devices/*/; do
    name=$(basename "$folder")
    case $name in
    pci*) continue ;;
    esac
    mkdir "/sys/devices/$name"
    mount --rbind "$folder" "/sys/devices/$name"
done

nics=
for i in 0 1 2 3 4 5 6 7; do
    switch=/sys/devices/pci0000:${i}0/0000:${i}0:01.0/0000:${i}a:00.0
    gpu=$switch/0000:${i}b:00.0/0000:${i}c:00.0
    nic=$switch/0000:${i}b:01.0/0000:${i}d:00.0
    mkdir -p "$gpu" "$nic/infiniband/n$i"
    ln -s "../../../0000:${i}d:00.0" "$nic/infiniband/n$i/device"
    ln -s "$nic/infiniband/n$i" "$work/class/infiniband/n$i"
    for device in "$gpu" "$nic"; do
        ln -s "$device" "$work/bus/pci/devices/$(basename "$device")"
        echo 0x1002 >"$device/vendor"
        echo 0x74a1 >"$device/device"
        echo $((i / 4)) >"$device/numa_node"
        for which in current max; do
            echo "32.0 GT/s PCIe" >"$device/${which}_link_speed"
            echo 16 >"$device/${which}_link_width"
        done
    done
    : >"$work/dev/infiniband/uverbs$i"
    mount --bind /dev/null "$work/dev/infiniband/uverbs$i" # UCX requires a character device
    nics=$nics,n$i:${FAKE_NODE_NIC:-ionic}@0000:${i}d:00.0
done
mount --rbind /sys/class/net "$work/class/net"
mount --rbind "$work/class" /sys/class
mount --rbind "$work/bus" /sys/bus
for name in null zero full random urandom tty; do
    : >"$work/dev/$name"
    mount --bind "/dev/$name" "$work/dev/$name"
done
mount --bind /dev/shm "$work/dev/shm"
: >"$work/dev/kfd" # by which UCX's own rc knows that NICs reach the memory of AMD's GPUs
mount --rbind "$work/dev" /dev

unset FAKE_NODE
export HIPCPU_DEVICES=8 FAKE_VERBS_DEVICES="${nics#,}"
exec "$@"
