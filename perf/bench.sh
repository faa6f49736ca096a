#!/bin/bash
# What a scattered block costs the host when a plan is reused. Prints markdown.
#
#   perf/bench.sh BUILDDIR
#
# mori_xgmi on libhipcpu, which moves no bytes (HIPCPU_COPY=0) and works inside the call
# that submits (HIPCPU_INLINE=1): what is left is the host's share. Instructions are
# callgrind's and repeatable; nanoseconds are this machine's. mori_rdma has
# perf/bench_rdma.sh.
set -euo pipefail

build=$(cd "${1:?build directory}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n

native() { # ARG...
    "$build/perf/bench_plan" "$@" --warmup_iter 20 --num_iter 100 2>/dev/null
}

counted() { # NAME ARG...: a dump for each row and phase
    local name=$1

    shift
    command -v valgrind >/dev/null || return 0
    "$build/libtool" --mode=execute valgrind --tool=callgrind --collect-atstart=no \
        --callgrind-out-file="$work/$name.out" "$build/perf/bench_plan" "$@" \
        --warmup_iter 3 --num_iter 4 >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; return 1; }
}

# Instructions of a dump for each block, in all or in shared objects of some names.
instructions() { # NAME PHASE BLOCKS DIVISOR [OBJECTS]
    local file

    file=$(grep -l "Client Request: $2 $3\$" "$work/$1".out.* 2>/dev/null | head -n 1)
    [ -n "$file" ] || { echo "-"; return; }
    # cost lines belong to the "ob=" line before them, but for the one after "calls=",
    # which sums up a call and is counted where the callee's own lines are
    awk -v d="$4" -v want="${5:-.}" '
        function name(id) {
            if (match(id, /^\([0-9]+\) /)) {
                names[substr(id, 1, RLENGTH - 1)] = substr(id, RLENGTH + 1)
                id = substr(id, 1, RLENGTH - 1)
            }
            return id
        }
        /^ob=/ { object = names[name(substr($0, 4))]; next }
        /^cob=/ { name(substr($0, 5)); next }
        /^calls=/ { skip = 1; next }
        /^[0-9+*-]/ { if (!skip && object ~ want) n += $2; skip = 0 }
        END { printf "%.1f", n / d }' "$file"
}

ucx='libucp|libuct\.so|libucs|libucm'

xgmi_table() { # ARG...
    local blocks prep post allocs plan_heap heap n

    echo "| blocks | plan, ns/block | plan, instr/block | post + completion, ns/block | post + completion, instr/block | libmorikv | UCX | mori_xgmi | libhipcpu | allocations a post | plan, heap bytes/block | plan and post in flight, heap bytes/block |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|"
    counted xgmi "$@"
    while read -r blocks prep post allocs plan_heap heap _; do
        n=$((4 * blocks))
        echo "| $blocks | $prep | $(instructions xgmi plan "$blocks" "$blocks")" \
            "| $post | $(instructions xgmi post "$blocks" $n)" \
            "| $(instructions xgmi post "$blocks" $n libmorikv)" \
            "| $(instructions xgmi post "$blocks" $n "$ucx")" \
            "| $(instructions xgmi post "$blocks" $n libuct_mori)" \
            "| $(instructions xgmi post "$blocks" $n libhipcpu)" \
            "| $allocs | $plan_heap | $heap |"
    done < <(native "$@")
    rm -f "$work"/xgmi.*
}

xgmi() {
    local api op

    export UCX_TLS=mori_xgmi,tcp HIPCPU_COPY=0 HIPCPU_INLINE=1
    export LD_LIBRARY_PATH=$build/test/fake/hipcpu
    for op in WRITE READ; do
        for api in mkv ucp_sgl ucp; do
            [ $api-$op != ucp_sgl-READ ] || continue
            printf '\n#### mori_xgmi, %s, --api %s\n\n' $op $api
            xgmi_table --api $api --op_type $op --initiator_seg_type VRAM \
                --target_seg_type VRAM --start_batch_size 512 --max_batch_size 131072
        done
    done
}

echo "Machine: $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), UCX $(pkg-config --modversion ucx 2>/dev/null || echo unknown)."
xgmi
