# shellcheck shell=bash
# limit: 300
# UCT's conformance cases on mori_rdma over soft-RoCE, each process at its own end of the
# pair: what needs a kernel, and a sample of the rest, which the fake shows in full.
# soft-RoCE takes a retry count of 7 as "for ever" and would never tell of a death.
export MKV_BUILD_DIR=$MKV_BUILD MKV_TEST_REQUIRE=mori_rdma,peer
export LD_LIBRARY_PATH=$MKV_BUILD/.libs UCX_LOG_LEVEL=fatal
export UCX_MORI_RDMA_RETRY_COUNT=6
for part in death zcopy_needs am_bcopy; do
    sh "$VM_TREE/test/conformance/run.sh" mori_rdma -d rxe0:1 -D rxe1:1 -v peer -1 -r $part || exit
done
