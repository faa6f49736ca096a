#!/bin/bash
# Stages on GPUs, for run_gpu.sh and run, which source this
# after they have set:
#
#   out         folder of the results; out_inside: the same as the programs see it
#   build       build of the tree as the programs see it; build_here: as we see it
#   tree        this tree as the programs see it
#   limit       seconds for everything
#   fake        not empty: small sizes, nothing is fast here
#   num_gpus    GPUs of this machine
#   kv_suffix   what the names of mori_kv_perf's JSON files end with; may be unset
#   inside      function that runs a command in $build with the product's environment
#               and stops it after $stage_seconds
#
# A stage that fails is reported and the next one runs. Sourcing makes report.txt and
# log.txt in $out.
# shellcheck shell=bash disable=SC2154

# shellcheck source=test/support/proof.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/proof.sh"

limits() {
    local quick=()

    [ -z "$fake" ] || quick=(--pool 32 --count 16 --repeats 1)
    inside perf/gpu/gpu_limits "${quick[@]}" --json "$out_inside/gpu_limits.json" || return
    cat "$work/stage.log" >>"$report"
}

# Check the behaviour of this runtime with both kinds of IPC handles, and whether the copy
# kernel's machine code stores its flag after its bytes.
risks_raw() { # ROUNDS LISTS
    local legacy lists=$2 status=0 modes="none 0 1"

    [ -z "${HSA_ENABLE_IPC_MODE_LEGACY:-}" ] || modes=none # the caller's own
    for legacy in $modes; do
        legacy=${legacy#none}
        inside env ${legacy:+HSA_ENABLE_IPC_MODE_LEGACY=$legacy} perf/risks/gpu_risks "$1" "$lists" || status=$?
        lists=1 # a consumer reads the same with any handle
    done
    return $status
}

risks() {
    local rounds=1000000 lists=100000 status

    [ -z "$fake" ] || rounds=200 lists=2
    risks_raw $rounds $lists
    status=$?
    grep -E '^(risk|HIP version|HSA_ENABLE_IPC)' "$work/stage.log" >>"$report"
    return $status
}

# The lists of kv_models without UCX and without a second process.
models() {
    local quick=()

    [ -z "$fake" ] || quick=(--repeats 1 --cache 96 --lengths 256)
    inside perf/gpu/gpu_limits --parts models --pool 1 --count 1 "${quick[@]}" \
        --json "$out_inside/gpu_models.json" || return
    cat "$work/stage.log" >>"$report"
}

# A change of layout in one pass, and by a permutation behind the transfer.
permute() {
    local quick=(--cache 4096 --lengths 8192)

    [ -z "$fake" ] || quick=(--repeats 1 --cache 96 --lengths 256)
    inside perf/gpu/gpu_limits --parts permute --pool 1 --count 1 "${quick[@]}" \
        --json "$out_inside/gpu_permute.json" || return
    cat "$work/stage.log" >>"$report"
}

# kv NAME OPTION..: one run of mori_kv_perf; its table goes to the report. kv_setting holds
# UCX's settings for it.
kv_setting=()
kv() {
    local name=$1

    shift
    [ -x "$build_here/perf/kv_perf/mori_kv_perf" ] || { echo "mori_kv_perf is not built"; return 77; }
    inside env "${kv_setting[@]}" perf/kv_perf/mori_kv_perf --timeout 120 --initiator_seg_type VRAM --target_seg_type VRAM \
        "$@" --json "$out_inside/kv-$name.json" || return
    {
        printf '\n%s\n' "${kv_setting[*]}${kv_setting[*]:+ }mori_kv_perf $*"
        cat "$work/stage.log"
    } >>"$report"
}

# Few files are easier to carry: all runs so far become one.
kv_collect() {
    local name

    {
        echo '['
        for name in "$out"/kv-*.json; do
            [ ! -s "$name" ] || { printf '{"file": "%s", "run":\n' "$(basename "$name")"; cat "$name"; echo '},'; }
        done
        echo 'null]'
    } >"$out/$1.json"
    rm -f "$out"/kv-*.json
}

kv_all() {
    local sweep=(--total_buffer_size 2g --num_iter 500 --warmup_iter 20 --start_batch_size 4096
        --max_batch_size 4096 --start_block_size 4k --max_block_size 256k
        --large_blk_iter_ftr 1 --pipeline_depth 4)
    local run=(--total_buffer_size 2g --num_iter 100 --warmup_iter 5 --start_block_size 1g
        --large_blk_iter_ftr 1 --pipeline_depth 2)
    local small=(--num_iter 20000 --warmup_iter 100)

    [ -z "$fake" ] || sweep=(--total_buffer_size 64m --num_iter 5 --warmup_iter 1
        --start_batch_size 64 --max_batch_size 64 --start_block_size 4k --max_block_size 64k)
    [ -z "$fake" ] || run=(--total_buffer_size 2m --start_block_size 1m --num_iter 5)
    [ -z "$fake" ] || small=(--num_iter 500 --warmup_iter 100)
    stage "kv sweep, bytes checked" 60 kv check "${sweep[@]}" --num_iter 10 --check_consistency
    stage "kv write, libmorikv" 40 kv mkv-write "${sweep[@]}"
    stage "kv read, libmorikv" 40 kv mkv-read "${sweep[@]}" --op_type READ
    stage "kv write, UCP list" 40 kv sgl-write "${sweep[@]}" --api ucp_sgl
    stage "kv write, UCP calls" 40 kv ucp-write "${sweep[@]}" --api ucp
    stage "kv read, UCP calls" 40 kv ucp-read "${sweep[@]}" --api ucp --op_type READ
    stage "kv both ways" 40 kv both "${sweep[@]}" --scheme both --max_block_size 128k
    # fair, whatever the links are: the others only receive, so one GPU can have them all
    kv_setting=("HIP_VISIBLE_DEVICES=0,1,1,1")
    stage "kv onetomany, 3 others on one GPU" 40 kv "fan-shared" "${sweep[@]}" --scheme onetomany --num_target_dev 3
    stage "kv onetomany, 3 others on one GPU, UCP list" 40 kv "fan-shared-sgl" "${sweep[@]}" --api ucp_sgl \
        --scheme onetomany --num_target_dev 3
    kv_setting=()
    stage "kv one run of 1 GiB" 40 kv run "${run[@]}"
    stage "kv one block of 4 KiB" 40 kv small "${small[@]}" --api ucp
    kv_models
    kv_collect "mori_kv_perf${kv_suffix:-}"
}

# kv_model MODEL LENGTH OP: requests of one length, in a file that kv_setting reads, too.
kv_model() {
    local model=(--requests 10 --warmup_requests 2 --total_buffer_size 16g --exact_length)
    local name="$1-$2-$3" post=all

    [ -z "$fake" ] || model=(--requests 1 --total_buffer_size 512m)
    [ "$3" != WRITE ] || post=layer
    [ ${#kv_setting[@]} -eq 0 ] || name="${kv_setting[0]}-$name"
    stage "kv $1 $2 $3${kv_setting[0]:+, ${kv_setting[0]}}" 30 kv "$name" --model "$1" --tp 8 --block_size 16 \
        --input_length "$2" --output_length 16 --op_type "$3" --post $post "${model[@]}"
}

kv_models() {
    local lengths="8192 131072" name length op

    [ -z "$fake" ] || lengths=256
    for name in Llama-3-70B DeepSeek-R1; do
        for length in $lengths; do
            for op in WRITE READ; do
                kv_model "$name" "$length" $op
            done
        done
    done
}

# Layouts that differ: pieces of some hundred bytes, scattered, and tokens' heads by unequal ranks.
kv_layouts() {
    local sweep=(--total_buffer_size 2g --num_iter 200 --warmup_iter 10 --start_batch_size 32768
        --max_batch_size 32768 --start_block_size 256 --max_block_size 2048
        --large_blk_iter_ftr 1 --pipeline_depth 4)
    local model=(--model Llama-3-70B --block_size 16 --input_length 8192 --exact_length --output_length 16
        --requests 8 --warmup_requests 2 --total_buffer_size 8g)
    local op ranks post tp decode_tp layout tokens

    [ -z "$fake" ] || sweep=(--total_buffer_size 16m --num_iter 5 --warmup_iter 1 --start_batch_size 256
        --max_batch_size 256 --start_block_size 256 --max_block_size 512)
    [ -z "$fake" ] || model=(--model Llama-3-70B --block_size 16 --input_length 256 --exact_length --output_length 16
        --requests 1 --total_buffer_size 512m)
    for op in WRITE READ; do
        post=all
        [ $op != WRITE ] || post=layer
        stage "kv short pieces, $op" 40 kv "short-$op" "${sweep[@]}" --op_type $op
        # as many GPUs as processes: the last one has all of the other side
        kv_setting=("HIP_VISIBLE_DEVICES=0,1,1,1,1")
        for ranks in "8 8 nhd 16" "4 4 nhd 16" "8 4 nhd 16" "4 8 nhd 16" "2 8 nhd 16" "8 8 hnd 16" "4 4 hnd 16" \
            "8 8 nhd 64" "4 4 nhd 64"; do
            read -r tp decode_tp layout tokens <<<"$ranks"
            stage "kv ranks $tp to $decode_tp, nhd to $layout, blocks 16 to $tokens, $op" 40 \
                kv "ranks-$tp-$decode_tp-$layout-$tokens-$op" "${model[@]}" --tp "$tp" --decode_tp "$decode_tp" \
                --decode_layout "$layout" --decode_block_size "$tokens" --op_type $op --post $post
        done
        kv_setting=()
    done
    kv_collect "layouts${kv_suffix:-}"
}

# The least time of one piece of 4 KiB here, and its time with the product.
# Memory of the host on one side or both: private (DRAM), and shared, which peers map (SHM);
# the GPUs' own rate with it, and the rate of UCX's cma when it is listed.
host_memory() {
    local sweep=(--total_buffer_size 1g --num_iter 64 --warmup_iter 4 --start_batch_size 256 --max_batch_size 256
        --start_block_size 4k --max_block_size 1m --pipeline_depth 4)
    local quick=() kinds from to op number

    [ -z "$fake" ] || sweep=(--total_buffer_size 16m --num_iter 4 --warmup_iter 1 --start_batch_size 16
        --max_batch_size 16 --start_block_size 4k --max_block_size 16k)
    [ -z "$fake" ] || quick=(--pool 32)
    stage "host memory, raw" 60 inside perf/gpu/gpu_limits --parts host "${quick[@]}" && cat "$work/stage.log" >>"$report"
    stage "conformance of host memory" 90 inside sh "$tree/test/conformance/run.sh" mori_xgmi -1 -v peer/rocm-host
    stage "conformance of private host memory" 90 inside env MKV_TEST_PRIVATE=1 \
        sh "$tree/test/conformance/run.sh" mori_xgmi -1 -v peer/rocm-host
    kv_setting=("UCX_TLS=mori_xgmi,mori_copy,tcp")
    for kinds in "VRAM SHM" "SHM VRAM" "VRAM DRAM" "DRAM VRAM" "SHM SHM" "DRAM DRAM"; do
        read -r from to <<<"$kinds"
        for op in WRITE READ; do
            stage "host memory checked, $from to $to, $op" 40 kv "host-check-$from-$to-$op" "${sweep[@]}" --op_type $op \
                --num_iter 4 --check_consistency --initiator_seg_type "$from" --target_seg_type "$to"
            stage "host memory, $from to $to, $op" 40 kv "host-$from-$to-$op" "${sweep[@]}" --op_type $op \
                --initiator_seg_type "$from" --target_seg_type "$to"
        done
    done
    for op in WRITE READ; do # plain UCP: the kernel copies private memory
        stage "host memory, VRAM to DRAM, $op, by UCP" 40 kv "host-ucp-$op" "${sweep[@]}" --api ucp --op_type $op \
            --initiator_seg_type VRAM --target_seg_type DRAM
    done
    kv_setting=("UCX_TLS=cma,mori_xgmi,mori_copy,tcp")
    for op in WRITE READ; do
        stage "host memory, DRAM to DRAM, $op, with cma" 40 kv "host-cma-$op" "${sweep[@]}" --op_type $op \
            --initiator_seg_type DRAM --target_seg_type DRAM
    done
    kv_setting=("UCX_TLS=mori_xgmi,mori_copy,tcp")
    sweep+=(--start_block_size 64k --max_block_size 64k)
    for number in 2 4; do
        for kinds in "VRAM SHM" "SHM VRAM" "VRAM DRAM" "DRAM VRAM" "SHM SHM"; do
            read -r from to <<<"$kinds"
            stage "host memory, $number pairs, $from to $to" 40 pairs "host-$number-$from-$to" "$number" "${sweep[@]}" \
                --initiator_seg_type "$from" --target_seg_type "$to"
        done
    done
    kv_setting=()
    kv_collect "host${kv_suffix:-}"
}

latency_raw() {
    local quick=()

    [ -z "$fake" ] || quick=(--pool 32 --count 16 --repeats 1)
    inside perf/gpu/gpu_limits "${quick[@]}" --parts latency --json "$out_inside/gpu_latency.json" || return
    cat "$work/stage.log" >>"$report"
}

latency_ratios() {
    local raw rested file name
    local us='", "size": 4096,.*"us": \([0-9.]*\),.*/\1/p'

    raw=$(sed -n "s/.*\"copy + synchronize$us" "$out/gpu_latency.json")
    rested=$(sed -n "s/.*\"copy + synchronize, 10 us of rest$us" "$out/gpu_latency.json")
    echo "4 KiB: copy + synchronize takes $raw us, $rested us with 10 us of rest between two; times the first:"
    for file in "$out"/kv-latency-*.json; do
        name=${file##*/kv-latency-}
        tr -s '[:space:]' ' ' <"$file" | grep -o '"tx_us": {[^}]*}' |
            sed -n 's/.*"avg": *\([0-9.]*\), *"p50": *\([0-9.]*\), *"p99": *\([0-9.]*\),.*/\1 \2 \3/p' |
            awk -v name="${name%.json}" -v raw="$raw" '
                { printf "%-24s avg %8.2f us %5.2f | p50 %8.2f us %5.2f | p99 %8.2f us\n",
                         name, $1, $1 / raw, $2, $2 / raw, $3; n = 1 }
                END { exit !n }' || return
    done
}

# UCX's own lane between two GPUs beside mori_xgmi on the same lists; red where ours is slower,
# but for small sizes, where nothing is fast.
plain() { # LANE
    local quick=() lane_setting=() status

    [ -z "$fake" ] || lane_setting=(LANE_LEAST=0 LANE_RUNS=1)
    [ -z "$fake" ] || quick=(--start_block_size 64k --max_block_size 128k --total_buffer_size 4m --num_iter 3 --warmup_iter 1)
    inside env "${lane_setting[@]}" "$tree/perf/kv_perf/beside_plain.sh" "$1" "$out_inside/plain-$1" "${quick[@]}"
    status=$?
    cat "$work/stage.log" >>"$report"
    return $status
}

# UCX's own cost of a post beside a thread that makes progress, which bounds ours.
thread_all() {
    local i

    for i in 1 2 3; do
        stage "posts beside a thread, UCX alone, $i" 30 inside env UCX_TLS=posix UCX_WARN_UNUSED_ENV_VARS=n \
            "$build/perf/bench/bench_thread" && cat "$work/stage.log" >>"$report"
    done
}

# The library's own thread in place of the caller's progress.
own_thread_all() {
    local sweep=(--total_buffer_size 2g --num_iter 500 --warmup_iter 20 --start_batch_size 4096 --max_batch_size 4096
        --start_block_size 4k --max_block_size 64k --large_blk_iter_ftr 1 --pipeline_depth 4)
    local threads op i again="1 2 3"

    [ -z "$fake" ] || sweep=(--total_buffer_size 64m --num_iter 5 --warmup_iter 1 --start_batch_size 64 --max_batch_size 64
        --start_block_size 4k --max_block_size 4k)
    [ -z "$fake" ] || again=1
    for i in $again; do
        for op in WRITE READ; do
            for threads in 0 1; do
                kv_setting=("MORIKV_PROGRESS_THREADS=$threads")
                stage "kv $op, $threads threads of libmorikv's, $i" 40 kv "own-thread-$op-$threads-$i" "${sweep[@]}" \
                    --op_type "$op"
            done
        done
    done
    kv_setting=()
    kv_collect "own-thread${kv_suffix:-}"
}

# Contexts side by side on the processors: two a pair.
scale_all() {
    local i again="1 2 3" pairs=(16 20000)

    [ -z "$fake" ] || again=1 pairs=(2 20)
    for i in $again; do
        stage "contexts side by side, $i" 60 inside env UCX_TLS=posix,self UCX_POSIX_ERROR_HANDLING=y \
            UCX_WARN_UNUSED_ENV_VARS=n "$build/perf/bench/bench_scale" "${pairs[@]}" &&
            cat "$work/stage.log" >>"$report"
    done
}

latency_all() {
    local run=(--total_buffer_size 64m --num_iter 20000 --warmup_iter 500 --check_consistency)
    local tls api i again="1 2 3"

    [ -z "$fake" ] || run=(--total_buffer_size 1m --num_iter 50 --warmup_iter 5 --check_consistency)
    [ -z "$fake" ] || again=1
    [ -s "$out/gpu_latency.json" ] || stage "latency, raw" 30 latency_raw
    for tls in mori_xgmi posix tcp; do
        case $tls in
        mori_xgmi) kv_setting=("UCX_TLS=mori_xgmi,tcp") ;;
        posix) kv_setting=("UCX_TLS=mori_xgmi,posix,tcp" UCX_POSIX_ERROR_HANDLING=y) ;;
        tcp) kv_setting=("UCX_TLS=mori_xgmi,tcp" UCX_MORI_XGMI_MESSAGES=n) ;;
        esac
        for api in ucp mkv; do
            for i in $again; do
                stage "latency, put and notification by $tls, $api, $i" 30 kv "latency-notify-$tls-$api-$i" \
                    --scheme pingpong --api $api "${run[@]}"
            done
        done
        stage "latency, put and flush beside $tls" 30 kv "latency-put-$tls" --api ucp "${run[@]}"
        stage "latency, get and flush beside $tls" 30 kv "latency-get-$tls" --api ucp --op_type READ "${run[@]}"
    done
    kv_setting=()
    stage "latency, ratios" 10 latency_ratios && cat "$work/stage.log" >>"$report"
    kv_collect "latency${kv_suffix:-}"
}

# perftest TEST SIZE COUNT: two processes, each sees one device.
perftest() {
    local test=$1 size=$2 count=$3 server status

    [ -z "$fake" ] || count=20
    [ -z "$fake" ] || [ "$size" -lt 1048576 ] || size=1048576
    (inside env HIP_VISIBLE_DEVICES=1 ucx_perftest -p "$port" -t "$test" -m rocm -e \
        -s "$size" -n "$count" -w 10 >"$work/server.log" 2>&1) &
    server=$!
    for _ in $(seq 100); do
        inside grep -q ":$(printf '%04X' "$port") .* 0A " /proc/net/tcp && break
        sleep 0.1
    done
    kill -0 $server 2>/dev/null || {
        wait $server
        echo "ucx_perftest does not listen on port $port:"
        cat "$work/server.log"
        return 1
    }
    inside env HIP_VISIBLE_DEVICES=0 ucx_perftest localhost -p "$port" -t "$test" -m rocm -e \
        -s "$size" -n "$count" -w 10 -f
    status=$?
    wait $server
    [ $status -eq 0 ] || cat "$work/server.log"
    {
        printf '\nucx_perftest -t %s -m rocm -e -s %s -n %s\n' "$test" "$size" "$count"
        grep -E '^\[|Final|^ *[0-9]' "$work/stage.log"
    } >>"$report"
    return $status
}

# The runs that the host bounds, again and again: their median, and how far they spread.
kv_spread() {
    local run=(--total_buffer_size 2g --num_iter 1000 --warmup_iter 50 --start_batch_size 4096
        --max_batch_size 4096 --start_block_size 4k --large_blk_iter_ftr 1 --pipeline_depth 4)
    local i

    [ -z "$fake" ] || run=(--num_iter 5 --warmup_iter 1)
    for i in 1 2 3 4 5; do
        stage "kv UCP list, again $i" 20 kv "sgl-write-$i" "${run[@]}" --api ucp_sgl
        stage "kv write, again $i" 20 kv "mkv-write-$i" "${run[@]}"
        stage "kv both ways, again $i" 20 kv "both-$i" "${run[@]}" --scheme both
        stage "kv read, again $i" 20 kv "mkv-read-$i" "${run[@]}" --op_type READ
        stage "kv put a block, again $i" 20 kv "ucp-write-$i" "${run[@]}" --api ucp
        stage "kv get a block, again $i" 20 kv "ucp-read-$i" "${run[@]}" --api ucp --op_type READ
    done
    kv_collect "spread${kv_suffix:-}"
}

perftest_all() {
    stage "perftest put latency 8" 20 perftest ucp_put_lat 8 10000
    stage "perftest put latency 4k" 20 perftest ucp_put_lat 4096 10000
    stage "perftest put bandwidth 4k" 20 perftest ucp_put_bw 4096 200000
    stage "perftest put bandwidth 64k" 20 perftest ucp_put_bw 65536 100000
    stage "perftest put bandwidth 1m" 20 perftest ucp_put_bw 1048576 20000
    stage "perftest put bandwidth 1g" 30 perftest ucp_put_bw 1073741824 50
    stage "perftest get 4k" 20 perftest ucp_get 4096 200000
    stage "perftest get 1m" 20 perftest ucp_get 1048576 20000
}

# A connector as users write one: an LLM's tokens from two GPUs, compared with those of one process.
llm() {
    inside "$tree/test/integration/python/py_llm.sh" || return
    grep ' on .* and .* on ' "$work/stage.log" | sort -u >>"$report"
}

# Caches that leave the GPU for a pool in a process of its own.
pool() {
    inside "$tree/test/integration/python/py_pool.sh" || return
    inside env PYTHONPATH="$tree/contrib/python" LIBMORIKV="$build/.libs/libmorikv.so.0" \
        UCX_TLS=mori_xgmi,mori_copy,tcp python3 "$tree/contrib/examples/kv_pool.py" bench || return
    grep ' KiB: ' "$work/stage.log" >>"$report"
}

# Lists of short and long blocks by NIXL as pip gives it, between GPUs and with host memory:
# over mori_xgmi, and over the lane of the UCX in its wheel.
nixl() {
    local lists=("256 32768 0,1" "1024 16384 0,1" "4096 4096 0,1" "65536 512 0,1" "65536 512 0,shared" "65536 512 0,private")
    local list size blocks memory op lane modules repeats=20

    if [ ! -e "$root/gpu/nixl" ]; then
        print "-- nixl: skipped: no NIXL packed (GPU_NIXL)"
        return
    fi
    [ -z "$fake" ] || lists=("256 64 0,1" "256 64 0,shared") repeats=1
    # NIXL refuses a list without CUDA where NVIDIA's GPUs are; without its modules UCX takes the
    # memory for HIP's
    for lane in mori_xgmi,mori_copy,cuda_copy,tcp cuda_ipc,cuda_copy,tcp; do
        modules=all
        [[ $lane != mori_* ]] || modules=^cuda
        [ -z "$fake" ] || lane=mori_xgmi,mori_copy,tcp modules=all
        for list in "${lists[@]}"; do
            read -r size blocks memory <<<"$list"
            for op in WRITE READ; do
                stage "NIXL $op, $blocks of $size, $memory, by $lane" 40 inside env LD_LIBRARY_PATH=/gpu/lib:/gpu/driver:/gpu/nixl/cuda \
                    PYTHONPATH=/gpu/nixl NIXL_LOG_LEVEL=FATAL UCX_TLS="$lane" UCX_MODULES="$modules" python3 "$tree/perf/nixl/nixl_lists.py" \
                    --op $op --size "$size" --blocks "$blocks" --memory "$memory" --repeats $repeats &&
                    grep median "$work/stage.log" >>"$report"
            done
        done
    done
}

conformance() {
    inside sh "$tree/test/conformance/run.sh" mori_xgmi -1 -v /rocm
}

integration() {
    local program=$1 rounds=10000

    [ -z "$fake" ] || rounds=100

    [ -x "$build_here/$program" ] || { echo "$program is not built"; return 77; }
    inside env MKV_TEST_ROUNDS=$rounds MKV_TEST_MEM=gpu "./$program"
}

# All programs except those of other stages, and those without GPU memory.
integration_all() {
    local program

    for program in $(cd "$build_here" && find test/integration -maxdepth 2 -type f -perm -1 |
        grep -v -E '/(ucp_[a-z]*|kv_hosts|it_rdma)$' | sort); do
        stage "$program" 150 integration "$program"
    done
}

# Bandwidth of the kernel on all links at once.
fanout_raw() {
    local quick=()

    [ -z "$fake" ] || quick=(--pool 16 --count 16 --repeats 1)
    inside perf/gpu/gpu_limits --parts fanout "${quick[@]}" --json "$out_inside/gpu_fanout.json" || return
    cat "$work/stage.log" >>"$report"
}

# fanout_kv OTHERS SUFFIX: to them, from them, and both ways, by UCP lists and by libmorikv.
fanout_kv() {
    local sweep=(--total_buffer_size 3g --num_iter 300 --warmup_iter 20 --start_batch_size 4096
        --max_batch_size 4096 --start_block_size 4k --max_block_size 256k
        --large_blk_iter_ftr 1 --pipeline_depth 4)
    local scheme api

    [ -z "$fake" ] || sweep=(--total_buffer_size 16m --num_iter 5 --warmup_iter 1
        --start_batch_size 64 --max_batch_size 64 --start_block_size 4k --max_block_size 16k)
    for scheme in onetomany manytoone both; do
        for api in mkv ucp_sgl; do
            stage "kv $scheme, $1 others, $api$2" 60 kv "fan-$scheme-$api$2" "${sweep[@]}" \
                --scheme $scheme --num_target_dev "$1" --api $api
        done
    done
}

# fanout_blocks OTHERS BLOCKS: the effect of thread blocks by the number of peers.
fanout_blocks() {
    local list=(--total_buffer_size 2g --num_iter 500 --warmup_iter 20 --start_batch_size 4096
        --large_blk_iter_ftr 1 --pipeline_depth 4 --scheme onetomany --num_target_dev "$1")
    local size

    [ -z "$fake" ] || list=(--total_buffer_size 16m --num_iter 5 --warmup_iter 1 --start_batch_size 64
        --scheme onetomany --num_target_dev "$1")
    for size in 4k 64k; do
        stage "kv onetomany, $1 others, $2 blocks, $size" 30 kv "fan-$1-blocks$2-$size" "${list[@]}" --start_block_size $size
    done
}

# pairs NAME PAIRS OPTION..: as many ranks at once against one.
pairs() {
    local name=$1 number=$2

    shift 2
    inside env "${kv_setting[@]}" "$tree/perf/kv_perf/pairs.sh" "$out_inside/pairs-$name" "$number" "$num_gpus" "$@" || return
    cat "$work/stage.log" >>"$report"
    cat "$out/pairs-$name"/*.json >"$out/pairs-$name.txt"
    rm -rf "$out/pairs-$name"
}

fanout_pairs() {
    local length name run

    for name in Llama-3-70B DeepSeek-R1; do
        for length in 8192 131072; do
            run=(--model "$name" --tp 8 --block_size 16 --input_length "$length" --output_length 16 --exact_length --post layer
                --warmup_requests 2 --total_buffer_size 12g --requests $((length > 8192 ? 60 : 400)))
            [ -z "$fake" ] || run=(--model "$name" --tp 8 --block_size 16 --input_length 256 --output_length 16 --exact_length
                --post layer --requests 3 --total_buffer_size 128m)
            stage "pairs $name $length" 90 pairs "$name-$length" 8 "${run[@]}"
        done
    done
}

# Run between a GPU and all others, three or more in all.
fanout_all() {
    local blocks others

    if [ "$num_gpus" -lt 3 ]; then
        print "-- fan-out: skipped: $num_gpus GPUs"
        return
    fi
    stage "fan-out, raw" 120 fanout_raw
    fanout_kv $((num_gpus - 1)) ""
    for blocks in 8 16 32; do
        kv_setting=("UCX_MORI_XGMI_BLOCKS=$blocks")
        for others in $(seq $((num_gpus - 1))); do
            fanout_blocks "$others" "$blocks"
        done
    done
    kv_setting=()
    kv_collect fanout
    fanout_pairs
}

# run_stages NAME..: those that every machine has; others by function stage_NAME.
run_stages() {
    local name

    for name in "$@"; do
        case $name in
        machine) stage machine 30 machine ;;
        limits) stage limits 120 limits ;;
        models) stage models 120 models ;;
        permute) stage permute 120 permute ;;
        risks) stage risks 600 risks ;;
        kv) kv_all ;;
        spread) kv_spread ;;
        layouts) kv_layouts ;;
        host) host_memory ;;
        latency) latency_all ;;
        fanout) fanout_all ;;
        perftest) perftest_all ;;
        llm) stage "tokens of an LLM by prefill and decode" 240 llm ;;
        nixl) nixl ;;
        pool) stage "a pool of blocks in host memory" 120 pool ;;
        conformance) stage conformance 150 conformance ;;
        integration) integration_all ;;
        *)
            if declare -F "stage_$name" >/dev/null; then
                "stage_$name"
            else
                print "-- no stage is called $name"
                num_failed=$((num_failed + 1))
            fi
            ;;
        esac
    done
    print "== $num_failed stages failed, $(($(date +%s) - started)) s"
}
