#!/bin/sh
# test/gpu/run without a GPU: its stages exist, run and are reported, and the report is marked as
# simulated. The suites that it also runs are separate tests.
# BM-03
set -eu
# shellcheck source=test/integration/gpu_lib.sh
. "$(dirname "$0")/gpu_lib.sh"

if [ ! -e /dev/kfd ]; then
    status=0
    "$tree/test/gpu/run" "$build" "$out/none" >"$out/refused" 2>&1 || status=$?
    [ $status = 77 ] || die "it found AMD GPUs where none are"
    grep -q '0 AMD GPUs here; expected 2 or more' "$out/refused" || die "$(cat "$out/refused")"
    [ ! -e "$out/none" ] || die "it made a report before it looked for GPUs"
fi

"$tree/test/gpu/run" --cpu --stages "machine risks limits models perftest plain kv latency" "$build" "$out" >"$out/said" || die "$(cat "$out/said")"
reports "$out/report.txt" 'skipped|FAILED' 'libhipcpu device 0' ' version *kernel [0-9]' ' version *HIP runtime 6' ' ucx *UCX 1' '^risk capture-copies *not seen' '^risk handles *not seen' \
    '^risk consumer *not seen: 2 times' '^risk dead-peer *not seen' '^risk network *not' '^risk pids *not' ', 0 with wrong bytes' 'every byte checked' \
    'list put rocm>rocm: xgmi (sgl mori_xgmi' 'ucx_perftest -t ucp_get' 'model Llama-3-70B' \
    'DeepSeek-R1 256, pull at once' '^mori_xgmi beside tcp, medians of 1 in turn: .* of 8 below 0' 'scheme pingpong' '^notify-mori_xgmi-mkv-1 *avg' '^notify-posix-mkv-1 *avg'
grep -q '^PASS: limits$' "$out/said" || die "a stage has no line for contrib/test: $(cat "$out/said")"
