#!/bin/sh
# The lane within a process, between host and GPU memory of the HIP runtime on the CPU: a
# process for each case, and all cases over one connection, with segments so small that
# everything takes many of them, memory that is never pinned, and slow copies; once with all
# rules of AMD's runtimes. The processor must not touch device memory.
set -eu
here=$(dirname "$0")
run() {
    HIPCPU_GUARD=1 sh "$here/run.sh" mori_copy "$@"
}
run ${MKV_TEST_FEWER:+-1} "$@" # fewer: all over one connection, as below
HIPCPU_RULES=amd HIPCPU_VERSION=7.0 run -1 "$@"
HIPCPU_VERSION=5.7 UCX_MORI_COPY_SEG_SIZE=256 UCX_MORI_COPY_PIN=n run -1 "$@"
for part in zcopy flush_covers endpoint_may wakes; do
    HIPCPU_DELAY=300 run -1 -r "$part" "$@"
done
