#!/bin/bash
# mori_kv_perf as its users run it: whole runs with every byte checked, and bad input.
# DO-11
set -uo pipefail

perf=$PWD/perf/kv_perf/mori_kv_perf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

[ -x "$perf" ] || { echo "there is no $perf"; exit 1; }
export UCX_WARN_UNUSED_ENV_VARS=n

fail() { # WHAT
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out" "$work/err"
    failures=$((failures + 1))
}

[ "$("$perf" --list_models | wc -l)" -ge 18 ] || fail "--list_models does not print the models"
"$perf" --config >"$work/out" 2>"$work/err"
grep -qx 'MORIKV_BACKEND=auto' "$work/out" || fail "--config does not print the options of libmorikv"

# Exit 0 and so many rows whose bytes were checked.
checked() { # ROWS ARG...
    local rows=$1 seen
    shift
    if ! timeout 600 "$perf" "$@" --check_consistency >"$work/out" 2>"$work/err"; then
        fail "$* ended with an error"
        return
    fi
    seen=$(grep -c 'every byte checked' "$work/out")
    [ "$seen" = "$rows" ] || fail "$* checked $seen rows; expected $rows"
    ! awk 'length > 100 { print; wide = 1 } END { exit !wide }' "$work/out" || fail "$* printed more than 100 columns"
    for name in 'host ' 'UCX [1-9]' '20..-..-..T' '^op ' '^path '; do
        grep -qE "$name" "$work/out" || fail "$* did not print '$name'"
    done
}

# Exit 1, quickly, with this text on stderr.
refused() { # TEXT ARG...
    local text=$1
    shift
    if timeout 600 "$perf" "$@" >"$work/out" 2>"$work/err"; then
        fail "$* succeeded; expected '$text'"
    elif [ $? = 124 ]; then
        fail "$* hung; expected '$text'"
    elif ! grep -qF -- "$text" "$work/err"; then
        fail "$* did not print '$text'"
    fi
}

sweep=(--start_block_size 1000 --max_block_size 4k --start_batch_size 7
    --max_batch_size 14 --total_buffer_size 1m --num_iter 3 --warmup_iter 1)
model=(--model GPT-OSS-120B --requests 5 --input_length 200 --output_length 60
    --num_blocks 128)

cat >"$work/trace" <<'TRACE'
{"timestamp": 0, "input_length": 700, "output_length": 50, "hash_ids": [0, 1]}
{"timestamp": 10, "input_length": 600, "output_length": 5, "hash_ids": [0, 2]}
{"timestamp": 9000, "input_length": 1100, "output_length": 50, "hash_ids": [0, 1, 3]}
TRACE

# features that no single model has: shared-out and replicated data, a window, a ring, a state,
# groups
cat >"$work/mine.json" <<'MODEL'
{"name": "mine", "layers": 3, "pattern": "ab", "tp": 4, "block_tokens": 8, "components": [
    {"name": "kv", "parts": 2, "heads": 4, "dim": 16}, {"name": "latent", "on": "a", "dim": 24},
    {"name": "window", "on": "b", "heads": 2, "dim": 8, "window": 20},
    {"name": "ring", "window": 16, "ring": true, "block_tokens": 4, "bytes": 40},
    {"name": "conv", "state": true, "outer": 3, "groups": [8, 8, 16], "dim": 1, "slab": true}]}
MODEL

export UCX_TLS=tcp,self
for api in mkv ucp; do
    for op in WRITE READ; do
        checked 6 --api $api --op_type $op "${sweep[@]}"
        checked 1 --api $api --op_type $op --scheme both --num_target_dev 2 \
            --total_buffer_size 1m --start_batch_size 16 --num_iter 4 --warmup_iter 1 --pipeline_depth 3
    done
done
for api in mkv ucp; do
    checked 4 --scheme pingpong --api $api --start_block_size 1000 --max_block_size 2000 --start_batch_size 1 \
        --max_batch_size 2 --total_buffer_size 64k --num_iter 300 --warmup_iter 3 --json "$work/json"
    # both directions count: 300 requests of 2 pieces each
    tr -s '\n ' ' ' <"$work/json" | grep '"block_size": 2000, "requests": 600, "bytes": 2400000' >/dev/null ||
        fail "--scheme pingpong --api $api did not move 600 requests"
done
checked 1 --scheme manytoone --num_target_dev 3 --num_iter 2 --warmup_iter 1 --total_buffer_size 1m
checked 1 --scheme both --num_target_dev 3 --num_iter 2 --warmup_iter 1 --total_buffer_size 1m --json "$work/json"
grep -qE 'first of 3 ends at [0-9]+ %  first of 3 back ends at [0-9]+ %' "$work/out" ||
    fail "--scheme both did not report each way by itself"
[ "$(tr -d ' \n' <"$work/json" | grep -oE '"(there|back)":\{"flows":3,' | wc -l)" = 2 ] ||
    fail "--scheme both did not write each way by itself"
! grep -q 'Descs before' "$work/out" || fail "a wide column without --wide"
timeout 600 "$perf" --wide --num_iter 2 --warmup_iter 1 --total_buffer_size 1m >"$work/out" 2>"$work/err" ||
    fail "--wide ended with an error"
grep -q 'Descs before' "$work/out" || fail "--wide printed no wide column"
tail -n 1 "$work/out" | awk 'NF != 15 || length > 200 { exit 1 }' || fail "--wide did not print 15 columns"
checked 1 --recreate_xfer --num_iter 2 --warmup_iter 10 --pipeline_depth 4 --start_batch_size 8 \
    --total_buffer_size 1m
checked 1 --randomize_location_mode none --num_iter 2 --warmup_iter 1 --start_batch_size 64 \
    --total_buffer_size 1m
for op in WRITE READ; do
    for post in all layer; do
        checked 1 "${model[@]}" --op_type $op --post $post --pipeline_depth 3
    done
    checked 1 "${model[@]}" --op_type $op --trace "$work/trace" --pipeline_depth 2
done
# windows, states of two sizes, slabs; a model of the user's; ranks of unequal numbers
for op in WRITE READ; do
    checked 1 --model DeepSeek-V4-Flash --requests 3 --input_length 300 --num_blocks 16 --op_type $op --post layer
    for ranks in "2 4" "4 2"; do
        read -r tp decode_tp <<<"$ranks"
        checked 1 --model "$work/mine.json" --tp "$tp" --decode_tp "$decode_tp" --requests 4 --input_length 60 \
            --num_blocks 64 --op_type $op --pipeline_depth 2
    done
done
# how much is moved depends on the machine, but nothing before its gate
checked 1 "${model[@]}" --post all --layer_us 50
grep -q '  overlap 0.000: moved before the last of' "$work/out" || fail "at once is not reported with overlap 0"
checked 1 "${model[@]}" --post layer --layer_us 50 --json "$work/json"
grep -q '  overlap 0.[0-9]*: moved before the last of' "$work/out" || fail "the overlap is not reported"
grep -q '"pieces_moved_beside_compute": [0-9]' "$work/json" || fail "the overlap is not in the JSON file"
grep -q '"checked": true' "$work/json" || fail "there is no row in the JSON file"
for name in date host kernel UCX_TLS; do
    grep -q "\"$name\": \"..*\"" "$work/json" || fail "the JSON file does not contain the $name"
done

# the two processes one by one
timeout 600 "$perf" "${model[@]}" --role decode --peer "$work/peer" >"$work/out" \
    2>"$work/err" &
timeout 600 "$perf" "${model[@]}" --role prefill --peer "$work/peer" >"$work/out2" \
    2>"$work/err2" || { cat "$work/err2"; fail "prefill with --peer ended with an error"; }
wait $! || fail "decode with --peer ended with an error"
grep -q ' B/W ' "$work/out2" || fail "prefill with --peer printed no table"

refused "model 'Llama-9' is not known" --model Llama-9
refused "windows and states of 4 requests take" --model Kimi-K3 --total_buffer_size 64m
refused "model '$work/trace': timestamp is 0; expected a member" --model "$work/trace"
refused "expected at least" --start_batch_size 4 --max_batch_size 2
refused "no HIP runtime for VRAM" --target_seg_type VRAM --hip_library /no/such/file
refused "trace '/no/such/trace' cannot be opened" --model Kimi-K2 --num_blocks 8 \
    --trace /no/such/trace
refused "takes 44 blocks; expected at most the pool's 16" "${model[@]}" \
    --trace "$work/trace" --num_blocks 16
refused "expected WRITE, or --scheme pairwise" --scheme pingpong --op_type READ
refused "no 9 blocks of 4096 bytes fit" --start_batch_size 9 --total_buffer_size 32k
refused "--json '/no/such/dir/x' cannot be written" --json /no/such/dir/x
refused "the two sides have different options: --num_iter is 1000 here and 7 there" --role prefill --peer "$work/peer" &
timeout 600 "$perf" --role decode --peer "$work/peer" --num_iter 7 >/dev/null 2>&1
wait $! || fail "different options on the two sides"

# A lane to GPU memory is connected, and host memory goes elsewhere.
export UCX_PLUGIN_PATH=$PWD/.libs LD_LIBRARY_PATH=$PWD/test/fake/hip/lib
one=(--start_block_size 4k --max_block_size 4k --num_iter 2 --total_buffer_size 1m --timeout 30)
carried() { # TEXT ARG...
    local text=$1
    shift
    timeout 600 "$perf" "${one[@]}" "$@" >"$work/out" 2>"$work/err" || fail "$* ended with an error"
    grep -qF -- "$text" "$work/out" || fail "$*: the path is not reported as '$text'"
}
UCX_TLS=mori_xgmi,tcp,self carried 'path put host>host: shm ('
MORIKV_BACKEND=xgmi MORIKV_STRICT=y UCX_TLS=mori_xgmi,tcp,self \
    refused "xgmi is for GPU memory on both sides" "${one[@]}"
UCX_TLS=tcp,self refused "UCX_TLS=tcp,self leaves mori_xgmi and mori_rdma out" "${one[@]}" \
    --initiator_seg_type VRAM --target_seg_type VRAM
vram=(--initiator_seg_type VRAM --target_seg_type VRAM)
UCX_TLS=mori_xgmi,mori_copy,tcp,self carried 'rocm>rocm: xgmi (' "${vram[@]}"
# lanes for different memory or endpoints: posix reports no failure unless configured to
UCX_TLS=mori_xgmi,mori_copy,tcp refused 'UCX has no way for a put of cuda memory to cuda memory' "${one[@]}" "${vram[@]}" \
    --memory_type cuda
UCX_TLS=posix carried 'path put DRAM>DRAM: software emulation posix/memory' --api ucp --error_mode none
UCX_TLS=posix refused 'ucp_ep_create: Destination is unreachable' "${one[@]}" --api ucp

for word in -h --help --usage -V --version; do
    "$perf" $word >"$work/out" 2>"$work/err" && [ -s "$work/out" ] && [ ! -s "$work/err" ] ||
        fail "$word printed nothing, or failed"
    ! grep -q -e '--_' "$work/out" || fail "$word prints options between parent and children"
done
"$perf" -h | tr -s ' \n' ' ' | grep "tensor-parallel ranks; .* \[the model's\], 1 to 1024 " >/dev/null || fail "-h prints no range of --tp"
"$perf" -h | awk 'length > 80 { print; exit 1 }' >"$work/out" || fail "-h is wider than 80 columns"

[ $failures = 0 ] || exit 1
echo "all runs checked, all bad input named"
