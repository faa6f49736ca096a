#!/bin/sh
# contrib/prove-nic where no NIC is: what it starts is there, runs and is reported, and the
# report says that it is simulated. The suites that it runs too are tests of their own.
set -eu
build=${MKV_BUILD_DIR:-$PWD}
tree=$(cd "$(dirname "$0")/../.." && pwd)
out=$(mktemp -d "${TMPDIR:-/tmp}/prove_nic.XXXXXX")
trap 'rm -rf "$out"' EXIT

die() {
    echo "prove_nic.sh: $*" >&2
    exit 1
}

if ldd "$build/.libs/libuct_mori.so" | grep -q libasan; then
    echo "UCX's own programs are not started here with AddressSanitizer's runtime"
    exit 77
fi

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
report=$out/report.txt
head -n 1 "$report" | grep -q '^SIMULATED' || die "the report does not begin with SIMULATED"
for what in '^locked memory' 'Device: fake0:1' '100%: Checks' '^ucp_put_bw *4096 bytes' '^tag_lat' \
    'mori_kv_perf --op_type READ' 'every byte checked' 'kv WRITE over 4 queue pairs: ok' \
    'work requests posted again' 'reference: skipped' '^== 0 stages failed'; do
    grep -q -e "$what" "$report" || die "the report has no '$what': $(cat "$report")"
done
if grep -E 'FAILED' "$report"; then
    die "stages did not run"
fi
