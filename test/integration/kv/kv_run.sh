#!/bin/sh
# Run the libmorikv tests of two processes, in the build folder:
#   test/integration/kv/kv_run.sh UCX_TLS host|gpu|mixed
# MKV_KV_PROGRAMS chooses programs. The module and the HIP runtime are found as in the
# conformance suite.
set -u
UCX_TLS=$1
MKV_TEST_MEM=$2
build=${MKV_BUILD_DIR:-$PWD}
export UCX_TLS MKV_TEST_MEM
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../../support/environment.sh"
if [ "$MKV_TEST_MEM" != host ]; then
    : "${UCX_PLUGIN_PATH=$build/.libs}"
    hip=$build/test/fake/hip/lib
    if [ -e "$hip/libamdhip64.so.6" ] && [ -z "${MKV_TEST_REAL_HIP:-}" ]; then
        LD_LIBRARY_PATH=$hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        export LD_LIBRARY_PATH
    fi
    export UCX_PLUGIN_PATH
fi

result=77
for program in ${MKV_KV_PROGRAMS:-kv_basic kv_more kv_ops kv_ranks kv_sleep kv_fault}; do
    "$build/test/integration/kv/$program"
    status=$?
    echo "$program over $UCX_TLS, $MKV_TEST_MEM memory: exit status $status"
    case $status in
    0) [ $result != 77 ] || result=0 ;;
    77) ;;
    *) result=1 ;;
    esac
done
exit $result
