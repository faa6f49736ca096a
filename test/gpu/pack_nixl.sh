#!/bin/bash
# Inside the development root: copy the parts of pip's NIXL that move GPU memory over UCX. Called by
# pack.sh.
#
#   pack_nixl.sh FOLDER RELEASE
set -euo pipefail

contrib=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../contrib" && pwd)
stage=$1
"$contrib/fetch_nixl" "$2"
nixl=$("$contrib/fetch_nixl" --path "$2")
mkdir -p "$stage/cuda"
# its other back ends, and tests, compilers and data of NumPy's
tar -C "$nixl" -c --exclude=__pycache__ --exclude='libplugin_[!U]*' --exclude='libucx_perftest*' --exclude='lib*_ib*' \
    --exclude='lib*aws*' --exclude='lib*azure*' --exclude=tests --exclude=f2py \
    nixl nixl_meta_utils.py nixl_cu12 nixl_cu12.libs .nixl_cu12.mesonpy.libs numpy numpy.libs | tar -C "$stage" -x
# the runtime that UCX's modules for CUDA were linked to
"$contrib/fetch_ucx" 1.22.0
cp "$("$contrib/fetch_ucx" --path 1.22.0)"_cu12.libs/libcudart*.so.12* "$stage/cuda/libcudart.so.12"
