#!/bin/bash
# Cost of a scattered block for the host when a plan is reused. Prints markdown.
#
#   perf/bench/bench.sh BUILDDIR
#   perf/bench/bench.sh BUILDDIR --figures   # the counts that bench_check.sh watches
#
# mori_xgmi runs on libhipcpu, which moves no bytes (HIPCPU_COPY=0) and works inside the call
# that submits (HIPCPU_INLINE=1): the rest is the host's share. Instructions are callgrind's
# and repeatable; nanoseconds are this machine's. mori_rdma has test/bench/bench_rdma.sh.
set -euo pipefail
[[ ${1-} != -* ]] || {
    echo "perf/bench/bench.sh: no option '$1'; expected BUILD [--figures]" >&2
    exit 2
}

build=$(cd "${1:?build directory}" && pwd)
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n

# Rows, with the least times of some runs: other work on the machine can only increase times.
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
    merged
}

xgmi_api() { # NAME ARG...
    xgmi_rows "$@" --initiator_seg_type VRAM --target_seg_type VRAM \
        --start_batch_size 512 --max_batch_size 131072
}

# Gain of merging with many transfers in flight: 512 transfers of 32 blocks. Pairs of blocks
# adjoin in both processes; they are compared with the same blocks whose pairs are reversed at
# the target, so that each is a piece of its own. All code of the process is counted.
merge_objects="libmorikv|$ucx|mori-core|libhipcpu"
merge=(--api mkv --op_type WRITE --initiator_seg_type VRAM --target_seg_type VRAM
    --start_batch_size 16384 --max_batch_size 16384 --pipeline_depth 512)

merge_instructions() { # ORDER
    BENCH_ORDER=$1 counted merge "${merge[@]}"
    instructions merge post 16384 $((4 * 16384)) "$merge_objects"
    rm -f "$work"/merge.*
}

# Destinations that adjoin while their sources do not, as where a reader sorts: mori_xgmi, and what it calls of the C library.
adjoin_instructions() { # ORDER
    BENCH_ORDER=$1 counted adjoin --api ucp_sgl --op_type WRITE --initiator_seg_type VRAM \
        --target_seg_type VRAM --start_batch_size 4096 --max_batch_size 4096
    instructions adjoin post 4096 $((4 * 4096)) "mori-core|/libc.so"
    rm -f "$work"/adjoin.*
}

gain() { # MORE LESS
    awk -v more="$1" -v less="$2" 'BEGIN { if (less + 0) printf "%.2f", more / less; else printf "-" }'
}

merged() {
    local order post pieces merged alone

    merged=$(merge_instructions pairs) alone=$(merge_instructions crossed)
    echo
    echo "| 512 transfers of 32 blocks | pieces | post + completion, instr/block | ns/block |"
    echo "|---|---|---|---|"
    for order in pairs crossed; do
        read -r _ _ post _ _ _ _ pieces < <(BENCH_ORDER=$order native "${merge[@]}")
        echo "| $order | $pieces | $([ $order = pairs ] && echo "$merged" || echo "$alone") | $post |"
    done
    echo "| gain, aim 1.1 | | $(gain "$alone" "$merged") | |"
}

# Dumps of a program of two contexts, and what a piece of a row took.
counted_pair() { # PROGRAM [OPTION-OF-CALLGRIND...]
    local name=$1

    shift
    command -v valgrind >/dev/null || return 0
    "$build/libtool" --mode=execute valgrind --tool=callgrind --collect-atstart=no "$@" \
        --callgrind-out-file="$work/$name.out" "$build/perf/bench/bench_$name" >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; return 1; }
}

pair_instructions() { # PROGRAM ROW PIECES [OBJECTS]
    local file

    file=$(grep -l "Client Request: $2\$" "$work/$1".out.* 2>/dev/null | head -n 1 || true)
    [ -n "$file" ] || { echo "-"; return; }
    awk -v d="$3" -v want="${4:-.}" "$read_dump"'
        function count(n) { if (object ~ want) sum += n }
        END { printf "%.1f", sum / d }' "$file"
}

# Plans of bytes: nothing is posted.
bytes() {
    local name num elements ns heap

    export UCX_TLS=tcp
    counted_pair bytes
    echo
    echo "| pieces of a plan of bytes | given | moved | instr/entry | ns/entry | bytes of plan/entry |"
    echo "|---|---|---|---|---|---|"
    while read -r name num elements ns heap; do
        echo "| $name | $num | $elements | $(pair_instructions bytes "$name" "$num") | $ns | $heap |"
    done < <("$build/perf/bench/bench_bytes" 2>/dev/null)
}

# Single operations, as in a batch of mori.io
op_instructions() { # ROW [OBJECTS]
    pair_instructions op "$1" $((20 * 4096)) "${2:-libmorikv}"
}

one_sided() {
    local row pieces ns

    counted_pair op
    echo
    echo "| one-sided, scattered | pieces | post to quiet, instr/piece | libmorikv | UCX | mori_xgmi | ns/piece |"
    echo "|---|---|---|---|---|---|---|"
    while read -r row pieces ns; do
        echo "| $row | $pieces | $(op_instructions "$row" .) | $(op_instructions "$row")" \
            "| $(op_instructions "$row" "$ucx") | $(op_instructions "$row" mori-core) | $ns |"
    done < <("$build/perf/bench/bench_op" 2>/dev/null)
}

# Pieces of blocks that go from one head a rank to two
cut_instructions() { # [OBJECTS]
    pair_instructions cut WRITE $((20 * 16384)) "${1:-libmorikv}"
}

cut() {
    local row pieces ns

    counted_pair cut
    echo
    echo "| blocks cut into pieces of 256 bytes, TP 8 to 4 | pieces | post + completion, instr/piece | libmorikv | UCX | mori_xgmi | ns/piece |"
    echo "|---|---|---|---|---|---|---|"
    while read -r row pieces ns; do
        echo "| $row | $pieces | $(cut_instructions .) | $(cut_instructions)" \
            "| $(cut_instructions "$ucx") | $(cut_instructions mori-core) | $ns |"
    done < <("$build/perf/bench/bench_cut" 2>/dev/null)
}

# Steps from a post to DONE of the other side, each counted in 20 rounds. The start of the
# copy and the sending of the message are dumps of callgrind's own. They take time, so peers
# are not checked meanwhile. Posting starts a copy that is alone, and a copy is over at once here.
counted_notify() { # PROGRAM
    MORIKV_PEER_CHECK=0 counted_pair "$1" --dump-before=hipMemcpyAsync --dump-after=ucp_am_send_nbx
}

notify_instructions() { # STEP [OBJECTS] [PROGRAM]
    local trigger="Client Request: $1" files

    case $1 in
    launch) trigger=--dump-before=hipMemcpyAsync ;;
    send) trigger=--dump-after=ucp_am_send_nbx ;;
    esac
    mapfile -t files < <(grep -lF -e "Trigger: $trigger" "$work/${3:-notify}".out.* 2>/dev/null)
    [ ${#files[@]} -gt 0 ] || { echo "-"; return; }
    awk -v want="${2:-libmorikv|mori-core}" "$read_dump"'
        function count(n) { if (object ~ want) sum += n }
        END { printf "%.1f", sum / 20 }' "${files[@]}"
}

notified() {
    local step

    counted_notify notify
    counted_notify notify_ucp
    echo
    echo "| one block and the word of it | instructions | libmorikv | UCX | mori_xgmi | C library | UCP alone: UCX | mori_xgmi | C library |"
    echo "|---|---|---|---|---|---|---|---|---|"
    for step in launch beside send sent receive idle; do
        echo "| $step | $(notify_instructions "$step" .) | $(notify_instructions "$step" libmorikv)" \
            "| $(notify_instructions "$step" "$ucx") | $(notify_instructions "$step" mori-core)" \
            "| $(notify_instructions "$step" /libc.so)" \
            "| $(notify_instructions "$step" "$ucx" notify_ucp)" \
            "| $(notify_instructions "$step" mori-core notify_ucp)" \
            "| $(notify_instructions "$step" /libc.so notify_ucp) |"
    done
}

# A post, while the peer reads or makes no progress, of 1000.
post_instructions() { # ROW [OBJECTS]
    pair_instructions post "$1" 1000 "${2:-libmorikv}"
}

posted() {
    local row median p99

    counted_pair post
    echo
    echo "| a post of 4 blocks of 64 KiB over tcp, the peer | instructions | libmorikv | UCX | median, us | p99, us |"
    echo "|---|---|---|---|---|---|"
    while read -r row median p99; do
        echo "| $row | $(post_instructions "$row" .) | $(post_instructions "$row")" \
            "| $(post_instructions "$row" "$ucx") | $median | $p99 |"
    done < <("$build/perf/bench/bench_post" 2>/dev/null)
}

# A message of 8 bytes, of 1000; OTHERS senders are quiet, or CLOSED of them. The program
# contains mori_xgmi.
idle_instructions() { # TRANSPORT OTHERS CLOSED [OBJECTS]
    command -v valgrind >/dev/null && [ -x "$build/test/bench/bench_idle" ] || { echo "-"; return; }
    mkdir -p "$work/shm"
    UCX_MORI_XGMI_SHM_DIR=$work/shm "$build/libtool" --mode=execute valgrind --tool=callgrind \
        --collect-atstart=no --callgrind-out-file="$work/idle.out" \
        "$build/test/bench/bench_idle" "$1" "$2" "$3" >"$work/idle.log" 2>&1 ||
        { cat "$work/idle.log" >&2; return 1; }
    awk -v want="${4:-.}" "$read_dump"'
        function count(n) { if (object ~ want) sum += n }
        END { printf "%.1f", sum / 1000 }' "$work/idle.out"
}

idle() {
    local others

    echo
    echo "| other senders | mori_xgmi, quiet: instr/message of 8 bytes | closed | UCX's posix, which has one queue |"
    echo "|---|---|---|---|"
    for others in 0 31 200 900; do
        echo "| $others | $(idle_instructions mori_xgmi $others 0)" \
            "| $(idle_instructions mori_xgmi $others $others)" \
            "| $([ $others != 0 ] || idle_instructions posix 0 0) |"
    done
}

# For a block in a list
expose_instructions() { # ROW
    pair_instructions expose "$1" $((8 * 65536)) libmorikv
}

expose() {
    local overlap blocks ns

    export UCX_TLS=tcp
    counted_pair expose
    echo
    echo "| exposed to be written to, OVERLAP; moved and verified | blocks | instr/block, to quiet | ns/block, to quiet; both sides |"
    echo "|---|---|---|---|"
    while read -r overlap blocks ns; do
        [ "$overlap" != check ] || overlap="refuse less allow: the check, aim 1 ns"
        echo "| $overlap | $blocks | $(expose_instructions "$overlap") | $ns |"
    done < <("$build/perf/bench/bench_expose" 2>/dev/null)
}

# Print which checks UCX's build makes in each call.
checks() {
    ucx_info -b 2>/dev/null | awk '
        $2 == "ENABLE_ASSERT" && $3 { text = text ", assertions" }
        $2 == "ENABLE_PARAMS_CHECK" && $3 { text = text ", parameter checks" }
        END { print text == "" ? ", built for release" : ", built with" substr(text, 2) }'
}

# Counts of this library, of mori_xgmi and of mori_rdma. They depend neither on UCX nor on the
# machine, except for the gain, which is a ratio. A READ that its owner puts is left out, because
# its waiting would be counted.
figures() {
    local op merged alone step

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
    echo "xgmi.scattered $(adjoin_instructions scattered)"
    echo "xgmi.adjoin $(adjoin_instructions adjoin)"
    merged=$(merge_instructions pairs) alone=$(merge_instructions crossed)
    echo "merge.gain $(gain "$alone" "$merged")"
    counted_pair op
    echo "op.READ $(op_instructions READ)"
    echo "op.WRITE $(op_instructions WRITE)"
    counted_pair cut
    echo "cut.libmorikv $(cut_instructions)"
    echo "cut.xgmi $(cut_instructions mori-core)"
    export UCX_TLS=mori_xgmi,posix UCX_POSIX_ERROR_HANDLING=y
    counted_notify notify
    for step in launch beside send receive idle; do
        echo "notify.$step $(notify_instructions $step)"
    done
    export UCX_TLS=tcp
    counted_pair post
    for step in live stalled; do
        echo "post.$step $(post_instructions $step)"
    done
    counted_pair expose
    echo "expose.allow $(expose_instructions allow)"
    echo "expose.refuse $(expose_instructions refuse)"
    echo "verify.units $(expose_instructions verify)"
    "$tree/test/bench/bench_rdma.sh" "$build" --figures
}

[ "${2:-}" != --figures ] || { figures; exit; }

machine=$(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)
version=$(ucx_info -v 2>/dev/null | awk '/Library version/ { print $NF; exit }')
echo "Machine: $machine, UCX ${version:-unknown}$(checks)."
echo
xgmi
one_sided
cut
export UCX_TLS=mori_xgmi,posix UCX_POSIX_ERROR_HANDLING=y
notified
idle
export UCX_TLS=tcp
posted
bytes
expose
