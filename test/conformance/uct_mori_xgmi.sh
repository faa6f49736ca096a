#!/bin/sh
# Our lane inside a node, on GPU memory of the HIP runtime on the CPU: a process for
# each case; all cases over one connection; queues so short that they fill, and without
# messages, as cases fill with these where they can; copies by the copy engines alone;
# each piece of work so slow that much is in flight. With the rules of three releases of
# the runtime, once with all that the release does (docs/dev/hipcpu.md).
# XM-01
set -eu
here=$(dirname "$0")
run() {
    sh "$here/run.sh" mori_xgmi "$@"
}
run ${MKV_TEST_FEWER:+-1} "$@" # fewer: all over one connection, as below
HIPCPU_VERSION=7.0 HIPCPU_RULES=amd HSA_ENABLE_IPC_MODE_LEGACY=0 run -1 "$@"
HIPCPU_VERSION=5.7 HIPCPU_RULES=amd UCX_MORI_XGMI_LIST_SIZE=32 UCX_MORI_XGMI_SEGS=2 \
    UCX_MORI_XGMI_MESSAGES=n run -1 "$@"
HIPCPU_VERSION=7.3 HIPCPU_RULES=amd UCX_MORI_XGMI_KERNEL=n run -1 "$@"
HIPCPU_DELAY=300 run -1 "$@"
