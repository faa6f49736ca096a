#!/bin/bash
# Everything that is proven on two GPUs, on a machine that has nothing but them:
#
#   test/gpu/run_gpu.sh FOLDER [STAGE..]
#
# Uses what test/gpu/pack.sh left in .gpu (GPU_PACK names another folder). Each stage
# has its own time limit, the whole has GPU_LIMIT_S seconds (540); a stage that fails
# is reported and the next one runs. FOLDER gets report.txt, log.txt and JSON files.
#
# GPU_FAKE=1 takes libhipcpu for the GPUs, to try the script itself.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pack=${GPU_PACK:-$(cd "$here/../.." && pwd)/.gpu}
limit=${GPU_LIMIT_S:-540}
fake=${GPU_FAKE:-}
all_stages="machine limits kv perftest conformance integration cuda memcheck"

usage() {
    sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

[ $# -gt 0 ] || usage
mkdir -p "$1" || exit 1
out=$(cd "$1" && pwd)
shift
stages=${*:-$all_stages}

# Mounts in a namespace of our own: nothing is left behind.
if [ -z "${GPU_INSIDE:-}" ]; then
    export GPU_INSIDE=1
    # shellcheck disable=SC2086
    unshare --mount --propagation private true 2>/dev/null &&
        exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" "$out" $stages
fi

started=$(date +%s)
report=$out/report.txt
log=$out/log.txt
: >"$report"
: >"$log"
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu.XXXXXX")
root=$work/root
tree=$(cat "$pack/tree") || { echo "no pack in $pack; run test/gpu/pack.sh" >&2; exit 1; }
build=$tree/build-gpu
num_failed=0

say() {
    printf '%s\n' "$*" | tee -a "$report"
}

left() {
    echo $((limit - $(date +%s) + started))
}

# stage NAME SECONDS COMMAND..: its output goes to the log, its result to the report.
stage() {
    local name=$1 seconds=$2 status begin
    shift 2

    [ "$seconds" -le "$(left)" ] || seconds=$(left)
    if [ "$seconds" -lt 5 ]; then
        say "-- $name: no time left"
        num_failed=$((num_failed + 1))
        return 1
    fi
    begin=$(date +%s)
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    stage_seconds=$seconds "$@" >"$work/stage.log" 2>&1
    status=$?
    cat "$work/stage.log" >>"$log"
    if [ $status -eq 0 ]; then
        say "-- $name: ok, $(($(date +%s) - begin)) s"
    elif [ $status -eq 77 ]; then
        say "-- $name: skipped: $(tail -n 1 "$work/stage.log")"
    else
        say "-- $name: FAILED with $status after $(($(date +%s) - begin)) s of $seconds"
        tail -n 15 "$work/stage.log" | sed 's/^/     /' | tee -a "$report"
        num_failed=$((num_failed + 1))
    fi
    return $status
}

prepare() {
    local file library

    mkdir -p "$root"
    xz -dc "$pack/root.tar.xz" | tar -C "$root" -x || return 1
    mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" &&
        mount --rbind /sys "$root/sys" && mount --bind "$out" "$root/gpu/out" || return 1
    if [ -n "$fake" ]; then
        ln -sfn "$build/test/fake/.libs/libhipcpu.so" "$root/gpu/lib/libamdhip64.so.6"
        return 0
    fi
    library=$(ldconfig -p | awk '/libcuda\.so\.1 .*x86-64/ { print $NF; exit }')
    [ -n "$library" ] || library=$(find /usr/local/nvidia /usr/lib -name libcuda.so.1 2>/dev/null | head -n 1)
    [ -n "$library" ] || { echo "no libcuda.so.1"; return 1; }
    for file in "$(dirname "$library")"/lib{cuda,nvidia-ptxjitcompiler,nvidia-nvvm,nvidia-gpucomp}*.so*; do
        [ ! -e "$file" ] || cp -L "$file" "$root/gpu/driver/" || return 1
    done
    if [ -d /usr/local/cuda ]; then
        mkdir -p "$root/usr/local/cuda"
        mount --rbind "$(readlink -f /usr/local/cuda)" "$root/usr/local/cuda" || true
    fi
    return 0
}

# Run in the root, as the product would be run, with a time limit.
inside() {
    timeout -k 5 "${stage_seconds:-60}" chroot "$root" /usr/bin/env -i \
        PATH=/usr/bin:/usr/sbin HOME=/root LC_ALL=C.UTF-8 CK_FORK=yes \
        LD_LIBRARY_PATH=/gpu/lib:/gpu/driver HIPSHIM_KERNEL=/gpu/kernel.fatbin \
        UCX_PLUGIN_PATH="$build/.libs" MKV_BUILD_DIR="$build" MKV_TEST_REAL_HIP=1 \
        CUDA_MODULE_LOADING=EAGER HIPCPU_DEVICES=2 \
        UCX_TLS=mori_xgmi,tcp UCX_NET_DEVICES=lo \
        env -C "$build" "$@"
}

machine() {
    uname -a
    nproc
    nvidia-smi || true
    nvidia-smi topo -m || true
    inside ucx_info -v
    inside ucx_info -d | grep -A 12 mori_xgmi
}

limits() {
    local quick=()

    [ -z "$fake" ] || quick=(--pool 128 --count 64 --repeats 1)
    inside perf/gpu_limits "${quick[@]}" --json /gpu/out/gpu_limits.json || return
    cat "$work/stage.log" >>"$report"
}

# kv NAME OPTION..: one run of mori_kv_perf; its table goes to the report.
kv() {
    local name=$1

    shift
    [ -x "$root$build/perf/mori_kv_perf" ] || { echo "mori_kv_perf is not built"; return 77; }
    inside perf/mori_kv_perf --timeout 20 "$@" --json "/gpu/out/kv-$name.json" || return
    {
        printf '\nmori_kv_perf %s\n' "$*"
        cat "$work/stage.log"
    } >>"$report"
}

kv_all() {
    local sweep=(--total_buffer_size 2g --num_iter 200 --warmup_iter 20 --start_batch_size 4096
        --max_batch_size 4096 --start_block_size 4k --max_block_size 256k)
    local model=(--requests 8 --total_buffer_size 16g)
    local name length op

    [ -z "$fake" ] || sweep=(--total_buffer_size 64m --num_iter 5 --warmup_iter 1
        --start_batch_size 64 --max_batch_size 64 --start_block_size 4k --max_block_size 64k)
    [ -z "$fake" ] || model=(--requests 1 --total_buffer_size 512m)
    stage "kv sweep, bytes checked" 60 kv check "${sweep[@]}" --num_iter 10 --check_consistency
    stage "kv write, libmorikv" 40 kv mkv-write "${sweep[@]}"
    stage "kv read, libmorikv" 40 kv mkv-read "${sweep[@]}" --op_type READ
    stage "kv write, UCP list" 40 kv sgl-write "${sweep[@]}" --api ucp_sgl
    stage "kv write, UCP calls" 40 kv ucp-write "${sweep[@]}" --api ucp
    stage "kv read, UCP calls" 40 kv ucp-read "${sweep[@]}" --api ucp --op_type READ
    stage "kv both ways" 40 kv both "${sweep[@]}" --scheme both
    for name in Llama-3-70B DeepSeek-R1; do
        for length in 8192 131072; do
            [ -z "$fake" ] || length=256
            for op in WRITE READ; do
                stage "kv $name $length $op" 30 kv "$name-$length-$op" --model "$name" --tp 8 \
                    --input_length $length --output_length 16 --op_type $op \
                    --post "$([ $op = WRITE ] && echo layer || echo all)" "${model[@]}"
            done
        done
    done
    # few files come back
    {
        echo '['
        for name in "$out"/kv-*.json; do
            [ ! -s "$name" ] || { printf '{"file": "%s", "run":\n' "$(basename "$name")"; cat "$name"; echo '},'; }
        done
        echo 'null]'
    } >"$out/mori_kv_perf.json"
    rm -f "$out"/kv-*.json
}

port=13400

# perftest TEST SIZE COUNT: two processes, each sees one device.
perftest() {
    local test=$1 size=$2 count=$3 server status

    port=$((port + 1))
    [ -z "$fake" ] || count=20
    (inside env HIP_VISIBLE_DEVICES=1 ucx_perftest -p $port -t "$test" -m rocm -e \
        -s "$size" -n "$count" -w 10 >"$work/server.log" 2>&1) &
    server=$!
    for _ in $(seq 100); do
        inside grep -q ":$(printf '%04X' $port) .* 0A " /proc/net/tcp && break
        sleep 0.1
    done
    inside env HIP_VISIBLE_DEVICES=0 ucx_perftest localhost -p $port -t "$test" -m rocm -e \
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

conformance() {
    inside sh "$tree/test/conformance/uct_mori_xgmi.sh"
}

integration() {
    local program=$1

    [ -x "$root$build/$program" ] || { echo "$program is not built"; return 77; }
    inside "./$program"
}

integration_all() {
    local program

    for program in $(cd "$root$build" && find test/integration -maxdepth 1 -type f -perm -1 |
        grep -v -E '/(ucp_app|kv_app)$' | sort); do
        stage "$program" 40 integration "$program"
    done
}

# UCX's own cuda_ipc, for comparison; runs outside of the root.
cuda() {
    local lib=$work/cuda/libucx size=$1 count=$2 server status

    if [ ! -e "$pack/ucx-cuda.tar.xz" ] || [ -n "$fake" ]; then
        echo "no UCX for CUDA packed"
        return 77
    fi
    [ -d "$lib" ] || { mkdir -p "$work/cuda" && xz -dc "$pack/ucx-cuda.tar.xz" | tar -C "$work/cuda" -x; }
    chmod +x "$lib"/bin/* || return 1
    port=$((port + 1))
    export LD_LIBRARY_PATH=$lib/lib:$work/cuda/libucx_cu13.libs UCX_MODULE_DIR=$lib/lib/ucx
    export UCX_TLS=cuda,tcp
    CUDA_VISIBLE_DEVICES=0,1 timeout -k 5 "$stage_seconds" "$lib/bin/ucx_perftest" -p $port \
        -t ucp_put_bw -m cuda -s "$size" -n "$count" >/dev/null 2>&1 &
    server=$!
    sleep 3
    CUDA_VISIBLE_DEVICES=1,0 timeout -k 5 "$stage_seconds" "$lib/bin/ucx_perftest" localhost \
        -p $port -t ucp_put_bw -m cuda -s "$size" -n "$count" -f
    status=$?
    wait $server
    unset LD_LIBRARY_PATH UCX_MODULE_DIR UCX_TLS
    {
        printf '\nUCX cuda_ipc: ucx_perftest -t ucp_put_bw -m cuda -s %s\n' "$size"
        grep -E '^\[|Final|^ *[0-9]' "$work/stage.log"
    } >>"$report"
    return $status
}

memcheck() {
    local tool=/usr/local/cuda/bin/compute-sanitizer

    if [ ! -x "$root$tool" ] || [ -n "$fake" ]; then
        echo "no compute-sanitizer"
        return 77
    fi
    inside "$tool" --error-exitcode 99 perf/gpu_limits --pool 192 --count 512 --repeats 1
}

if ! stage prepare 60 prepare; then
    say "nothing can run"
    exit 1
fi
for name in $stages; do
    case $name in
    machine) stage machine 30 machine ;;
    limits) stage limits 120 limits ;;
    kv) kv_all ;;
    perftest) perftest_all ;;
    conformance) stage conformance 60 conformance ;;
    integration) integration_all ;;
    cuda)
        stage "UCX cuda_ipc 64k" 20 cuda 65536 20000
        stage "UCX cuda_ipc 4k" 20 cuda 4096 20000
        ;;
    memcheck) stage memcheck 90 memcheck ;;
    *) say "-- no stage is called $name; there are: $all_stages" ;;
    esac
done
say "== $num_failed stages failed, $(($(date +%s) - started)) s"
umount -R "$root/gpu/out" "$root/dev" "$root/sys" "$root/proc" "$root/usr/local/cuda" 2>/dev/null
mountpoint -q "$root/dev" || rm -rf "$work"
[ $num_failed -eq 0 ]
