#!/bin/bash
# contrib/compile_kernel with a compiler that knows gfx1250, and with one that does not: the bundle
# has the architecture, or a line reports that it is left out.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A compiler that writes the architectures it was given to its output, and refuses REFUSED.
cat >"$work/hipcc" <<'END'
#!/bin/sh
for word; do
    case $word in
    --offload-arch="$REFUSED") exit 1 ;;
    --offload-arch=*) archs="${archs-}${word#--offload-arch=} " ;;
    -o) shift_to=next ;;
    *) [ -z "${shift_to-}" ] || { output=$word shift_to=; } ;;
    esac
done
echo "$archs" >"$output"
END
chmod +x "$work/hipcc"
touch "$work/kernel.hip"

bundle() { # REFUSED
    REFUSED=$1 HIPCC=$work/hipcc "$tree/contrib/compile_kernel" "$work/kernel.hip" "$work/bundle" 2>"$work/said"
    cat "$work/bundle"
}
expect() { # FOUND EXPECTED
    [ "$1" = "$2" ] || { echo "found '$1', expected '$2'"; exit 1; }
}

expect "$(bundle none)" 'gfx90a gfx942 gfx950 gfx1100 gfx1250 '
expect "$(bundle gfx1250)" 'gfx90a gfx942 gfx950 gfx1100 '
grep -q 'gfx1250 is left out: .*hipcc does not compile for it' "$work/said"
! REFUSED=gfx942 HIPCC=$work/hipcc "$tree/contrib/compile_kernel" "$work/kernel.hip" "$work/bundle" 2>/dev/null ||
    { echo "an architecture of each release was left out"; exit 1; }
