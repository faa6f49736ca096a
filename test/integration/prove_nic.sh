#!/bin/sh
# contrib/prove-nic where no NIC is: what it starts is there, runs and is reported, and the
# report says that it is simulated. The suites that it runs too are tests of their own.
set -eu
# shellcheck source=test/integration/prove_lib.sh
. "$(dirname "$0")/prove_lib.sh"

# nothing is found on a machine without NICs, and it says what to do
if [ ! -e /sys/class/infiniband ]; then
    if "$tree/contrib/prove-nic" --build "$build" "$out" >"$out/refused" 2>&1; then
        die "it found NICs where none are"
    fi
    grep -q 'mori_rdma finds no device here' "$out/refused" || die "$(cat "$out/refused")"
fi

"$tree/contrib/prove-nic" --fake --build "$build" --flap fake0 \
    --stages "machine limits contract perftest reference kv queues recovery" "$out" ||
    die "$(cat "$out/report.txt")"
reports "$out/report.txt" 'FAILED' '^locked memory' ' version *fake0: .*firmware .*fake.ionic by libibverbs' ' ucx *UCX 1' 'Device: fake0:1' '100%: Checks' '^ucp_put_bw *4096 bytes' '^tag_lat' \
    'mori_kv_perf --op_type READ' 'every byte checked' 'kv WRITE over 4 queue pairs: ok' \
    'work requests posted again' 'reference: skipped' '^== 0 stages failed'
