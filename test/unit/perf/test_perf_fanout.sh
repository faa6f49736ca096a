#!/bin/bash
# gpu_limits moves from one GPU to all others and back, every byte checked, and fails when bytes
# do not arrive; pairs.sh starts several runs together.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
source=${srcdir:-$(cd "$(dirname "$0")/../../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HIPCPU_DEVICES=4 UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=tcp,self
limits=("$build/perf/gpu/gpu_limits" --hip "$build/test/fake/hip/lib/libamdhip64.so.6" --pool 16
    --count 16 --repeats 1 --parts fanout)

die() {
    echo "test_perf_fanout.sh: $*" >&2
    exit 1
}

timeout 600 "${limits[@]}" --json "$work/rows" >"$work/out" 2>&1 ||
    die "gpu_limits ended with an error: $(cat "$work/out")"
[ "$(grep -c 'at once.*"checked": "ok"' "$work/rows")" = 36 ] ||
    die "36 checked rows of each scheme are expected: $(cat "$work/out")"
if HIPCPU_COPY=0 timeout 600 "${limits[@]}" >"$work/out" 2>&1; then
    die "gpu_limits did not see that nothing was copied"
fi
HIPCPU_DEVICES=2 timeout 600 "${limits[@]}" 2>&1 | grep 'three devices are needed, there are 2' >/dev/null ||
    die "two devices are not named as too few"

# Nothing is measured while the lock is held; afterwards all run.
run=(--num_iter 20 --warmup_iter 1 --total_buffer_size 1m)
cd "$build" || exit 1
"$source/perf/kv_perf/pairs.sh" "$work/pairs" 2 0 "${run[@]}" >"$work/out" 2>&1 ||
    die "pairs.sh ended with an error: $(cat "$work/out")"
grep -q 'alone [0-9.]* GB/s; 2 at once' "$work/out" || die "no ratio: $(cat "$work/out")"
exec 9>"$work/lock"
flock -x 9
timeout 600 perf/kv_perf/mori_kv_perf "${run[@]}" --start_lock "$work/lock" >"$work/out" 2>&1 9>&- &
until grep -q -- "-> FLOCK .*:$(stat -c %i "$work/lock") " /proc/locks; do
    kill -0 $! || die "mori_kv_perf did not wait for the lock: $(cat "$work/out")"
done
! grep -q 'B/W' "$work/out" || die "mori_kv_perf measured while the lock was held"
exec 9>&-
wait $! || die "mori_kv_perf ended with an error: $(cat "$work/out")"
grep -q 'B/W' "$work/out" || die "mori_kv_perf measured nothing"
echo "all others at once, every byte checked"
