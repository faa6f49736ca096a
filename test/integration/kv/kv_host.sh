#!/bin/sh
# libmorikv between GPU memory (libhipcpu) and host memory of two processes: every byte arrives,
# and the path names the expected operation. Lists move host memory that the peer can map (SHM).
# The owner of private memory (DRAM) puts from it and gets into it, for a peer's WRITE, too.
# XM-08
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export UCX_PLUGIN_PATH="$build/.libs" UCX_NET_DEVICES=lo UCX_TLS=mori_xgmi,mori_copy,tcp

# INITIATOR TARGET OP PATTERN: the line of the path has it, or with "not PATTERN" has it not
moves() {
    from=$1 to=$2 op=$3
    shift 3
    status=0
    "$build/perf/kv_perf/mori_kv_perf" --initiator_seg_type "$from" --target_seg_type "$to" --op_type "$op" \
        --check_consistency --total_buffer_size 16m --start_block_size 16k --max_block_size 16k \
        --start_batch_size "${batch:-64}" --max_batch_size "${batch:-64}" --num_iter 4 --warmup_iter 2 >"$out" 2>&1 || status=$?
    found=0
    sed -n '/^path/,/^scheme/p' "$out" | tr -s '\n ' '  ' | grep -q -- "${2:-$1}" || found=1
    [ "$1" != not ] || found=$((1 - found))
    if [ "$status" != 0 ] || [ $found != 0 ] || ! grep -q 'every byte checked' "$out"; then
        cat "$out"
        echo "kv_host.sh: $from to $to, $op: exit status $status; expected 0, checked bytes, and a path with: $*"
        exit 1
    fi
}

moves VRAM SHM WRITE 'list put rocm>host: xgmi (sgl mori_xgmi/'
moves SHM VRAM WRITE 'list put host>rocm: xgmi (sgl mori_xgmi/'
moves SHM SHM WRITE 'put host>host: xgmi (zero-copy mori_xgmi/'
moves VRAM SHM READ 'posts moved by the owner'
moves VRAM DRAM READ 'posts moved by the owner'
moves DRAM VRAM READ 'get rocm>host: xgmi (zero-copy mori_xgmi/'
moves VRAM DRAM WRITE 'posts moved by the owner'
batch=1 moves VRAM DRAM WRITE 'posts moved by the owner'
moves VRAM SHM WRITE not 'posts moved by the owner' # control
export MORIKV_READ_BY=get
moves VRAM DRAM WRITE not '(sgl\|put rocm>host: xgmi (zero-copy' # control: it cannot be mapped
unset MORIKV_READ_BY
MKV_KV_PROGRAMS=kv_fault sh "$here/kv_run.sh" "$UCX_TLS" mixed # the owner is killed while it gets
export UCX_TLS=mori_copy,tcp
moves VRAM SHM WRITE not mori_xgmi
echo "kv_host.sh: passed"
