#!/bin/sh
# The machine code of the embedded copy kernel stores its flag after its bytes are out, and is
# of a version that ROCm 5.7 loads; and the check notices each part that is missing.
set -eu
build=${MKV_BUILD_DIR:-$PWD}
tree=$(cd "$(dirname "$0")/../../.." && pwd)
check=$tree/contrib/check_kernel
bundle=$build/ucx_plugin/xgmi/copy/xgmi_kernel.bundle

if [ ! -e "$bundle" ]; then
    echo "built without hipcc: there is no machine code"
    exit 77
fi
"$check" "$bundle"

# the headers of version 6
newer=$(mktemp)
LC_ALL=C sed 's/\x7fELF\x02\x01\x01\x40\x03/\x7fELF\x02\x01\x01\x40\x04/g' "$bundle" >"$newer"
if "$check" "$newer" >/dev/null; then
    echo "xgmi_fence.sh: code objects of version 6 pass" >&2
    rm -f "$newer"
    exit 1
fi
rm -f "$newer"

# take out the needs of the barrier, the write-back and the flag one by one
for arch in gfx90a gfx942 gfx950; do
    for part in '/buffer_wbl2/{n;s/s_waitcnt.*/s_nop 0/}' '/buffer_wbl2/d' \
        '/s_waitcnt vmcnt(0)/s/s_waitcnt.*/s_nop 0/' '/flag_is_last/d'; do
        if "$check" --show "$bundle" $arch | sed -e "$part" | "$check" - >/dev/null; then
            echo "xgmi_fence.sh: $arch passes with $part" >&2
            exit 1
        fi
    done
done
