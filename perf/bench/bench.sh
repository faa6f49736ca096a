#!/bin/bash
# What a scattered block costs the host when a plan is reused. Prints markdown.
#
#   perf/bench/bench.sh BUILDDIR
#   perf/bench/bench.sh BUILDDIR --figures   # the counts that bench_check.sh watches
#
# mori_xgmi on libhipcpu, which moves no bytes (HIPCPU_COPY=0) and works inside the call
# that submits (HIPCPU_INLINE=1): what is left is the host's share. Instructions are
# callgrind's and repeatable; nanoseconds are this machine's. mori_rdma has
# test/bench/bench_rdma.sh.
set -euo pipefail

build=$(cd "${1:?build directory}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n

# Rows, with the least times of some runs: what others do on the machine only adds to them.
native() { # ARG...
    for _ in 1 2 3 4 5; do
        "$build/perf/bench/bench_plan" "$@" --warmup_iter 20 --num_iter 100 2>/dev/null
    done | awk '
        !($1 in row) { order[++num] = $1; prep[$1] = $2; post[$1] = $3 }
        { row[$1] = $0; prep[$1] = least(prep[$1], $2); post[$1] = least(post[$1], $3) }
        function least(a, b) { return a + 0 < b + 0 ? a : b }
        END {
            for (i = 1; i <= num; ++i) {
                $0 = row[order[i]]; $2 = prep[$1]; $3 = post[$1]; print
            }
        }'
}

counted() { # NAME ARG...: a dump for each row and phase
    local name=$1

    shift
    command -v valgrind >/dev/null || return 0
    "$build/libtool" --mode=execute valgrind --tool=callgrind --collect-atstart=no \
        --callgrind-out-file="$work/$name.out" "$build/perf/bench/bench_plan" "$@" \
        --warmup_iter 3 --num_iter 4 >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; return 1; }
}

# The dump of a row and phase; nothing without valgrind.
dump() { # NAME PHASE BLOCKS
    grep -l "Client Request: $2 $3\$" "$work/$1".out.* 2>/dev/null | head -n 1 || true
}

# Reads dumps: cost lines belong to the "ob=" and "fn=" lines before them, but for the one
# after "calls=", which sums up a call and is counted where the callee's own lines are.
# shellcheck disable=SC2016
read_dump='
    function name(names, id) {
        if (match(id, /^\([0-9]+\) /)) {
            names[substr(id, 1, RLENGTH - 1)] = substr(id, RLENGTH + 1)
            id = substr(id, 1, RLENGTH - 1)
        }
        return names[id]
    }
    /^ob=/ { object = name(objects, substr($0, 4)); next }
    /^cob=/ { name(objects, substr($0, 5)); next }
    /^fn=/ { function_name = name(functions, substr($0, 4)); next }
    /^cfn=/ { name(functions, substr($0, 5)); next }
    /^calls=/ { skip = 1; next }
    /^[0-9+*-]/ { if (!skip) count($2); skip = 0 }'

# Instructions of a dump for each block, in all or in shared objects of some names.
instructions() { # NAME PHASE BLOCKS DIVISOR [OBJECTS]
    local file

    file=$(dump "$1" "$2" "$3")
    [ -n "$file" ] || { echo "-"; return; }
    awk -v d="$4" -v want="${5:-.}" "$read_dump"'
        function count(n) { if (object ~ want) sum += n }
        END { printf "%.1f", sum / d }' "$file"
}

# The functions that take most of it, stripped ones by their address.
functions() { # NAME PHASE BLOCKS DIVISOR TITLE
    local file

    file=$(dump "$1" "$2" "$3")
    [ -n "$file" ] || return 0
    printf '\n| %s, %s blocks: instr/block | function | of |\n|---|---|---|\n' "$5" "$3"
    awk -v d="$4" "$read_dump"'
        function count(n) { sums[function_name " | " object] += n }
        END { for (f in sums) if (sums[f] / d >= 2) printf "| %.1f | %s |\n", sums[f] / d, f }' \
        "$file" | sed -e 's, [^ ]*/\([^/ ]*\) |$, \1 |,' | sort -t'|' -k2,2 -rn
}

ucx='libucp|libuct\.so|libucs|libucm'

xgmi_rows() { # NAME ARG...
    local name=$1
    local blocks prep post allocs plan_heap heap lists n

    shift
    counted xgmi "$@"
    while read -r blocks prep post allocs plan_heap heap lists _; do
        n=$((4 * blocks))
        echo "| $name | $blocks | $(instructions xgmi post "$blocks" $n)" \
            "| $(instructions xgmi post "$blocks" $n libmorikv)" \
            "| $(instructions xgmi post "$blocks" $n "$ucx")" \
            "| $(instructions xgmi post "$blocks" $n mori-core)" \
            "| $(instructions xgmi post "$blocks" $n libhipcpu)" \
            "| $(instructions xgmi post "$blocks" $n /libc.so)" \
            "| $post | $allocs | $(instructions xgmi plan "$blocks" "$blocks") | $prep" \
            "| $plan_heap | $heap | $lists |"
    done < <(native "$@")
    functions xgmi post 4096 $((4 * 4096)) "$name" >>"$work/functions"
    rm -f "$work"/xgmi.*
}

xgmi() {
    local op

    export UCX_TLS=mori_xgmi,tcp HIPCPU_COPY=0 HIPCPU_INLINE=1
    export LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    echo "| posted by | blocks | post + completion, instr/block | libmorikv | UCX | mori_xgmi | libhipcpu | C library | post + completion, ns/block | allocations a post | plan, instr/block | plan, ns/block | heap, bytes/block: plan | plan and posts in flight | of these, first used lists of mori_xgmi |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for op in WRITE READ; do
        xgmi_api "libmorikv, $op" --api mkv --op_type $op
        [ $op = READ ] || xgmi_api "UCP, one list, $op" --api ucp_sgl --op_type $op
        xgmi_api "UCP, a call a block, $op" --api ucp --op_type $op
    done
    cat "$work/functions"
}

xgmi_api() { # NAME ARG...
    xgmi_rows "$@" --initiator_seg_type VRAM --target_seg_type VRAM \
        --start_batch_size 512 --max_batch_size 131072
}

# Plans of bytes: nothing is posted.
bytes() {
    local name num elements ns heap file

    export UCX_TLS=tcp
    if command -v valgrind >/dev/null; then
        "$build/libtool" --mode=execute valgrind --tool=callgrind --collect-atstart=no \
            --callgrind-out-file="$work/bytes.out" "$build/perf/bench/bench_bytes" \
            >"$work/bytes.log" 2>&1 || { cat "$work/bytes.log" >&2; return 1; }
    fi
    echo
    echo "| pieces of a plan of bytes | given | moved | instr/entry | ns/entry | bytes of plan/entry |"
    echo "|---|---|---|---|---|---|"
    while read -r name num elements ns heap; do
        file=$(grep -l "Client Request: $name\$" "$work"/bytes.out.* 2>/dev/null | head -n 1 || true)
        count=-
        [ -z "$file" ] || count=$(awk -v d="$num" "$read_dump"'
            function count(n) { sum += n }
            END { printf "%.1f", sum / d }' "$file")
        echo "| $name | $num | $elements | $count | $ns | $heap |"
    done < <("$build/perf/bench/bench_bytes" 2>/dev/null)
}

# What UCX checks in every call is decided when it is built.
checks() {
    ucx_info -b 2>/dev/null | awk '
        $2 == "ENABLE_ASSERT" && $3 { text = text ", assertions" }
        $2 == "ENABLE_PARAMS_CHECK" && $3 { text = text ", parameter checks" }
        END { print text == "" ? ", built for release" : ", built with" substr(text, 2) }'
}

# Counts of this library alone: they depend on no UCX, and on no other machine. A READ that
# its owner puts is not among them: who waits for it counts what the waiting takes.
figures() {
    local op

    command -v valgrind >/dev/null || { echo "bench.sh: no valgrind" >&2; exit 77; }
    export UCX_TLS=mori_xgmi,tcp HIPCPU_COPY=0 HIPCPU_INLINE=1 MORIKV_READ_BY=get
    export LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    for op in WRITE READ; do
        counted figures --api mkv --op_type $op \
            --initiator_seg_type VRAM --target_seg_type VRAM \
            --start_batch_size 4096 --max_batch_size 4096
        echo "$op.post $(instructions figures post 4096 $((4 * 4096)) libmorikv)"
        echo "$op.plan $(instructions figures plan 4096 4096 libmorikv)"
        rm -f "$work"/figures.*
    done
}

[ "${2:-}" != --figures ] || { figures; exit; }

machine=$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)
version=$(ucx_info -v 2>/dev/null | awk '/Library version/ { print $NF; exit }')
echo "Machine: $machine, UCX ${version:-unknown}$(checks)."
echo
xgmi
bytes
