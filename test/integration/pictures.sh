#!/bin/bash
# Pictures of the tools in the pages: terminals of 80 and 100 columns, and plots, taken here
# on the machine of test/support/machine.sh with libhipcpu and the fake libibverbs. The
# present output of the tools, without its figures, must equal docs/img, and no line may be
# longer than the terminal.
#
#   test/integration/pictures.sh [--update]    in the folder of a build; with --update docs/img
#                                              is written anew
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kept=$(cd "$here/../.." && pwd)/docs/img

skip() { echo "SKIP: $1"; exit 77; }

if [ "${1:-}" != --inside ]; then
    [ -e "$build/test/fake/verbs/.libs/libibverbs.so.1" ] || skip "no fake libibverbs in this build"
    python3 -c 'import rich' 2>/dev/null || skip "there is no python3-rich"
    ! ldd "$build/.libs/libmorikv.so.0" | grep libasan >/dev/null || skip "python does not carry sanitizers"
    # below a chroot mounts cannot be made private; those of the development root already are
    how=private
    [ ! -e /.ucx-mori-stamp ] || how=unchanged
    unshare --mount --uts --propagation $how true 2>/dev/null || skip "unshare(1) makes no namespaces here"
    exec unshare --mount --uts --propagation $how "${BASH_SOURCE[0]}" --inside "$@"
fi

# ---- The machine: installed in /usr/local, the GPU runtime in /opt/rocm.
hostname gpu-node-1
mount -t tmpfs none /usr/local && mount -t tmpfs none /opt || exit 1
work=/usr/local/machine
mkdir -p /usr/local/{bin,lib/ucx-mori,machine} /opt/rocm/lib
cp -L "$build"/.libs/{libuct_mori.so.0,mori-core-*.so} /usr/local/lib/ucx-mori/
cp -L "$build/.libs/libmorikv.so.0" "$build"/test/fake/verbs/.libs/lib*.so.* /usr/local/lib/
cp -L "$build"/test/fake/hip/lib/libamdhip64.so.* /opt/rocm/lib/
cp "$build"/contrib/{mori_doctor,mori_env} "$build/perf/kv_perf/mori_kv_plot" "$build/perf/kv_perf/.libs/mori_kv_perf" /usr/local/bin/
mkdir -p /usr/local/share/ucx-mori && cp -rL "$build/perf/models" /usr/local/share/ucx-mori/
export PATH=/usr/local/bin:/usr/bin:/bin LD_LIBRARY_PATH=/usr/local/lib:/opt/rocm/lib
export FAKE_VERBS_WIRE=$work/wire UCX_VFS_ENABLE=n TERM=xterm-256color MORI_KV_PERF_MODELS=/usr/local/share/ucx-mori/models
unset UCX_PLUGIN_PATH UCX_TLS UCX_MORI_HIP_LIB
# shellcheck source=test/support/machine.sh
. "$here/../support/machine.sh"
machine
rm "$work/bin/ucx_info"
mount -t tmpfs -o size=64g none "$work/root/dev/shm"
locked() { # BYTES that the machine lets a process lock
    printf 'Max locked memory         %s  %s  bytes\n' "$1" "$1" >"$work/root/proc/self/limits"
}
locked unlimited
echo fake.ionic >"$work/root/sys/class/infiniband/nic0/fw_ver"

failures=0
fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

take() { # COLUMNS NAME TYPED COMMAND...
    python3 "$here/screen.py" take "$1" "$work/$2.svg" "${@:3}" || fail "no picture of '$3'"
}

good() { # COMMAND... in the environment that mori_env prints
    PATH=$work/bin:$PATH UCX_PLUGIN_PATH=/usr/local/lib/ucx-mori "$@"
}

diagnosed() { # COMMAND... where libibverbs has the NIC of that machine, too
    FAKE_VERBS_DEVICES=nic0:ionic FAKE_VERBS_WIRE=$work/wire-nic0 "$@"
}

# ---- Output shown in the pages.
small=(--start_block_size 4k --max_block_size 256k --start_batch_size 64 --total_buffer_size 64m --num_iter 20
    --initiator_seg_type VRAM --target_seg_type VRAM)
export UCX_TLS=mori_xgmi,mori_rdma,mori_copy,tcp
good diagnosed take 100 doctor-100 mori_doctor mori_doctor --root "$work/root" --python /none --seconds 0.2 --limit 60
good take 100 kv_perf-100 "mori_kv_perf ${small[*]} --check_consistency" mori_kv_perf "${small[@]}" --check_consistency
model=(--model DeepSeek-V3.2 --requests 8 --input_length 500 --num_blocks 256 --check_consistency)
good take 80 kv_perf-80 "mori_kv_perf ${model[*]}" mori_kv_perf "${model[@]}"
good mori_kv_perf "${small[@]}" --start_batch_size 16 --json "$work/sweep.json" >"$work/out" 2>&1 || fail "--json: $(cat "$work/out")"
good mori_kv_perf --model GPT-OSS-120B --requests 4 --input_length 64 --num_blocks 64 --post layer --layer_us 10 \
    --json "$work/layers.json" >"$work/out" 2>&1 || fail "--json: $(cat "$work/out")"

# ---- Plots, where the package registry has matplotlib: every format, and layers beside compute.
drawn() { # PICTURE FILE.json...: as a user types it, in the folder of the files
    (cd "$work" && PYTHONPATH=$matplotlib MPLCONFIGDIR=$work mori_kv_plot -o "$@") >"$work/out" 2>&1 || fail "mori_kv_plot -o $*: $(cat "$work/out")"
}
begins() { # FILE BYTES
    grep -qa "^$2" <(head -c 8 "$work/$1") || fail "$1 does not begin with $2"
}
if "$here/../../contrib/fetch_matplotlib" >"$work/out" 2>&1; then
    matplotlib=$("$here/../../contrib/fetch_matplotlib" --path)
    drawn plot.svg sweep.json
    drawn plot.png sweep.json
    drawn plot.pdf sweep.json layers.json
    begins plot.png $'\x89PNG'
    begins plot.pdf %PDF-1
    grep -q '"link_gb_per_s": 0.000' "$work/layers.json" || fail "a link without a rate has one"
    sed -i 's/"link_gb_per_s": 0.000/"link_gb_per_s": 50.000/' "$work/layers.json"
    drawn layers.svg layers.json
    python3 "$here/screen.py" words "$work/layers.svg" >"$work/words" || fail "layers.svg is none"
    for word in link,GB/s computeofalllayers untilallhasarrived %ofrequests WRITEofGPT; do
        grep -q "$word" "$work/words" || fail "layers.svg does not contain $word: $(cat "$work/words")"
    done
else
    echo "no plot was drawn: $(cat "$work/out")"
fi
rm -r "$work"/root/sys/class/infiniband/nic0/ports/1/gid_attrs "$work"/root/dev/dri/renderD129
ln -sf 'ipc:[4026532999]' "$work/root/proc/self/ns/ipc"
umount "$work/root/dev/shm" && mount -t tmpfs -o size=64m none "$work/root/dev/shm"
locked 65536
export UCX_TLS=tcp
PATH=$work/bin:$PATH diagnosed take 80 doctor-80 "mori_doctor --no-selftest" mori_doctor --no-selftest --root "$work/root" --python /none

for picture in doctor-100 doctor-80 kv_perf-100 kv_perf-80 plot; do
    [ -s "$work/$picture.svg" ] || continue
    if [ "${2:-}" = --update ]; then
        mkdir -p "$kept" && sed 's/[ \t]*$//; s/\t/ /g' "$work/$picture.svg" >"$kept/$picture.svg"
        continue
    fi
    for file in "$work" "$kept"; do
        python3 "$here/screen.py" words "$file/$picture.svg" >"$work/words-${file##*/}" || fail "$file/$picture.svg is none"
    done
    cmp -s "$work/words-machine" "$work/words-img" || {
        fail "docs/img/$picture.svg is not what the tools print; test/integration/pictures.sh --update, and look at it"
        fold -w 160 "$work/words-machine" >"$work/now"
        fold -w 160 "$work/words-img" | diff - "$work/now" | head -n 20
    }
    grep -l "$build\|/tmp/" "$kept/$picture.svg" && fail "docs/img/$picture.svg contains a path of the machine where it was made"
done
[ $failures = 0 ]
