# shellcheck shell=bash
# The number of GPUs, for test/gpu/run and .ci/rocm. Sourced.

# GPUs of AMD's that the kernel's driver has. A processor is a node of KFD as well, but without
# SIMDs.
amd_gpus() { # [FOLDER, for tests]
    cat "${1:-/sys/class/kfd}"/kfd/topology/nodes/*/simd_count 2>/dev/null | grep -cv '^0$'
}
