#!/bin/bash
# Instructions and doorbells of mori_rdma a work request, in the build folder:
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
"$program" | grep '^row' >"$work/time"
valgrind -q --tool=callgrind --collect-atstart=no --callgrind-out-file="$work/out" \
    "$program" | grep '^row' >"$work/rows"

echo "| operation | blocks | batch | work requests | doorbells | instructions a work request | ns |"
echo "|---|---|---|---|---|---|---|"
part=0
while read -r _ op blocks batch _ wrs _ doorbells _ _ _ _; do
    part=$((part + 1))
    count=$(callgrind_annotate --threshold=100 --auto=no "$work/out.$part" |
        awk '/\[.*\]$/ && !/libibverbs\.so/ && !/bench_rdma\]/ && !/PROGRAM TOTALS/ {
                gsub(",", "", $1); sum += $1 } END { print sum + 0 }')
    ns=$(awk -v r="$part" 'NR == r { print $NF }' "$work/time")
    awk -v op="$op" -v b="$blocks" -v n="$batch" -v w="$wrs" -v d="$doorbells" -v c="$count" \
        -v ns="$ns" 'BEGIN { printf "| %s | %d | %d | %d | %d | %.1f | %s |\n",
                             op, b, n, w, d, c / w, ns }'
done <"$work/rows"
