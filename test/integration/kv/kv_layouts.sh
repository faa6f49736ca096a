#!/bin/sh
# Ranks, blocks and layouts that differ between prefill and decode, over mori_xgmi with GPU memory
# (libhipcpu): every element of every cache is compared, and mori_xgmi carries the bytes.
# XF-06, TR-08
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
[ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] || {
    echo "kv_layouts.sh: there is no libhipcpu in this build"
    exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export UCX_PLUGIN_PATH="$build/.libs" UCX_TLS=mori_xgmi,tcp UCX_NET_DEVICES=lo HIPCPU_DEVICES=8

fail() {
    cat "$dir/out"
    echo "kv_layouts.sh: $*"
    exit 1
}

# Whether the bytes of a run came by mori_xgmi, and were right.
moved() { # ARG...
    "$build/perf/kv_perf/mori_kv_perf" --model Llama-3-70B --requests 2 --input_length 64 --output_length 8 \
        --total_buffer_size 48m --initiator_seg_type VRAM --target_seg_type VRAM --check_consistency "$@" \
        >"$dir/out" 2>&1 && grep -q 'every byte checked' "$dir/out" && grep -q '^path .*mori_xgmi/xgmi' "$dir/out"
}

# Whether the owner put all that was read
put() { # OP
    [ "$1" = WRITE ] || grep -q '^path .*(\([0-9]*\) of \1 posts moved by the owner)' "$dir/out"
}

for op in WRITE READ; do
    for ranks in "8 4" "4 8" "2 8"; do
        moved --op_type $op --tp "${ranks% *}" --decode_tp "${ranks#* }" || fail "$op, ranks $ranks"
    done
    moved --op_type $op --layout nhd --decode_layout hnd || fail "$op from NHD to HND"
    moved --op_type $op --layout hnd --decode_layout nhd --tp 4 --decode_tp 2 || fail "$op from HND to NHD, ranks 4 2"
    moved --op_type $op --block_size 16 --decode_block_size 64 || fail "$op, blocks of 16 and 64 tokens"
    put $op || fail "$op, blocks of 16 and 64 tokens: gets"
    moved --op_type $op --block_size 64 --decode_block_size 16 --tp 4 --decode_tp 8 --decode_layout hnd ||
        fail "$op, blocks of 64 and 16 tokens, ranks 4 8, NHD to HND"
    put $op || fail "$op, blocks of 64 and 16 tokens, ranks 4 8, NHD to HND: gets"
    moved --model Kimi-K2 --op_type $op --block_size 64 --decode_block_size 16 || fail "$op, latents of 64 and 16 tokens"
done

# Control: the same run by another transport is not mistaken for it.
! UCX_TLS=tcp moved --op_type WRITE --tp 8 --decode_tp 4 || fail "a run over tcp alone was taken for mori_xgmi"
