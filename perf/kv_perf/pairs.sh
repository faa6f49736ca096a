#!/bin/bash
# Several ranks' KV caches at once, as with TP8 to TP8 on one host: a pair of processes a
# rank, all beginning together, against one pair alone.
#
#   perf/kv_perf/pairs.sh FOLDER PAIRS GPUS [MORI_KV_PERF-OPTION...]
#
# Run in the folder of a build. Rank r's prefill has GPU r*GPUS/PAIRS, its decode the next
# one; options name other memory. FOLDER gets a JSON file of each run. Without GPUS (0), in
# host memory.
set -euo pipefail
[[ ${1-} != -* ]] || {
    echo "perf/kv_perf/pairs.sh: no option '$1'; expected FOLDER PAIRS GPUS [OPTION...]" >&2
    exit 2
}

die() {
    echo "perf/kv_perf/pairs.sh: $*" >&2
    exit 1
}

[ $# -ge 3 ] || die "expected FOLDER PAIRS GPUS [OPTION...]"
out=$1 pairs=$2 gpus=$3
shift 3
perf=$(find . -ignore_readdir_race -name mori_kv_perf -type f -perm -1 ! -path '*/.libs/*' | head -n 1)
[ -x "$perf" ] || die "there is no mori_kv_perf below $PWD; run make"
mkdir -p "$out"
lock=$out/start.lock
: >"$lock"

# Number of processes that wait for the lock, from /proc/locks.
num_waiting() {
    grep -c -- "-> FLOCK .*:$(stat -c %i "$lock") " /proc/locks || true
}

start() { # RANK NAME
    local devices=()

    [ "$gpus" = 0 ] || devices=(--initiator_seg_type VRAM --target_seg_type VRAM
        --initiator_dev $(($1 * gpus / pairs)) --target_dev $((($1 * gpus / pairs + 1) % gpus)))
    "$perf" "${devices[@]}" "${options[@]}" --start_lock "$lock" --json "$out/$2-$1.json" \
        >"$out/$2-$1.log" 2>&1 &
    pids+=($!)
}

is_running() {
    local pid

    for pid in "${pids[@]}"; do
        kill -0 "$pid" 2>/dev/null || return 1
    done
}

run() { # NAME RANK...
    local name=$1 rank pid failed=0
    pids=()
    shift

    exec 9>"$lock"
    flock -x 9
    for rank in "$@"; do
        start "$rank" "$name" 9>&-
    done
    while [ "$(num_waiting)" -lt $# ] && is_running; do
        sleep 0.1
    done
    exec 9>&-
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    [ $failed = 0 ] || {
        cat "$out/$name"-*.log
        die "a run failed"
    }
}

rate() { # NAME RANK
    sed -n 's/.*"gb_per_s": *\([0-9.]*\).*/\1/p' "$out/$1-$2.json"
}

options=("$@")
mapfile -t ranks < <(seq 0 $((pairs - 1)))
run alone 0
run together "${ranks[@]}"
for rank in "${ranks[@]}"; do
    rate together "$rank"
done | awk -v alone="$(rate alone 0)" -v what="${options[*]}" '
    { sum += $1; least = (NR == 1 || $1 < least) ? $1 : least; most = ($1 > most) ? $1 : most }
    END {
        printf "%s\n  one pair alone %.1f GB/s; %d at once: sum %.1f GB/s, %.2f x one; a pair %.1f to %.1f\n",
               what, alone, NR, sum, sum / alone, least, most
    }'
