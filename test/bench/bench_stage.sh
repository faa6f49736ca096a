#!/bin/bash
# Work requests and instructions of a small piece over mori_rdma, as a list and through
# staging, of both sides, as a table:
#   test/bench/bench_stage.sh [BUILD]
# The device is fake; what it costs, with what it calls, is left out, and so are the
# benchmark's own instructions. The fake copies in the thread that posts, so time is not
# told. Without valgrind: work requests alone.
set -euo pipefail

build=$(cd "${1:-.}" && pwd)
export UCX_PLUGIN_PATH=$build/.libs UCX_WARN_UNUSED_ENV_VARS=n
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
program=$build/test/bench/.libs/bench_stage
[ -x "$program" ] || program=$build/test/bench/bench_stage

if ! command -v valgrind >/dev/null; then
    echo "test/bench/bench_stage.sh: no valgrind, so no instructions" >&2
    exec "$program"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Of libmorikv, of its copies, and of all others but the fake with what it calls and the
# benchmark. A line "calls=" is followed by what the call cost in all, the callee's.
split_cost() { # FILE
    awk 'function object(path) {
             if (path ~ /libibverbs\.so/) return "fake"
             if (path ~ /libmorikv\.so/) return "ours"
             return (path ~ /\/bench_stage/) ? "bench" : "other"
         }
         /^ob=/ { own = object($0); callee = own; next }
         /^fn=/ { callee = own; next }
         /^cob=/ { callee = object($0); next }
         /^cfn=/ { called = $0; next }
         /^calls=/ {
             getline
             if (callee == "fake" && own != "fake") fake += $2
             if (own == "ours" && called ~ /mem(cpy|move)/) copies += $2
             callee = own
             next
         }
         /^(0x)?[0-9a-f+*-]+ [0-9]+$/ { cost[own] += $2; total += $2 }
         END { print cost["ours"] + 0, copies + 0,
                   total - cost["ours"] - copies - cost["bench"] - fake }' "$1"
}

pieces=8192 # of two transfers
echo "| bytes | way | work requests | doorbells | source: libmorikv | copies | UCX, mori_rdma | destination: libmorikv | copies | UCX, mori_rdma |"
echo "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
row=0
"$program" | grep '^row' >"$work/time"
while read -r _ way _ size _ wrs _ doorbells; do
    for side in 0 1; do
        valgrind -q --tool=callgrind --collect-atstart=no --compress-strings=no --compress-pos=no \
            --callgrind-out-file="$work/out.$side" "$program" $row $side >/dev/null 2>"$work/err" ||
            { cat "$work/err" >&2; exit 1; }
        split_cost "$work/out.$side" >"$work/cost.$side"
    done
    cat "$work/cost.0" "$work/cost.1" | tr '\n' ' ' |
        awk -v size="$size" -v way="$way" -v w="$wrs" -v d="$doorbells" -v n=$pieces '{
            printf "| %d | %s | %s | %s |", size, way, w, d
            for (i = 1; i <= 6; ++i) printf " %.1f |", $i / n
            printf "\n" }'
    row=$((row + 1))
done <"$work/time"
