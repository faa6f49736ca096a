#!/bin/sh
# CI's lane for AMD GPUs on a machine without them: it prints the reason, exits with 77, and runs
# nothing. The level distcheck of contrib/test runs the lane in a separate tree.
# TS-02, TS-04
set -eu
# shellcheck source=test/integration/gpu_lib.sh
. "$(dirname "$0")/gpu_lib.sh"

refused() { # STATUS PATTERN ARG...
    expected=$1 pattern=$2 status=0
    shift 2
    "$tree/.ci/rocm" "$@" >"$out/said" 2>&1 || status=$?
    [ $status = "$expected" ] || die "$*: status $status instead of $expected: $(cat "$out/said")"
    grep -q "$pattern" "$out/said" || die "$*: $(cat "$out/said")"
}

refused 2 'cpu.*stages.*FOLDER' --wrong
if [ ! -e /dev/kfd ]; then
    refused 77 'cannot run here: 0 AMD GPUs, and 2 or more are needed' "$out/lane"
    [ ! -e "$out/lane" ] || die "it began all the same: $(ls "$out/lane")"
fi

# it counts KFD's nodes of GPUs, not those of processors
count() { # SIMDS...
    rm -rf "$out/kfd"
    for simds in "$@"; do
        mkdir -p "$out/kfd/kfd/topology/nodes/$simds"
        echo "${simds#*-}" >"$out/kfd/kfd/topology/nodes/$simds/simd_count"
    done
    # shellcheck disable=SC2016
    tree=$tree bash -c '. "$tree/test/gpu/lib_gpus.sh" && amd_gpus "$1"' bash "$out/kfd" || true
}
[ "$(count a-0 b-0)" = 0 ] || die "processors are GPUs"
[ "$(count a-0 b-1216)" = 1 ] || die "one GPU is another number"
[ "$(count a-0 b-1216 c-1216 d-304)" = 3 ] || die "three GPUs are another number"
