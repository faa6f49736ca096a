#!/bin/bash
# Run a plan over UCX's own lane between two GPUs and over mori_xgmi, in turn: medians of
# both, their ratios, and a failure where mori_xgmi is slower by more than 5 %.
#
#   perf/kv_perf/beside_plain.sh LANE FOLDER [MORI_KV_PERF-OPTION...]
#
# Run in the folder of a build; UCX_PLUGIN_PATH names the module. LANE is rocm_ipc, or
# cuda_ipc with NVIDIA's GPUs as stand-ins and UCX's CUDA modules (tcp tries the script
# without either). UCX by itself does not load the module; program, lists, endpoints and
# options are the same: 16 scattered blocks a request, of 1 MiB to 64 MiB, each request waited
# for, written and read, by a call of UCP a block and by libmorikv. Endpoints report a peer's
# failure if the lane can. libmorikv's always do, so UCP's calls are used over mori_xgmi
# beside a lane that cannot.
#
# LANE_RUNS (5) runs of each; LANE_LEAST (0.95) as in lane_ratios.sh. FOLDER gets a JSON file
# of each run, and figures.txt. Exit status 1: red. 2: a run failed, or did not use the lane.
# 77: UCX has no such lane here; the last line is the reason.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runs=${LANE_RUNS:-5}

die() { # TEXT
    echo "perf/kv_perf/beside_plain.sh: $1" >&2
    exit 2
}

[ $# -ge 2 ] || die "expected LANE FOLDER [OPTION...]"
lane=$1 out=$2
shift 2
case $lane in
rocm_ipc) plain=(env -u UCX_PLUGIN_PATH "UCX_TLS=rocm_ipc,rocm_copy,tcp") ;;
cuda_ipc) plain=(env -u UCX_PLUGIN_PATH "UCX_TLS=cuda_ipc,cuda_copy,tcp") ;;
tcp) plain=(env "UCX_TLS=mori_copy,tcp") ;; # a transport that packs GPU memory must be present
*) die "the lane is '$lane'; expected rocm_ipc, cuda_ipc or tcp" ;;
esac
mori=(env "UCX_TLS=mori_xgmi,mori_copy,tcp")
program=$(find . -name mori_kv_perf -type f -perm -1 ! -path '*/.libs/*' | head -n 1)
[ -x "$program" ] || die "there is no mori_kv_perf below $PWD; run make"
mkdir -p "$out" || exit 2
options=(--initiator_seg_type VRAM --target_seg_type VRAM --total_buffer_size 2g --start_batch_size 16
    --start_block_size 1m --max_block_size 64m --num_iter 100 --warmup_iter 10 --large_blk_iter_ftr 1
    --timeout 120 "$@")
plain+=("$program" "${options[@]}")
mori+=("$program" "${options[@]}")
[ "$lane" != cuda_ipc ] || plain+=(--memory_type cuda)

# The JSON file has a member a line.
rows() { # FILE: lines "BYTES GB/s PATH"
    sed -n 's/.*"\(block_size\|gb_per_s\|path\)": *"\{0,1\}\(.*[^",]\)"\{0,1\},\{0,1\} *$/\1 \2/p' "$1" |
        awk '{ value = $0; sub(/^[^ ]* /, "", value); of[$1] = value }
             $1 == "path" { print of["block_size"], of["gb_per_s"], value }'
}

# Does the lane carry it with such endpoints?
carries() { # MODE
    path="nothing, as mori_kv_perf failed"
    "${plain[@]}" --max_block_size "$smallest" --num_iter 2 --warmup_iter 1 --api ucp --error_mode "$1" \
        --json "$out/probe.json" >"$out/probe.log" 2>&1 || return 1
    path=$(rows "$out/probe.json" | head -n 1 | cut -d ' ' -f 3-)
    [[ $path = *"$lane"* ]]
}

# run NAME LANE CALLS WORD...: a run whose rows become figures.
run() {
    local name=$1 by=$2 api=$3 bytes rate path
    shift 3

    "$@" --op_type "$op" --json "$out/$name.json" >"$out/$name.log" 2>&1 ||
        die "$* --op_type $op: $(tail -n 5 "$out/$name.log")"
    rows "$out/$name.json" | while read -r bytes rate path; do
        [[ $path = *"$by"* ]] || die "$name: $bytes bytes went another way than $by: $path"
        echo "$api $op $bytes $by $rate"
    done >>"$out/figures.txt" || exit 2
}

# Run both, one after the other; the order changes from turn to turn.
turn() { # NUMBER API
    local calls=(--api ucp --error_mode "$mode") mori_calls=(--api "$2")

    [ "$2" = mkv ] || mori_calls=("${calls[@]}")
    [ "$2" != mkv ] || [ "$mode" = none ] || calls=("${mori_calls[@]}")
    (($1 % 2 == 1)) || run "$2-$op-$1-mori" mori_xgmi "$2" "${mori[@]}" "${mori_calls[@]}"
    run "$2-$op-$1-plain" "$lane" "$2" "${plain[@]}" "${calls[@]}"
    (($1 % 2 == 0)) || run "$2-$op-$1-mori" mori_xgmi "$2" "${mori[@]}" "${mori_calls[@]}"
}

smallest=1m
for ((i = 0; i < ${#options[@]}; i++)); do
    [ "${options[i]}" != --start_block_size ] || smallest=${options[i + 1]}
done
mode=peer
carries peer || { mode=none && carries none; } || {
    tail -n 5 "$out/probe.log"
    echo "UCX's own $lane carries nothing here: it took $path"
    exit 77
}
echo "UCX's own $lane, endpoints of error mode $mode: $path"
: >"$out/figures.txt"
for ((number = 1; number <= runs; number++)); do
    for op in WRITE READ; do
        turn $number ucp
        turn $number mkv
    done
done
"$here/lane_ratios.sh" "$out/figures.txt" median
