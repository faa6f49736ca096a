#!/bin/sh
# contrib/prove-amd where no GPU is: what it starts is there, runs and is reported, and the
# report says that it is simulated. The suites that it runs too are tests of their own.
# BM-03
set -eu
# shellcheck source=test/integration/prove_lib.sh
. "$(dirname "$0")/prove_lib.sh"

if [ ! -e /dev/kfd ]; then
    if "$tree/contrib/prove-amd" --build "$build" "$out/none" >"$out/refused" 2>&1; then
        die "it found AMD GPUs where none are"
    fi
    grep -q '0 AMD GPUs here; expected 2 or more' "$out/refused" || die "$(cat "$out/refused")"
    [ ! -e "$out/none" ] || die "it made a report, and a build, before it looked for GPUs"
fi

"$tree/contrib/prove-amd" --cpu --build "$build" --stages "machine risks logic limits models perftest plain kv latency" "$out"
reports "$out/report.txt" 'skipped|FAILED' 'libhipcpu device 0' ' version *kernel [0-9]' ' version *HIP runtime 6' ' ucx *UCX 1' '^risk capture-copies *not seen' '^risk handles *not seen' \
    '^risk consumer *not seen: 2 times' '^risk dead-peer *not seen' '^risk invalidation *not seen' '^risk network *not' '^risk pids *not' ', 0 with wrong bytes' 'every byte checked' \
    'list put rocm>rocm: xgmi (sgl mori_xgmi' 'ucx_perftest -t ucp_get' 'model Llama-3-70B' \
    'DeepSeek-R1 256, pull at once' '^mori_xgmi beside tcp, medians of 1 in turn: .* of 8 below 0' 'scheme pingpong' '^notify-mori_xgmi-mkv-1 *avg' '^notify-posix-mkv-1 *avg'

# eight GPUs, each with a NIC beside it
if RISKS=topology "$tree/test/support/fake_node.sh" "$tree/contrib/prove-amd" --cpu --build "$build" --stages risks \
    "$out/node" >"$out/said" 2>&1; then
    for i in 0 1 2 3 4 5 6 7; do
        grep -q "^risk topology *not seen: device $i is at 0000:${i}c:00.0, next to it n$i$" "$out/node/report.txt" ||
            die "GPU $i: $(cat "$out/node/report.txt")"
    done
else
    [ $? = 77 ] || die "$(cat "$out/said")"
fi

# the stage of our own logic notices what fails
if HIPCPU_FAIL=hipMalloc:0:2 "$tree/contrib/prove-amd" --cpu --build "$build" --stages logic "$out/logic" >/dev/null; then
    die "tests that cannot allocate GPU memory pass"
fi
for risk in waking pending realloc opening shared-fate invalidation; do
    grep -q "^risk $risk *BROKEN" "$out/logic/report.txt" || die "$risk: $(cat "$out/logic/report.txt")"
done
