#!/bin/sh
# Our lane inside a node, on GPU memory of the HIP runtime on the CPU: a process for
# each case; all cases over one connection; queues so short that they fill, and without
# messages, as cases fill with these where they can; copies by the copy engines alone;
# each piece of work so slow that much is in flight. With the rules of three releases of
# the runtime, once with all that the release does (docs/dev/hipcpu.md). GPU memory alone
# first, then host memory that the peer shares, host memory that the runtime does not pin, and
# private host memory.
# XM-01
set -eu
here=$(dirname "$0")
run() {
    sh "$here/run.sh" mori_xgmi "$@"
}
gpu() {
    run -v /rocm "$@"
}
gpu ${MKV_TEST_FEWER:+-1} "$@" # fewer: all over one connection, as below
HIPCPU_VERSION=7.0 HIPCPU_RULES=amd HSA_ENABLE_IPC_MODE_LEGACY=0 gpu -1 "$@"
HIPCPU_VERSION=5.7 HIPCPU_RULES=amd UCX_MORI_XGMI_LIST_SIZE=32 UCX_MORI_XGMI_SEGS=2 \
    UCX_MORI_XGMI_MESSAGES=n gpu -1 "$@"
HIPCPU_VERSION=7.3 HIPCPU_RULES=amd UCX_MORI_XGMI_KERNEL=n gpu -1 "$@"
HIPCPU_DELAY=300 gpu -1 "$@"
export UCX_TLS=mori_xgmi,mori_copy,tcp # beside cma it leaves host memory alone
run -1 -v peer/rocm-host "$@"
HIPCPU_FAIL=hipHostRegister:0:1 run -1 -v peer "$@"
MKV_TEST_PRIVATE=1 run -1 -v peer/rocm-host "$@"
MKV_TEST_PRIVATE=1 run -1 -v peer "$@"
[ -z "${MKV_TEST_NIGHTLY:-}" ] || run -1 -v peer "$@"
