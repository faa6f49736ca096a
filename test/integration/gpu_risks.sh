#!/bin/sh
# gpu_risks and cases of the tests find each fault that libhipcpu can have: every row of the
# tables in docs/dev/hipcpu.md. They find nothing else when no fault is set.
set -eu
# shellcheck source=test/integration/gpu_lib.sh
. "$(dirname "$0")/gpu_lib.sh"
page=$tree/docs/dev/hipcpu.md
export UCX_PLUGIN_PATH="$build/.libs" MKV_BUILD_DIR="$build" MKV_TEST_REAL_HIP=1 HIPCPU_DEVICES=4 UCX_TLS=mori_xgmi,mori_copy,tcp
export LD_LIBRARY_PATH="$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Behaviour of the module that gpu_risks does not try: a case of the conformance suite, or a test.
case_of() { # RISK
    case $1 in
    waking) echo list_beside_a_long_run_wakes ;;
    pending) echo refused_operations_leave_room_for_others ;;
    realloc) echo memory_allocated_again_is_written_anew ;;
    opening) echo memory_of_a_stopped_peer_is_not_waited_for ;;
    shared-fate) echo test/unit/xgmi/test_xgmi_ep ;;
    invalidation) echo test/unit/xgmi/test_xgmi_inval ;;
    esac
}

# A line for each risk in the file of that name; the settings of a row are words
risks() { # FILE RISK NAME=VALUE...
    file=$1 risk=$2 case=$(case_of "$2") rounds=2
    [ "$2" != consumer ] || rounds=20 # until one of them is bad
    shift 2

    case $case in
    '') (cd "$build" && env RISKS="$risk" "$@" timeout 300 perf/risks/gpu_risks 200 $rounds) ;;
    */*) (cd "$build" && env "$@" timeout 300 "$case") ;;
    *) (cd "$build" && env "$@" timeout 300 sh "$tree/test/conformance/run.sh" mori_xgmi -1 -r "$case") ;;
    esac >"$out/$file" 2>&1 || { [ -z "$case" ] || echo "risk $risk BROKEN"; } >>"$out/$file"
}

# risk|setting|line
# shellcheck disable=SC2016
sed -n 's/^| `\([a-z-]*\)` | [^|]* | `\{0,1\}\([^|`]*\)`\{0,1\} | \([^|]*\) |$/\1|\2|\3/p' "$page" >"$out/rows"
[ "$(wc -l <"$out/rows")" -gt 20 ] || die "$page: the table has $(wc -l <"$out/rows") rows"

# shellcheck disable=SC2016
all=$(sed -n 's/^| `\([a-z-]*\)` |.*/\1/p' "$page" | tr '\n' ' ')
risks none "$all" HSA_ENABLE_IPC_MODE_LEGACY=1
grep -q '^0 risks broken' "$out/none" || die "$(cat "$out/none")"
sed -n 's/^risk \([a-z-]*\) .*/\1/p' "$out/none" | sort -u >"$out/risks"
while read -r risk; do
    grep -q "^$risk|" "$out/rows" || die "$page has no row for '$risk'"
    if [ "$risk" != chunks ] && grep -E -q "^risk $risk +(seen|BROKEN)" "$out/none"; then
        die "without any rule: $(cat "$out/none")"
    fi
done <"$out/risks"

i=0
while IFS='|' read -r risk setting line; do
    i=$((i + 1))
    # shellcheck disable=SC2086
    risks $i "$risk" HSA_ENABLE_IPC_MODE_LEGACY=0 $setting
    grep -q -e "^risk $risk  *$line" "$out/$i" ||
        { [ "$risk" = network ] && grep -q '^risk network *not looked at: unshare' "$out/$i"; } ||
        die "$setting: no '$risk ... $line': $(cat "$out/$i")"
done <"$out/rows"

# the link goes down under puts of the NIC, and no timeout ends them
export FAKE_VERBS_DEVICES=fake0:ionic FAKE_VERBS_WIRE="$out/wire"
(cd "$build" && RISKS=nic-flush RISKS_LIMIT=10 UCX_MORI_RDMA_PORT_DOWN_TIMEOUT=1000s UCX_MORI_RDMA_RECOVERY_TIMEOUT=1000s \
    exec timeout 300 perf/risks/gpu_risks 100000000 2) >"$out/down" 2>&1 &
while kill -0 $! 2>/dev/null && [ "$("$build/test/fake/verbs/verbs_ctl" bytes fake0 | cut -d ' ' -f 1)" -lt 10000000 ]; do sleep 0.1; done
"$build/test/fake/verbs/verbs_ctl" link fake0 down
wait $! || true
grep -q '^risk nic-flush *BROKEN: .*a put and its flush: .*timed out' "$out/down" || die "a link that is down: $(cat "$out/down")"
unset FAKE_VERBS_DEVICES FAKE_VERBS_WIRE

# eight GPUs, each with a NIC beside it
if RISKS=topology "$tree/test/support/fake_node.sh" "$build/perf/risks/gpu_risks" 200 2 >"$out/node" 2>&1; then
    for i in 0 1 2 3 4 5 6 7; do
        grep -q "^risk topology *not seen: device $i is at 0000:${i}c:00.0, next to it n$i$" "$out/node" || die "GPU $i: $(cat "$out/node")"
    done
else
    [ $? = 77 ] || die "$(cat "$out/node")"
fi
