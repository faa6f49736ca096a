#!/bin/sh
# Run the conformance suite on one transport, in the build folder:
#   test/conformance/run.sh TRANSPORT [OPTION..]
# UCX finds the module by UCX_PLUGIN_PATH, as for a user. The HIP runtime is libhipcpu unless the
# caller selects another. MKV_CONFORMANCE names another program.
set -eu
case ${1-} in
-*)
    echo "test/conformance/run.sh: no option '$1'; expected TRANSPORT [OPTION...]" >&2
    exit 2
    ;;
esac
tl=$1
shift
build=${MKV_BUILD_DIR:-$PWD}
: "${UCX_PLUGIN_PATH=$build/.libs}"
hip=$build/test/fake/hip/lib
if [ -e "$hip/libamdhip64.so.6" ] && [ -z "${MKV_TEST_REAL_HIP:-}" ]; then
    LD_LIBRARY_PATH=$hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi
export UCX_PLUGIN_PATH
exec "${MKV_CONFORMANCE:-$build/test/conformance/uct_conformance}" -t "$tl" "$@"
