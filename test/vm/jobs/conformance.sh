# shellcheck shell=bash
# limit: 420
# UCT's conformance cases over soft-RoCE, each process at its own end of the pair: all of them on
# mori_rdma, and on UCX's own rc_verbs where this UCX was built with it (Debian's is not).
export MKV_BUILD_DIR=$MKV_BUILD LD_LIBRARY_PATH=$MKV_BUILD/.libs UCX_LOG_LEVEL=fatal
export UCX_IB_GID_INDEX=1 UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_WARN_UNUSED_ENV_VARS=n
# a processor of the machine may stand still for longer than the default of half a second
export UCX_MORI_RDMA_TIMEOUT=1s UCX_MORI_RDMA_RETRY_COUNT=3

conformance() { # TRANSPORT
    MKV_TEST_REQUIRE=$1,peer sh "$VM_TREE/test/conformance/run.sh" "$1" \
        -d rxe0:1 -D rxe1:1 -v peer -1
}

conformance mori_rdma || exit
if ucx_info -d | grep -q 'Transport: rc_verbs'; then
    conformance rc_verbs || exit
else
    echo "rc_verbs: this UCX was built without it"
fi
