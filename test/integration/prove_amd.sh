#!/bin/sh
# contrib/prove-amd where no GPU is: what it starts is there, runs and is reported, and the
# report says that it is simulated. The suites that it runs too are tests of their own.
set -eu
# shellcheck source=test/integration/prove_lib.sh
. "$(dirname "$0")/prove_lib.sh"

if [ ! -e /dev/kfd ]; then
    if "$tree/contrib/prove-amd" --build "$build" "$out" >"$out/refused" 2>&1; then
        die "it found AMD GPUs where none are"
    fi
    grep -q '0 AMD GPUs here; expected 2 or more' "$out/refused" || die "$(cat "$out/refused")"
fi

"$tree/contrib/prove-amd" --cpu --build "$build" --stages "machine risks limits models perftest kv latency" "$out"
reports "$out/report.txt" 'skipped|FAILED' 'libhipcpu device 0' '^risk capture-copies *not seen' '^risk handles *not seen' \
    '^risk consumer *not seen: 2 lists' '^risk dead-peer *not seen' '^risk network *not' '^risk pids *not' ', 0 with wrong bytes' 'every byte checked' \
    'path list put rocm>rocm: xgmi (sgl mori_xgmi' 'ucx_perftest -t ucp_get' 'model Llama-3-70B' \
    'DeepSeek-R1 256, pull at once' 'scheme pingpong' '^notify-posix-mkv-1 *avg'

# a runtime that has the faults of its release: each is found, and none breaks copies
look() { # RELEASE LINE...
    release=$1
    shift

    HIPCPU_VERSION=$release HIPCPU_RULES=amd "$tree/contrib/prove-amd" --cpu --build "$build" \
        --stages risks "$out/$release" >/dev/null || die "$(cat "$out/$release/report.txt")"
    for line in "$@"; do
        grep -E -q -e "^risk $line" "$out/$release/report.txt" ||
            die "HIPCPU_VERSION=$release: the report has no '$line'"
    done
}
look 7.0 'handles *seen' 'close-waits *seen' 'capture-stream *seen' 'capture-event *seen' \
    'capture-relaxed *seen' 'capture-copies *not seen' 'last-error *not seen'
export HIPCPU_IPC_TIMEOUT=100
look 7.2 'export-leaks *seen' 'capture-copies *not seen' 'close-waits *seen' 'dead-peer *not seen' \
    'network *(seen: hipIpcOpenMemHandle|not looked at)'
HIPCPU_FAIL=hipDeviceGetPCIBusId:0:1
export HIPCPU_FAIL
look 6.4 'topology *seen: device 0 has no PCI address'
unset HIPCPU_FAIL

# a kernel whose flag passes its bytes breaks them, and is told
if HIPCPU_RULES=early-flag "$tree/contrib/prove-amd" --cpu --build "$build" --stages risks "$out/early" >/dev/null; then
    die "a flag that comes before the bytes was not found"
fi
grep -q '^risk consumer *BROKEN: 1 lists of 32 MiB' "$out/early/report.txt" || die "$(cat "$out/early/report.txt")"
