#!/bin/sh
# Puts with notifications between two processes, GPU memory over mori_xgmi (libhipcpu, whose
# copies take a while): at each notification every byte is the round's own, whether
# notifications go over mori_xgmi as well, tcp, or UCX's shared memory. Then a killed and a
# stopped peer, which are errors also over UCX's shared memory.
# CN-02, XM-07
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
LD_LIBRARY_PATH=$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
export UCX_PLUGIN_PATH="$build/.libs" UCX_NET_DEVICES=lo

# The path names the transport of the puts. UCX's log names the lane of the messages.
rounds() { # MESSAGES API..
    carrier=$1
    shift
    for api in "$@"; do
        echo "put and notification over $carrier, --api $api"
        UCX_LOG_LEVEL=info HIPCPU_DELAY=20 "$build/perf/kv_perf/mori_kv_perf" --scheme pingpong --api "$api" \
            --initiator_seg_type VRAM --target_seg_type VRAM --total_buffer_size 1m \
            --max_batch_size 4 --num_iter 150 --warmup_iter 10 --check_consistency \
            >"$dir/out" 2>&1 || {
            cat "$dir/out"
            exit 1
        }
        if ! grep -q 'path .*mori_xgmi/' "$dir/out" ||
            ! grep -q " cfg#.* [a-z_]*am([^)]*$carrier/" "$dir/out" ||
            [ "$(grep -c 'every byte checked' "$dir/out")" != 3 ]; then
            cat "$dir/out"
            echo "kv_latency.sh: expected messages over $carrier, and three rows with checked bytes"
            exit 1
        fi
    done
}

UCX_TLS=mori_xgmi,tcp
export UCX_TLS
rounds mori_xgmi mkv ucp ucp_sgl
UCX_MORI_XGMI_MESSAGES=n
export UCX_MORI_XGMI_MESSAGES
rounds tcp mkv ucp ucp_sgl
unset UCX_MORI_XGMI_MESSAGES
UCX_TLS=mori_xgmi,posix,tcp
UCX_POSIX_ERROR_HANDLING=y
export UCX_POSIX_ERROR_HANDLING
rounds posix mkv ucp ucp_sgl
[ -n "${MKV_TEST_FEWER:-}" ] || MKV_KV_PROGRAMS=kv_fault sh "$here/kv_run.sh" "$UCX_TLS" gpu
echo "kv_latency.sh: passed"
