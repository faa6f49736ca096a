# RC-01, TR-13
# shellcheck shell=bash
# nightly
# limit: 1200
# mori_rdma under UCP on a kernel RDMA stack: rails, loss, links, peers that die or stop.
. "$VM_TREE/test/vm/rdma.sh"
export MKV_RDMA_LAB=rxe MKV_TEST_REQUIRE=rdma MKV_BUILD_DIR=$MKV_BUILD CK_RUN_CASE=rdma
"$(vm_program "$MKV_BUILD/test/integration/ucp/it_rdma")"
