#!/bin/bash
# Pack the files that a machine with GPUs and nothing else needs to test this tree:
#
#   test/gpu/pack.sh [FOLDER]      (default: .gpu in the tree)
#
# A small root made from the development root, with this tree and a build of it at
# the same place, and the copy kernel for NVIDIA. UCX_RELEASE=1.22.0 names a UCX that is
# built for release (contrib/fetch_ucx), for a second build, GPU_NIXL=1.5.1 a NIXL for the
# stage nixl. There, test/gpu/run_gpu.sh uses them.
set -euo pipefail
[[ ${1-} != -* ]] || {
    echo "test/gpu/pack.sh: no option '$1'; expected [FOLDER]" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(cd "$here/../.." && pwd)
out=${1:-$tree/.gpu}
build=$tree/build-gpu

die() {
    echo "test/gpu/pack.sh: $*" >&2
    exit 1
}

mkdir -p "$out"
out=$(cd "$out" && pwd)
nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) ||
    die "nvcc is not there; the copy kernel cannot be compiled for NVIDIA"

echo "== kernel"
"$nvcc" -x cu -O3 -fatbin -gencode arch=compute_90,code=sm_90 \
    -gencode arch=compute_90,code=compute_90 -I"$tree/ucx_plugin/xgmi/copy" \
    -o "$out/kernel.fatbin" "$tree/ucx_plugin/xgmi/copy/xgmi_kernel.hip"

echo "== build"
# shellcheck disable=SC2016
"$tree/contrib/devroot" run sh -ec '
    cd "$1"
    [ -x configure ] || autoreconf -i
    mkdir -p "$2" && cd "$2"
    [ -e config.status ] || ../configure
    make -j2
    make -j2 check TESTS=' sh "$tree" "$build" >"$out/build.log" 2>&1 ||
    die "the build failed; its output is in $out/build.log"

prefix=
if [ -n "${UCX_RELEASE:-}" ]; then
    echo "== build with UCX $UCX_RELEASE"
    "$tree/contrib/devroot" run "$tree/contrib/fetch_ucx" "$UCX_RELEASE"
    prefix=$("$tree/contrib/devroot" run "$tree/contrib/fetch_ucx" --path "$UCX_RELEASE")
    # shellcheck disable=SC2016
    "$tree/contrib/devroot" run sh -ec '
        mkdir -p "$1/build-gpu-release" && cd "$1/build-gpu-release"
        [ -e config.status ] || ../configure --with-ucx="$2"
        make -j2' sh "$tree" "$prefix" >"$out/build-release.log" 2>&1 ||
        die "the build failed; its output is in $out/build-release.log"
fi
printf '%s\n' "$prefix" >"$out/release"

echo "== root"
stage=$(mktemp -d "${TMPDIR:-/tmp}/gpu-pack.XXXXXX")
trap 'rm -rf "$stage"' EXIT
"$tree/contrib/devroot" run bash "$here/pack_root.sh" "$stage" "$build"
mkdir -p "$stage$tree"
tar -C "$tree" -c --exclude-vcs --exclude='./build*' --exclude=./.gpu \
    --exclude=./autom4te.cache . | tar -C "$stage$tree" -x
mkdir -p "$stage$build"
# tests against fakes run where they are built
tar -C "$build" -c --exclude='*.o' --exclude='*.a' --exclude=.deps --exclude=./test/unit . |
    tar -C "$stage$build" -x
if [ -n "$prefix" ]; then
    mkdir -p "$stage$build-release" "$stage$(dirname "$prefix")"
    tar -C "$build-release" -c --exclude='*.o' --exclude='*.a' --exclude=.deps . |
        tar -C "$stage$build-release" -x
    tar -C "$("$tree/contrib/devroot" path)$(dirname "$prefix")" -c --exclude='*.a' --exclude=include \
        --exclude='*cuda*' --exclude='*gdr*' . | tar -C "$stage$(dirname "$prefix")" -x
fi
mkdir -p "$stage/gpu/lib" "$stage/gpu/driver" "$stage/gpu/out"
# UCX's own lane between NVIDIA's GPUs, for the stage that compares with it
if [ -n "$prefix" ]; then
    mkdir "$stage/gpu/cuda"
    # shellcheck disable=SC2016
    "$tree/contrib/devroot" run sh -ec 'cp -L "$1"/lib/ucx/libuc[tm]_cuda.so.0 "$1"/lib/ucx/libuct_cma.so.0 "$2"
        cp "$1"_cu*.libs/libcudart* "$2"' sh "$prefix" "$stage/gpu/cuda"
    for file in "$stage"/gpu/cuda/libuc*.so.0; do
        ln -s "$(basename "$file")" "${file%.0}"
    done
fi
if [ -n "${GPU_NIXL:-}" ]; then
    "$tree/contrib/devroot" run bash "$here/pack_nixl.sh" "$stage/gpu/nixl" "$GPU_NIXL"
fi
ln -s "$build/test/gpu/.libs/libhipshim.so" "$stage/gpu/lib/libamdhip64.so.6"
cp "$out/kernel.fatbin" "$stage/gpu/"
printf '%s\n' "$tree" >"$out/tree"
tar -C "$stage" -c . | xz -T2 -3 >"$out/root.tar.xz"

ls -l "$out"
