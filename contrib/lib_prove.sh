# shellcheck shell=bash
# First steps of contrib/prove-amd, contrib/prove-nic and .ci/rocm: make a build of this tree,
# and count the GPUs. The file is sourced; tree is set.

tree=${tree:?}

# Count the AMD GPUs of the kernel's driver. A processor is a node of KFD too, but has no SIMDs.
amd_gpus() { # [FOLDER, for tests]
    cat "${1:-/sys/class/kfd}"/kfd/topology/nodes/*/simd_count 2>/dev/null | grep -cv '^0$'
}

# Folder of this tree's build: the tree itself if ./configure was run in it, else a new one.
where_built() { # NAME
    if [ -e "$tree/config.status" ]; then echo "$tree"; else echo "$tree/$1"; fi
}

# Against the UCX that pkg-config finds; the programs of the tests as well.
make_build() { # BUILD
    mkdir -p "$1" && cd "$tree" || return 1
    [ -x configure ] || autoreconf -i || return 1
    cd "$1" || return 1
    [ -e config.status ] || ../configure || return 1
    make -j"$(nproc)" && make -j"$(nproc)" check TESTS=
}
