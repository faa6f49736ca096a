#!/bin/bash
# Instructions and doorbells of mori_rdma a work request, as a table:
#   perf/bench_rdma.sh [BUILD]
# The device is fake and completes at once; its own instructions and the benchmark's are left
# out, those of the module, UCX and the C library count. Without valgrind: time alone.
set -euo pipefail

build=$(cd "${1:-.}" && pwd)
export UCX_PLUGIN_PATH=$build/.libs
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
program=$build/perf/.libs/bench_rdma
[ -x "$program" ] || program=$build/perf/bench_rdma

if ! command -v valgrind >/dev/null; then
    echo "perf/bench_rdma.sh: no valgrind, so no instructions: ns a work request only" >&2
    exec "$program"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Self cost by object; the line after "calls=" is what was called, and counted there.
own_cost() { # FILE
    awk '/^ob=/ { ours = !/libibverbs\.so|\/bench_rdma/ }
         /^calls=/ { getline; next }
         ours && /^(0x)?[0-9a-f+*-]+ [0-9]+$/ { sum += $2 }
         END { print sum + 0 }' "$1"
}

echo "| operation | blocks | batch | work requests | doorbells | instructions a work request | ns |"
echo "|---|---|---|---|---|---|---|"
row=0
"$program" | grep '^row' >"$work/time"
while read -r _ op blocks batch _ wrs _ doorbells _ _ _ ns; do
    valgrind -q --tool=callgrind --collect-atstart=no --compress-strings=no --compress-pos=no \
        --callgrind-out-file="$work/out" "$program" $row >/dev/null
    awk -v op="$op" -v b="$blocks" -v n="$batch" -v w="$wrs" -v d="$doorbells" \
        -v c="$(own_cost "$work/out")" -v ns="$ns" 'BEGIN {
            printf "| %s | %d | %d | %d | %d | %.1f | %s |\n", op, b, n, w, d, c / w, ns }'
    row=$((row + 1))
done <"$work/time"
