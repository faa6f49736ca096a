#!/bin/bash
# Detection of a lane slower than UCX's own: by invented figures, not by time.
# BM-03
set -uo pipefail

source=${srcdir:-$(cd "$(dirname "$0")/../../.." && pwd)}
source=$(cd "$source" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expects STATUS TEXT COMMAND...
expects() {
    local wanted=$1 text=$2 status=0
    shift 2

    "$@" >"$work/out" 2>&1 || status=$?
    if [ $status != "$wanted" ] || ! grep -qE -- "$text" "$work/out"; then
        echo "FAIL: status $status of $*; expected $wanted and '$text'"
        sed 's/^/    /' "$work/out"
        failed=1
    fi
}

figures() { # a run each: LANE FIGURE...
    local lane=$1 figure
    shift
    for figure in "$@"; do
        echo "ucp WRITE 1048576 $lane $figure"
    done
}

ratios=$source/perf/kv_perf/lane_ratios.sh
{ figures rocm_ipc 100 101 99 && figures mori_xgmi 96 10 97; } >"$work/even"
expects 0 'WRITE +1048576 +100.00 +96.00 +0.96 .*[^R]$' "$ratios" "$work/even" median
expects 0 'least ratio 0.96, 0 of 1 below 0.95' "$ratios" "$work/even" median
expects 1 'least ratio 0.68, 1 of 1 below 0.95' "$ratios" "$work/even" mean
expects 0 'least ratio 0.68, 0 of 1 below 0.60' env LANE_LEAST=0.6 "$ratios" "$work/even" mean
# a control: the same figures, ours slowed by 6 %, in one of two rows
awk '{ print } $4 == "mori_xgmi" { $5 *= 0.94 } { $1 = "mkv"; print }' "$work/even" >"$work/slowed"
expects 1 'least ratio 0.90, 1 of 2 below 0.95' "$ratios" "$work/slowed" median
expects 1 '^mkv +WRITE .* 0.90 .*SLOWER$' "$ratios" "$work/slowed" median
expects 1 '^ucp +WRITE .* 0.96 .*[^R]$' "$ratios" "$work/slowed" median
{ cat "$work/even" && figures mori_xgmi 99; } >"$work/odd"
expects 2 '3 runs over rocm_ipc, 4 over mori_xgmi' "$ratios" "$work/odd" median
figures mori_xgmi 99 >"$work/one"
expects 2 'no figures of two lanes' "$ratios" "$work/one" median
{ cat "$work/even" && figures mori_xgmi -; } >"$work/none"
expects 2 'not a figure: ucp WRITE 1048576 mori_xgmi -' "$ratios" "$work/none" median

# A mori_kv_perf that prints given figures, with a UCX like 1.22: rocm_ipc is refused for
# endpoints that report a peer's failure.
mkdir "$work/build"
cat >"$work/build/mori_kv_perf" <<'END'
#!/bin/bash
echo "UCX_TLS=$UCX_TLS plugin=${UCX_PLUGIN_PATH:-none} $*" >>calls
lane=${UCX_TLS%%,*} api=mkv mode=peer
while [ $# -gt 0 ]; do
    case $1 in
    --json) json=$2 ;;
    --api) api=$2 ;;
    --error_mode) mode=$2 ;;
    esac
    shift
done
[ -z "${FAIL_LANE:-}" ] || [ "$lane" != "$FAIL_LANE" ] || { echo "no way to the peer"; exit 1; }
rate=100
[ "$lane" = mori_xgmi ] && rate=${MORI_RATE:-98}
[ "$lane" = rocm_ipc ] && [ "$mode" = peer ] && lane=tcp
[ "$lane" = mori_xgmi ] && [ "$api" = mkv ] && lane=${MKV_LANE:-mori_xgmi}
for size in 1048576 67108864; do
    printf '{\n  "block_size": %s,\n  "gb_per_s": %s,\n  "path": "put rocm>rocm: zero-copy %s/gpu, 1"\n}\n' $size $rate "$lane"
done >"$json"
END
chmod +x "$work/build/mori_kv_perf"
cd "$work/build" || exit 1
export UCX_PLUGIN_PATH=/the/module LANE_RUNS=2
beside=$source/perf/kv_perf/beside_plain.sh
expects 0 'own rocm_ipc, endpoints of error mode none: put .* rocm_ipc/gpu, 1' "$beside" rocm_ipc "$work/rows"
expects 0 'mori_xgmi beside rocm_ipc, medians of 2 in turn: least ratio 0.98, 0 of 8 below' "$beside" rocm_ipc "$work/rows"
# the same options for both but for what the lane needs, and UCX alone sees no module
expects 0 '^UCX_TLS=rocm_ipc,[^ ]* plugin=none .* --num_iter 100 .* --api ucp --error_mode none --op_type READ' cat calls
expects 0 '^UCX_TLS=mori_xgmi,[^ ]* plugin=/the/module .* --num_iter 100 .* --api ucp --error_mode none --op_type READ' cat calls
expects 0 '^UCX_TLS=mori_xgmi,[^ ]* plugin=/the/module .* --api mkv --op_type WRITE' cat calls
expects 1 '^mkv +READ +67108864 .*SLOWER' env MORI_RATE=94 "$beside" rocm_ipc "$work/rows"
expects 2 'went another way than mori_xgmi: put rocm>rocm: zero-copy tcp' env MKV_LANE=tcp "$beside" rocm_ipc "$work/rows"
expects 2 'no way to the peer' env FAIL_LANE=mori_xgmi "$beside" rocm_ipc "$work/rows"
expects 77 'own rocm_ipc carries nothing here: it took nothing' env FAIL_LANE=rocm_ipc "$beside" rocm_ipc "$work/rows"
: >calls
expects 0 'own cuda_ipc, endpoints of error mode peer' "$beside" cuda_ipc "$work/rows"
expects 0 '^UCX_TLS=cuda_ipc,.* --memory_type cuda .*--api mkv' cat calls
! grep -q 'UCX_TLS=mori.*--memory_type' calls || { echo "FAIL: mori_xgmi's memory is passed as CUDA's"; failed=1; }
expects 2 "expected rocm_ipc, cuda_ipc or tcp" "$beside" ipc "$work/rows"
[ $failed = 0 ] && echo "a slower lane is red, an equal one is not"
