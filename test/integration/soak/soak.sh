#!/bin/sh
# Six processes that transfer, abort, sleep, are stopped, killed and restarted, over one
# transport after the other, and a control that must be red.
#
# SOAK_SECONDS is the time for each (10, which makes 40 s; `contrib/test soak`
# takes 200), SOAK_TLS chooses some of "tcp mori_xgmi mori_rdma control", SOAK_SEED repeats the
# actions. MKV_TEST_FEWER is 6 seconds, without mori_rdma.
# AB-01, CC-04, TS-06, TS-12
set -u
build=${MKV_BUILD_DIR:-$PWD}
seconds=${SOAK_SECONDS:-${MKV_TEST_FEWER:+6}}
seconds=${seconds:-10}
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../../support/environment.sh"
[ "$seconds" -ge 10 ] && tls="tcp mori_xgmi mori_rdma control" || tls="tcp mori_xgmi control"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
TMPDIR=$dir
# UCX prints its stack where it ends a process
UCX_HANDLE_ERRORS=bt
export TMPDIR UCX_HANDLE_ERRORS
# mkv_close() leaves a worker that was connecting to a dead peer to UCX. UCX refers to its
# memory from pages that LeakSanitizer does not read; the gardener checks whether sides grow.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
export ASAN_OPTIONS
failed=0

soak() { # WANT NAME MEMORY ARG...
    want=$1 name=$2
    MKV_TEST_MEM=$3
    export MKV_TEST_MEM
    case " ${SOAK_TLS:-$tls} " in
    *" $name "*) ;;
    *) return ;;
    esac
    shift 3
    "$build/test/integration/soak/soak" "$@" >"$dir/out" 2>&1
    status=$?
    cat "$dir/out"
    if [ "$status" = "$want" ]; then
        echo "PASS: soak $name"
    else
        echo "FAIL: soak $name: exit status $status, expected $want"
        failed=1
    fi
}

# UCX ends processes whose peers are killed where it emulates puts
UCX_TLS=tcp
export UCX_TLS
soak 0 tcp host "$seconds" --no-kill
soak 1 control host 3 --no-kill --early

LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
UCX_PLUGIN_PATH=$build/.libs
export LD_LIBRARY_PATH UCX_PLUGIN_PATH
if [ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ]; then
    # A put to a handle that no longer opens goes by mori_copy; without mori_copy UCX has no
    # protocol for it, logs that again and again, and does not end it. By default mappings of
    # memory that peers have freed stay, and here they count as memory of a process.
    UCX_TLS=mori_xgmi,mori_copy,tcp UCX_MORI_XGMI_MAX_IDLE_SIZE=64m
    export UCX_MORI_XGMI_MAX_IDLE_SIZE
    soak 0 mori_xgmi gpu "$seconds"
else
    echo "SKIP: soak mori_xgmi: no HIP runtime on the CPU in this build"
fi
if [ -e "$build/test/fake/verbs/.libs" ]; then
    UCX_TLS=mori_rdma,tcp UCX_NET_DEVICES=fake0:1,fake1:1,lo
    FAKE_VERBS_WIRE=$dir/wire UCX_MORI_RDMA_RECOVERY_TIMEOUT=300ms
    export UCX_NET_DEVICES FAKE_VERBS_WIRE UCX_MORI_RDMA_RECOVERY_TIMEOUT
    # UCX ends processes now and then that close what is being connected (docs/morikv.md, "What
    # UCX decides"), which the gardener counts apart: kills only where a run takes long
    [ "$seconds" -gt 60 ] && kill='' || kill=--no-kill
    # shellcheck disable=SC2086
    soak 0 mori_rdma host "$seconds" $kill
else
    echo "SKIP: soak mori_rdma: this build has no verbs"
fi
exit $failed
