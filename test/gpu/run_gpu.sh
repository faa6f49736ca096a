#!/bin/bash
# Run all proofs for two GPUs on a machine that has nothing else:
#
#   test/gpu/run_gpu.sh FOLDER [STAGE..]
#
# Uses what test/gpu/pack.sh left in .gpu (GPU_PACK names another folder). Each stage
# has its own time limit, the whole has GPU_LIMIT_S seconds (540); a stage that fails
# is reported and the next one runs. FOLDER gets report.txt, log.txt and JSON files.
#
# GPU_FAKE=1 takes libhipcpu for the GPUs, to try the script itself.
# BM-03, TS-01
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pack=${GPU_PACK:-$(cd "$here/../.." && pwd)/.gpu}
limit=${GPU_LIMIT_S:-540}
fake=${GPU_FAKE:-}
all_stages="machine prove limits models llm kv spread latency release perftest conformance integration memcheck"

usage() {
    sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

[ $# -gt 0 ] || usage
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
shift
stages=${*:-$all_stages}

# Mounts in a private namespace: nothing is left behind.
if [ -z "${GPU_INSIDE:-}" ]; then
    export GPU_INSIDE=1
    # shellcheck disable=SC2086
    unshare --mount --propagation private true 2>/dev/null &&
        exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" "$out" $stages
fi

tree=$(cat "$pack/tree") || {
    echo "no pack in $pack; run test/gpu/pack.sh" >&2
    exit 1
}
build=$tree/build-gpu
out_inside=/gpu/out
num_gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
[ -z "$fake" ] || num_gpus=4
# shellcheck source=test/support/environment.sh
. "$here/../support/environment.sh"
# shellcheck source=test/gpu/stages.sh
. "$here/stages.sh"
root=$work/root
# shellcheck disable=SC2034
build_here=$root$build

prepare() {
    local file library

    mkdir -p "$root"
    xz -dc "$pack/root.tar.xz" | tar -C "$root" -x || return 1
    mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" &&
        mount --rbind /sys "$root/sys" && mount --bind "$out" "$root/gpu/out" || return 1
    if [ -n "$fake" ]; then
        ln -sfn "$build/test/fake/hip/.libs/libhipcpu.so" "$root/gpu/lib/libamdhip64.so.6"
        return 0
    fi
    library=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
    [ -n "$library" ] || library=$(find /usr/local/nvidia /usr/lib -name libcuda.so.1 2>/dev/null | head -n 1)
    [ -n "$library" ] || { echo "no libcuda.so.1"; return 1; }
    for file in "$(dirname "$library")"/lib{cuda,nvidia-ml,nvidia-ptxjitcompiler,nvidia-nvvm,nvidia-gpucomp}*.so*; do
        [ ! -e "$file" ] || cp -L "$file" "$root/gpu/driver/" || return 1
    done
    if [ -d /usr/local/cuda ]; then
        mkdir -p "$root/usr/local/cuda"
        mount --rbind "$(readlink -f /usr/local/cuda)" "$root/usr/local/cuda" || true
    fi
    return 0
}

# Run in the root, as the product would be run, with a time limit.
setting=()
inside() {
    timeout -k 5 "${stage_seconds:-60}" chroot "$root" /usr/bin/env -i \
        PATH=/usr/bin:/usr/sbin HOME=/root LC_ALL=C CK_FORK=yes \
        LD_LIBRARY_PATH=/gpu/lib:/gpu/driver HIPSHIM_KERNEL=/gpu/kernel.fatbin \
        UCX_PLUGIN_PATH="$build/.libs" MKV_BUILD_DIR="$build" MKV_TEST_REAL_HIP=1 \
        CUDA_MODULE_LOADING=EAGER UCX_VFS_ENABLE="$UCX_VFS_ENABLE" HIPCPU_DEVICES=4 \
        UCX_TLS=mori_xgmi,tcp UCX_NET_DEVICES=lo "${setting[@]}" \
        env -C "$build" "$@"
}

machine() {
    uname -a
    nproc
    nvidia-smi || true
    nvidia-smi topo -m || true
    inside ucx_info -v
    inside ucx_info -d | grep -A 12 mori_xgmi
}

memcheck() {
    local tool=/usr/local/cuda/bin/compute-sanitizer

    if [ ! -x "$root$tool" ] || [ -n "$fake" ]; then
        echo "no compute-sanitizer"
        return 77
    fi
    inside "$tool" --error-exitcode 99 perf/gpu/gpu_limits --pool 192 --count 512 --repeats 1
}

# Stages over a UCX that is built for release, if pack.sh was given one.
over_release() {
    local build=$tree/build-gpu-release kv_suffix=-release prefix name

    prefix=$(cat "$pack/release" 2>/dev/null)
    if [ -z "$prefix" ]; then
        print "-- release: skipped: no such UCX packed"
        return
    fi
    # shellcheck disable=SC2034
    local build_here=$root$build
    setting=(LD_LIBRARY_PATH="/gpu/lib:/gpu/driver:$prefix/lib")
    printf '\nOver UCX in %s:\n' "$prefix" >>"$report"
    stage "release: ucx_info" 20 inside "$prefix/bin/ucx_info" -v
    for name in "$@"; do
        $name
    done
    setting=()
}

# The proof that owners of AMD's GPUs run.
stage_prove() {
    local quick=()

    [ -z "$fake" ] || quick=(--quick)
    stage mori_prove 420 inside env PATH="$build/perf/kv_perf:$build/perf/gpu:$build/perf/risks:/usr/bin:/usr/sbin" \
        contrib/mori_prove --minutes 3 --path xGMI --path risks --report "$out_inside/mori_prove.json" "${quick[@]}"
    grep -E '^(SIMULATED|SAFE|NOT )|^  ' "$work/stage.log" >>"$report"
}

stage_release() {
    over_release kv_all kv_spread latency_all
}

# Long lists of blocks that are scattered over little and over much memory, and the models'
# lists with other numbers of thread blocks.
long_lists() {
    local size total

    for size in 4096 18432; do
        for total in 2g 16g; do
            stage "lists up to 65536 of $size in $total" 30 kv "long-$size-$total" --api ucp_sgl --total_buffer_size $total \
                --num_iter 50 --warmup_iter 5 --large_blk_iter_ftr 1 --start_batch_size 4096 --max_batch_size 65536 \
                --start_block_size $size --max_block_size $size --pipeline_depth 2
        done
    done
    kv_collect "long${kv_suffix:-}"
    for size in 8 16; do
        stage "models by $size thread blocks" 90 inside perf/gpu/gpu_limits --parts models --pool 1 --count 1 --blocks $size &&
            cat "$work/stage.log" >>"$report"
    done
}

stage_release_long() {
    over_release long_lists
}

# UCX's own cuda_ipc. Its modules are packed separately: no other stage may load them.
plain_cuda() {
    local lane=cuda_ipc

    [ -z "$fake" ] || lane=tcp
    if [ -z "$fake" ] && [ ! -e "$root/gpu/cuda" ]; then
        print "-- plain: skipped: no modules of CUDA packed"
        return
    fi
    [ -n "$fake" ] || setting=("${setting[0]}:/gpu/cuda" UCX_MODULE_DIR=/gpu/cuda)
    stage "mori_xgmi beside UCX's own $lane" 420 plain $lane
}

stage_plain() {
    over_release plain_cuda
}

stage_release_latency() {
    over_release latency_all
}

# The program is of the first build, the UCX that it runs on is the one built for release.
beside_release() { # FUNCTION
    local prefix

    prefix=$(cat "$pack/release" 2>/dev/null)
    [ -z "$prefix" ] || setting=(LD_LIBRARY_PATH="/gpu/lib:/gpu/driver:$prefix/lib")
    "$1"
    setting=()
}

stage_release_thread() {
    beside_release thread_all
}

stage_release_scale() {
    beside_release scale_all
}

stage_release_own_thread() {
    over_release own_thread_all
}

stage_release_fanout() {
    over_release fanout_all
}

stage_memcheck() {
    stage memcheck 90 memcheck
}

if ! stage prepare 60 prepare; then
    print "nothing can run"
    exit 1
fi
# shellcheck disable=SC2086
run_stages $stages
umount -R "$root/gpu/out" "$root/dev" "$root/sys" "$root/proc" "$root/usr/local/cuda" 2>/dev/null
mountpoint -q "$root/dev" || rm -rf "$work"
[ "$num_failed" -eq 0 ]
