#!/bin/sh
# The machine code of the embedded copy kernel tells its end after its bytes are out; and
# the check that says so notices each part that is missing.
set -eu
build=${MKV_BUILD_DIR:-$PWD}
tree=$(cd "$(dirname "$0")/../../.." && pwd)
check=$tree/contrib/check_kernel
bundle=$build/ucx_plugin/xgmi/xgmi_kernel.bundle

if [ ! -e "$bundle" ]; then
    echo "built without hipcc: there is no machine code"
    exit 77
fi
"$check" "$bundle"

# what the barrier, the write-back and the flag rest on, taken out one by one
for arch in gfx90a gfx942 gfx950; do
    for part in '/buffer_wbl2/{n;s/s_waitcnt.*/s_nop 0/}' '/buffer_wbl2/d' \
        '/s_waitcnt vmcnt(0)/s/s_waitcnt.*/s_nop 0/' '/flag_is_last/d'; do
        if "$check" --show "$bundle" $arch | sed -e "$part" | "$check" - >/dev/null; then
            echo "xgmi_fence.sh: $arch passes with $part" >&2
            exit 1
        fi
    done
done
