#!/bin/bash
# Output and exit status of mori_kv_perf: progress, Ctrl-C, one error, both address families.
set -uo pipefail

perf=$PWD/perf/kv_perf/mori_kv_perf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

[ -x "$perf" ] || { echo "there is no $perf"; exit 1; }
export UCX_WARN_UNUSED_ENV_VARS=n UCX_TLS=tcp,self
small=(--num_iter 5 --total_buffer_size 1m)

fail() { # WHAT
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out" "$work/err"
    failures=$((failures + 1))
}

# ---- Progress: nothing if there is no terminal, a line with a rate on request.
timeout 600 "$perf" "${small[@]}" >"$work/out" 2>"$work/err" || fail "a small run ended with an error"
[ ! -s "$work/err" ] || fail "progress was shown without a terminal"

# ---- Ctrl-C: the rows until then, and 130. A run of a minute is cut after its start.
cut_short() { # UNTIL FILE SIGNAL ARG...
    local until=$1 file=$2 how=$3 pid end watch
    shift 3
    : | tee "$work/out" >"$work/err"
    "$perf" --json "$work/json" "$@" >"$work/out" 2>"$work/err" &
    pid=$!
    end=$((SECONDS + 60))
    until grep -q "$until" "$file" || ! kill -0 $pid 2>/dev/null || [ $SECONDS -gt $end ]; do
        read -rt 0.05 <> <(:)
    done
    grep -q "$until" "$file" || fail "'$until' never came: $*"
    kill "-$how" $pid
    (while [ $SECONDS -lt $((end + 30)) ]; do read -rt 1 <> <(:); done; kill -KILL $pid 2>/dev/null) &
    watch=$!
    wait $pid
    [ $? = 130 ] || fail "SIG$how did not end with status 130: $*"
    kill $watch 2>/dev/null
    grep -q '^mori_kv_perf: interrupted; [1-9][0-9]* complete rows' "$work/err" || fail "SIG$how printed nothing: $*"
    ! grep -q 'error' "$work/err" || fail "SIG$how is reported as an error: $*"
    grep -q '"gb_per_s"' "$work/json" || fail "SIG$how lost the rows: $*"
    [ "$(tail -n 1 "$work/out" | awk '$1 > 0 && $4 > 0' | wc -l)" = 1 ] || fail "SIG$how printed no row: $*"
}
cut_short ' B/W ' "$work/out" INT --start_block_size 64 --max_block_size 1m --num_iter 20000 --total_buffer_size 64m
for op in READ WRITE; do
    cut_short 'requests .* [1-9][0-9]*/20000, .* GB/s, .* left' "$work/err" INT --model GPT-OSS-120B --requests 20000 --op_type $op \
        --input_length 200 --output_length 16 --num_blocks 512 --warmup_requests 0 --progress
done
grep -qE 'requests \[.*\] [0-9]+/20000, .* GB/s, [0-9]+:[0-9][0-9] left' "$work/err" || fail "--progress printed no rate"

# ---- Benchmarks by name, in their publishers' format.
named() { # BENCHMARK ROWS WORDS ARG...
    local name=$1 rows=$2 words=$3
    shift 3
    timeout 600 "$perf" --benchmark "$name" --num_iter 2 --warmup_iter 1 --check_consistency "$@" >"$work/out" 2>"$work/err" ||
        fail "--benchmark $name ended with an error"
    [ "$(grep -c 'every byte checked' "$work/out")" = "$rows" ] || fail "--benchmark $name did not have $rows rows"
    tr -s ' ' <"$work/out" | grep -F "$words" >/dev/null || fail "--benchmark $name has no head '$words'"
}
named lmcache 2 'MsgSize BatchSize TotalSize Avg BW Time P99' --total_buffer_size 2m
named mori 7 'MsgSize BatchSize TotalSize Max BW Avg BW Min Lat Avg Lat' --total_buffer_size 8m
grep -q '4 rows were left out' "$work/err" || fail "rows of --benchmark mori that do not fit are not reported"
named collectivex 2 'MsgSize BatchSize TotalSize Avg BW Time P99' --total_buffer_size 40m
named paged-writes 1 'MsgSize BatchSize Rate Writes' --total_buffer_size 4m

# ---- Pictures: an error has the value, what was expected, and the remedy. Drawing is in pictures.sh.
plots() { # STATUS TEXT ARG...
    local status=$1 text=$2 rc=0
    shift 2
    PYTHONPATH=$work/bare "$(dirname "$perf")/mori_kv_plot" "$@" >"$work/out" 2>"$work/err" || rc=$?
    [ $rc = "$status" ] || fail "mori_kv_plot $* ended with status $rc; expected $status"
    grep -qF -- "$text" "$work/out" "$work/err" || fail "mori_kv_plot $* did not print '$text'"
    ! grep -q Traceback "$work/err" || fail "mori_kv_plot $* ended with a traceback"
}
mkdir "$work/bare"
echo 'raise ImportError("no module here")' >"$work/bare/matplotlib.py"
echo '{"tool": "mori_kv_perf", "op": "READ", "api": "mkv", "workload": "a sweep", "layer_us": 0,' \
    '"rows": [{"requests": 0, "wall_ns": 0}]}' >"$work/none.json"
timeout 600 "$perf" "${small[@]}" --max_block_size 4k --json "$work/row.json" >"$work/out" 2>"$work/err" || fail "--json ended with an error"
# shellcheck disable=SC2016
python3 -c 'import json, sys
for row in json.load(open(sys.argv[1]))["rows"]:
    assert sum(row["tx_us_counts"].values()) == row["requests"], row
    assert abs(max(map(float, row["tx_us_counts"])) / row["tx_us"]["max"] - 1) < 1 / 32, row' "$work/row.json" ||
    fail "tx_us_counts does not count each request"
plots 0 'mori_kv_plot 0.' --version
plots 1 "--output is 'x.gif'; expected a name that ends with .png, .svg or .pdf" "$work/row.json" -o x.gif
plots 1 "'$work/no.json' cannot be read: [Errno 2]" "$work/no.json" -o x.png
plots 1 "'$perf' cannot be read" "$perf" -o x.png
plots 1 'has no row with requests' "$work/none.json" -o x.png
unreadable() { # TEXT, CONTENT
    printf '%s' "$2" >"$work/bad.json"
    plots 1 "$1" "$work/bad.json" -o x.png
    [ "$(wc -l <"$work/err")" = 1 ] || fail "mori_kv_plot of '${2:0:40}' did not print one line"
}
spoilt() { # FIELD VALUE TEXT: the first FIELD of a good file with another VALUE
    unreadable "$1 is $3" "$(sed "0,/\"${1##*.}\": *\(\"[^\"]*\"\|[0-9.]*\)/s//\"${1##*.}\": $2/" "$work/row.json")"
}
unreadable 'cannot be read: Expecting value' ''
unreadable 'cannot be read: ' "$(printf '[%.0s' {1..100000})"
unreadable 'is no result of mori_kv_perf' '[]'
unreadable 'is no result of mori_kv_perf' '{"tool": "nixlbench", "op": "READ", "rows": []}'
unreadable 'rows is [1]; expected a list of objects; run mori_kv_perf' '{"tool": "mori_kv_perf", "op": "READ", "api": "mkv",
    "workload": "a sweep", "layer_us": 0, "rows": [1]}'
for field in op api workload layer_us; do
    spoilt $field null 'missing or null; expected a '
done
for field in requests wall_ns block_size bytes descs_before layers label link_gb_per_s; do
    spoilt "rows[0].$field" null 'missing or null; expected a '
done
for field in avg p50 p99; do
    unreadable "rows[0].tx_us.$field is missing or null" "$(sed "/\"tx_us\"/,\$s/\"$field\":/\"other\":/" "$work/row.json")"
done
spoilt 'rows[0].tx_us_by_5_percent' '[1], "other": ' '[1]; expected a list of 21 numbers'
spoilt 'rows[0].bytes' '"12"' '"12"; expected a number from 0 to 1e18'
spoilt 'rows[0].wall_ns' NaN 'NaN; expected'
spoilt 'rows[0].block_size' 0 '0; expected a number from 1 to 1e18'
plots 1 'no module here; install python3-matplotlib (Debian, Ubuntu), or run' "$work/row.json" -o x.png

# ---- Never 0 when nothing was measured.
refused() { # TEXT ARG...
    local text=$1
    shift
    if timeout 600 "$perf" "$@" >"$work/out" 2>"$work/err"; then
        fail "$* succeeded; expected '$text'"
    elif ! grep -qF -- "$text" "$work/err"; then
        fail "$* did not print '$text'"
    fi
}
: >"$work/empty"
refused "nothing was measured" --model GPT-OSS-120B --num_blocks 64 --trace "$work/empty"
refused "--trace without --model" --trace "$work/empty"
refused "--requests without --model" --requests 3
refused "--num_iter with --model" --model GPT-OSS-120B --num_iter 3
timeout 600 "$perf" "${small[@]}" --start_block_size 512k --max_block_size 2m >"$work/out" 2>"$work/err"
grep -q '1 rows were left out' "$work/err" || fail "a row that does not fit is not reported"

# ---- One error, the first, from either process.
LD_LIBRARY_PATH=$PWD/test/fake/hip/lib refused "UCX_TLS=tcp,self leaves mori_xgmi and mori_rdma out" "${small[@]}" \
    --timeout 30 --initiator_seg_type VRAM --target_seg_type VRAM
[ "$(grep -c ': error: ' "$work/err")" = 1 ] || fail "an error is reported more than once"
[ "$(wc -l <"$work/err")" -le 4 ] || fail "an error takes more than 4 lines"

# ---- Transports of plain UCP's calls come from UCP.
timeout 600 "$perf" "${small[@]}" --api ucp --op_type READ >"$work/out" 2>"$work/err" || fail "--api ucp ended with an error"
grep -q '^path get DRAM>DRAM: software emulation tcp/lo' "$work/out" || fail "--api ucp does not report that tcp emulates gets"
refused "list put DRAM>DRAM: stub protocol (no transport carries it)" "${small[@]}" --api ucp_sgl

# ---- Both address families, by name and by number.
pair() { # DECODE'S PLACE PREFILL'S PLACE
    timeout 600 "$perf" "${small[@]}" --role decode --peer "$1" >"$work/out2" 2>&1 &
    timeout 600 "$perf" "${small[@]}" --role prefill --peer "$2" >"$work/out" 2>"$work/err" ||
        fail "decode at $1 was not reached at $2: $(cat "$work/out2")"
    wait $!
}
coproc keep { exec test/support/keep_port; } # reserved until this script ends
read -rt 300 port <&"${keep[0]}" || { echo "FAIL: keep_port printed no port"; exit 1; }
pair ":$port" "127.0.0.1:$port"
pair "localhost:$port" "localhost:$port"
if [ -e /proc/net/if_inet6 ] && grep -q '^0*1 ' /proc/net/if_inet6; then
    pair ":$port" "[::1]:$port"
fi

# ---- A port in use is an error that names it, at once.
timeout 600 "$perf" "${small[@]}" --role decode --peer ":$port" >"$work/out2" 2>&1 &
other=$!
end=$((SECONDS + 20))
until grep -q "$(printf ':%04X 0*:0000 0A' "$port")" /proc/net/tcp /proc/net/tcp6 2>/dev/null || [ $SECONDS -gt $end ]; do
    read -rt 0.05 <> <(:)
done
refused ":$port" "${small[@]}" --role decode --peer ":$port" --timeout 30
kill $other
wait $other
timeout 600 "$perf" "${small[@]}" --role decode --peer "$work/peer" --seed 2 >"$work/out2" 2>&1 &
refused "--seed is 1 here and 2 there" "${small[@]}" --role prefill --peer "$work/peer"
wait $!
grep -q -- "--seed is 2 here and 1 there" "$work/out2" || fail "decode does not name the option that differs"

[ $failures = 0 ]
