#!/bin/bash
# What a reused plan costs the host for each scattered block. Prints markdown.
#
#   perf/bench.sh BUILDDIR
#
# libhipcpu moves no bytes (HIPCPU_COPY=0) and works inside the call that submits
# (HIPCPU_INLINE=1), so what is left is the host's share: libmorikv, UCP, the transport,
# and libhipcpu's own launch. Instructions are callgrind's and repeatable; nanoseconds
# are this machine's.
set -euo pipefail

build=$(cd "${1:?build directory}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export UCX_PLUGIN_PATH=$build/.libs UCX_TLS=mori_xgmi,tcp UCX_WARN_UNUSED_ENV_VARS=n
export LD_LIBRARY_PATH=$build/test/fake/hipcpu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export HIPCPU_COPY=0 HIPCPU_INLINE=1

options=(--initiator_seg_type VRAM --target_seg_type VRAM
    --start_batch_size 512 --max_batch_size 131072)

native() { # API
    "$build/perf/bench_plan" --api "$1" "${options[@]}" --warmup_iter 20 --num_iter 100
}

counted() { # API: a dump for each row and phase
    command -v valgrind >/dev/null || return 0
    "$build/libtool" --mode=execute valgrind --tool=callgrind --collect-atstart=no \
        --callgrind-out-file="$work/$1.out" "$build/perf/bench_plan" --api "$1" \
        "${options[@]}" --warmup_iter 3 --num_iter 4 >"$work/$1.log" 2>&1 ||
        { cat "$work/$1.log" >&2; return 1; }
}

# Instructions of a dump for each block: all of it, or of one shared object.
instructions() { # API PHASE BLOCKS DIVISOR [OBJECT]
    local file
    file=$(grep -l "Client Request: $2 $3\$" "$work/$1".out.* 2>/dev/null | head -n 1)
    [ -n "$file" ] || { echo "-"; return; }
    if [ $# -lt 5 ]; then
        awk -v d="$4" '/^(totals|summary):/ { n = $2 } END { printf "%.1f", n / d }' "$file"
    else
        # cost lines follow an "ob=" line until the next one; a call's own cost line,
        # after "calls=", is inclusive and counted at its callee already
        awk -v d="$4" -v want="$5" '
            /^ob=/ { id = $0; sub(/^ob=/, "", id)
                     if (match(id, /^\([0-9]+\) /)) { key = substr(id, 1, RLENGTH - 1)
                         names[key] = substr(id, RLENGTH + 1); id = key }
                     object = names[id]; next }
            /^cob=/ { id = $0; sub(/^cob=/, "", id)
                      if (match(id, /^\([0-9]+\) /))
                          names[substr(id, 1, RLENGTH - 1)] = substr(id, RLENGTH + 1)
                      next }
            /^calls=/ { skip = 1; next }
            /^[0-9+*-]/ { if (skip) { skip = 0; next }
                          if (index(object, want)) n += $2 }
            END { printf "%.1f", n / d }' "$file"
    fi
}

table() { # API
    local blocks prep post allocs plan_heap heap n ucx library part

    echo "| blocks | plan, ns/block | plan, instr/block | post + completion, ns/block | post + completion, instr/block | of these libmorikv | UCP, UCT, UCS | mori_xgmi | libhipcpu | allocations a post | plan, heap bytes/block | plan and posts in flight, heap bytes/block |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
    counted "$1"
    native "$1" >"$work/$1.native"
    while read -r blocks prep post allocs plan_heap heap _; do
        n=$((4 * blocks))
        ucx=0
        for library in libucp libuct.so libucs; do
            part=$(instructions "$1" post "$blocks" "$n" "$library")
            ucx=$(awk -v a="$ucx" -v b="$part" 'BEGIN { printf "%.1f", a + b }')
        done
        echo "| $blocks | $prep | $(instructions "$1" plan "$blocks" "$blocks")" \
            "| $post | $(instructions "$1" post "$blocks" "$n")" \
            "| $(instructions "$1" post "$blocks" "$n" libmorikv) | $ucx" \
            "| $(instructions "$1" post "$blocks" "$n" libuct_mori)" \
            "| $(instructions "$1" post "$blocks" "$n" libhipcpu) | $allocs | $plan_heap | $heap |"
    done <"$work/$1.native"
}

echo "Machine: $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), UCX $(pkg-config --modversion ucx 2>/dev/null || echo unknown), $(uname -m)"
for api in mkv ucp_sgl ucp; do
    echo
    echo "### --api $api"
    echo
    table "$api"
done
