#!/bin/bash
# gpu_limits moves what mori_kv_perf moves for its models: as many pieces, before and
# after merging, of the same command line; and fails when bytes do not arrive. Its changes
# of layout put every byte in place in one pass and in two.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
limits=("$build/perf/gpu/gpu_limits" --hip "$build/test/fake/hip/lib/libamdhip64.so.6" --pool 1
    --count 1 --repeats 1 --parts models --cache 96)
export HIPCPU_DEVICES=2 UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=tcp,self

die() {
    echo "perf_models.sh: $*" >&2
    exit 1
}

# member NAME < JSON object on a line: a number or a text.
member() {
    sed -n 's/.*"'"$1"'": "\{0,1\}\([^",}]*\).*/\1/p'
}

rows=10
timeout 600 "${limits[@]}" --lengths 700 --json "$work/rows" >"$work/out" 2>&1 ||
    die "gpu_limits ended with an error: $(cat "$work/out")"
[ "$(grep -c '"checked": "ok"' "$work/rows")" = $rows ] || die "$rows rows are expected: $(cat "$work/out")"

while read -r row; do
    way=$(member way <<<"$row")
    [[ "$way" != *streams ]] || continue # nothing that mori_kv_perf does
    options=(--op_type WRITE --post all)
    [ "$way" != "pull at once" ] || options=(--op_type READ --post all)
    [ "$way" != "push by layer" ] || options=(--op_type WRITE --post layer)
    read -ra command < <(member as <<<"$row")
    timeout 600 "$build/perf/kv_perf/${command[0]}" "${command[@]:1}" "${options[@]}" --json "$work/kv" \
        >"$work/out" 2>&1 || die "${command[*]} ended with an error: $(cat "$work/out")"
    for name in descs_before descs_after; do
        ours=$(member $name <<<"$row")
        theirs=$(tr -d '\n' <"$work/kv" | member $name)
        [ "$ours" = "$theirs" ] || die "$(member what <<<"$row"): $ours $name, '$theirs' of ${command[*]}"
    done
    [ "$(member descs_before <<<"$row")" -gt "$ours" ] || die "nothing was merged: $row"
done < <(grep '"way"' "$work/rows")

if HIPCPU_COPY=0 timeout 600 "${limits[@]}" --lengths 700 >"$work/out" 2>&1; then
    die "it saw nothing when no byte was moved: $(cat "$work/out")"
fi
grep -q '10 rows, 10 with wrong bytes' "$work/out" || die "wrong rows are not counted: $(cat "$work/out")"

permute=("${limits[@]}" --parts permute --lengths 700)
timeout 600 "${permute[@]}" --json "$work/rows" >"$work/out" 2>&1 ||
    die "the changes of layout ended with an error: $(cat "$work/out")"
[ "$(grep -c '"size": 256, .*"checked": "ok"' "$work/rows")" = 4 ] || die "4 rows are expected: $(cat "$work/rows")"
[ "$(grep -c '"ratio"' "$work/rows")" = 2 ] || die "2 ratios are expected: $(cat "$work/rows")"
if HIPCPU_COPY=0 timeout 600 "${permute[@]}" >"$work/out" 2>&1; then
    die "it saw nothing when no layout was changed: $(cat "$work/out")"
fi
grep -q '4 rows, 4 with wrong bytes' "$work/out" || die "wrong rows are not counted: $(cat "$work/out")"

for lengths in '700,' x 70x '700 800'; do
    if "${limits[@]}" --lengths "$lengths" >"$work/out" 2>&1; then
        die "--lengths '$lengths' succeeded"
    fi
    grep -q -e "--lengths $lengths: expected numbers" "$work/out" || die "$lengths: $(cat "$work/out")"
done
if "${limits[@]}" --lengths 70000 >"$work/out" 2>&1; then
    die "a prompt larger than the cache succeeded"
fi
grep -q "takes 4375 blocks; expected at most the pool's 153" "$work/out" || die "$(cat "$work/out")"
