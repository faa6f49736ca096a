# shellcheck shell=bash
# A machine for mori_doctor --root: /dev, /proc and /sys in $work/root, and stubs of the tools
# that it runs in $work/bin. The caller sets work.

work=${work:?}

# A machine with two GPUs and a NIC beside the first one, where everything is right.
machine() {
    local port=$work/root/sys/class/infiniband/nic0/ports/1 i

    rm -rf "${work:?}/root" "${work:?}/bin"
    mkdir -p "$work/bin" "$work/root"/{dev/dri,dev/shm,dev/infiniband,proc/self/ns,proc/1/ns} \
        "$work/root/sys/module/amdgpu" "$work/root/sys/class/infiniband/nic0" "$work/root/sys/bus/pci/devices" \
        "$port/gid_attrs/types" "$work/root/sys/class/infiniband_verbs/uverbs0"
    pci 0000:01:00.0 pci0000:00/0000:00:01.0/0000:01:00.0 0
    mkdir -p "$work/root/sys/bus/pci/devices/0000:01:00.0/net/eth0"
    ln -s ../../../bus/pci/devices/0000:01:00.0 "$work/root/sys/class/infiniband/nic0/device"
    echo 6.12.12 >"$work/root/sys/module/amdgpu/version"
    drivers
    for i in 1 2; do
        gpu $i $((3 - i)) $((i + 1))
        touch "$work/root/dev/dri/renderD$((127 + i))"
    done
    pci 0000:02:00.0 pci0000:00/0000:00:01.0/0000:02:00.0 0
    pci 0000:03:00.0 pci0000:00/0000:00:02.0/0000:03:00.0 0
    touch "$work/root/dev/kfd" "$work/root/dev/infiniband/uverbs0"
    ln -s 'ipc:[4026531839]' "$work/root/proc/self/ns/ipc"
    ln -s 'pid:[4026531836]' "$work/root/proc/self/ns/pid"
    ln -s 'net:[4026531840]' "$work/root/proc/self/ns/net"
    ln -s 'net:[4026531840]' "$work/root/proc/1/ns/net"
    echo '4: ACTIVE' >"$port/state"
    echo Ethernet >"$port/link_layer"
    echo 28.43.1014 >"$work/root/sys/class/infiniband/nic0/fw_ver"
    echo '400 Gb/sec (4X NDR)' >"$port/rate"
    echo 'RoCE v2' >"$port/gid_attrs/types/1"
    echo 9000 >"$work/root/sys/class/infiniband/nic0/device/net/eth0/mtu"
    # shellcheck disable=SC2016
    stub dcb 'case $1 in pfc) echo "prio-pfc 0:off 1:off 2:off 3:on 4:off" ;; *) echo "dscp-prio 26:3 48:6" ;; esac'
    echo 1 >"$work/root/sys/class/infiniband_verbs/abi_version"
    stub ibv_devinfo 'echo "1 HCA found:"'
    # shellcheck disable=SC2016 # the stub expands it
    stub ucx_info 'case $1 in -v) echo "# Library version: 1.23.0" ;;
        *) echo "#      Transport: mori_xgmi"; echo "#      Transport: mori_rdma"
        p=/usr/lib; echo "UCX DEBUG GPU runtime $p/libamdhip64.so.6.4.60403 version 60443484, driver version 60443484: 2 devices"
        echo "UCX DEBUG verbs device nic0: firmware 28.43.1014, provider $p/libionic-rdmav65.so, libibverbs $p/libibverbs.so.1.18.65.0" ;;
        esac'
}

# The NIC's driver and the one that stands on it, as modules, and the kernel's release.
drivers() {
    local module=$work/root/sys/module

    mkdir -p "$module"/{ionic/holders,ionic_rdma} "$work/root/sys/bus/pci/drivers/ionic" "$work/root/proc/sys/kernel"
    echo 25.11.1.001 | tee "$module/ionic/version" >"$module/ionic_rdma/version"
    echo 0A1B2C3D4E5F6071829304A >"$module/ionic/srcversion"
    ln -s ../../ionic_rdma "$module/ionic/holders/ionic_rdma"
    ln -s ../../../../module/ionic "$work/root/sys/bus/pci/drivers/ionic/module"
    ln -s ../../../../bus/pci/drivers/ionic "$work/root/sys/bus/pci/devices/0000:01:00.0/driver"
    echo 6.18.9 >"$work/root/proc/sys/kernel/osrelease"
}

pci() { # ADDRESS PATH NUMA
    mkdir -p "$work/root/sys/devices/$2"
    echo "$3" >"$work/root/sys/devices/$2/numa_node"
    ln -sfn "../../../devices/$2" "$work/root/sys/bus/pci/devices/$1"
}

gpu() { # NODE PEER BUS
    local node=$work/root/sys/class/kfd/kfd/topology/nodes/$1

    mkdir -p "$node/io_links/0"
    echo $((4711 + $1)) >"$node/gpu_id"
    printf 'type 11\nnode_from %s\nnode_to %s\n' "$1" "$2" >"$node/io_links/0/properties"
    printf 'location_id %s\ndomain 0\ngfx_target_version 90402\nfw_version 185\nsdma_fw_version 24\n' $(($3 << 8)) >"$node/properties"
}

stub() { # NAME BODY
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
