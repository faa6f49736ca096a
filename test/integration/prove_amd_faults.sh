#!/bin/sh
# contrib/prove-amd finds each fault that libhipcpu can have: every row of the table in
# docs/dev/hipcpu.md. It finds nothing else when no fault is set.
set -eu
# shellcheck source=test/integration/prove_lib.sh
. "$(dirname "$0")/prove_lib.sh"
page=$tree/docs/dev/hipcpu.md

# RISKS in the environment takes those alone
prove() { # FOLDER NAME=VALUE...
    folder=$out/$1
    shift

    env "$@" "$tree/contrib/prove-amd" --cpu --build "$build" --stages "${stages:-risks logic}" "$folder" >"$out/said" 2>&1 || true
    [ -s "$folder/report.txt" ] || die "$(cat "$out/said")"
}

# risk|setting|line
# shellcheck disable=SC2016
sed -n 's/^| `\([a-z-]*\)` | [^|]* | `\{0,1\}\([^|`]*\)`\{0,1\} | \([^|]*\) |$/\1|\2|\3/p' "$page" >"$out/rows"
[ "$(wc -l <"$out/rows")" -gt 20 ] || die "$page: the table has $(wc -l <"$out/rows") rows"

HSA_ENABLE_IPC_MODE_LEGACY=1 stages=risks prove none
sed -n 's/^risk \([a-z-]*\) .*/\1/p' "$out/none/report.txt" | sort -u >"$out/risks"
while read -r risk; do
    grep -q "^$risk|" "$out/rows" || die "$page has no row for '$risk'"
    if [ "$risk" != chunks ] && grep -E -q "^risk $risk +(seen|BROKEN)" "$out/none/report.txt"; then
        die "without any rule: $(cat "$out/none/report.txt")"
    fi
done <"$out/risks"

i=0
while IFS='|' read -r risk setting line; do
    i=$((i + 1))
    [ "$setting" != - ] || continue
    # shellcheck disable=SC2086
    prove $i RISKS="$risk" HSA_ENABLE_IPC_MODE_LEGACY=0 $setting
    grep -q -e "^risk $risk  *$line" "$out/$i/report.txt" ||
        { [ "$risk" = network ] && grep -q '^risk network *not looked at: unshare' "$out/$i/report.txt"; } ||
        die "$setting: no '$risk ... $line': $(cat "$out/$i/report.txt")"
done <"$out/rows"

# machine code whose version the runtime does not load
bundle=$build/ucx_plugin/xgmi/copy/xgmi_kernel.bundle
if [ -e "$bundle" ] && "$tree/contrib/check_kernel" "$bundle" >/dev/null; then
    LC_ALL=C sed 's/\x7fELF\x02\x01\x01\x40\x03/\x7fELF\x02\x01\x01\x40\x04/g' "$bundle" >"$out/bundle"
    stages=kernel prove kernel KERNEL_BUNDLE="$out/bundle"
    grep -q '^risk kernel.*version' "$out/kernel/report.txt" || die "$(cat "$out/kernel/report.txt")"
fi

# where no handle opens, ucx_perftest goes another way; where that is not known in time, its first
# put ends with an error, which it waits for for ever
UCX_MORI_XGMI_OPEN_TIMEOUT=30s HIPCPU_FAIL=hipIpcOpenMemHandle:0:17 "$tree/contrib/prove-amd" --cpu --build "$build" --stages perftest "$out/perftest" \
    >"$out/said" 2>&1 || die "$(cat "$out/said")"
