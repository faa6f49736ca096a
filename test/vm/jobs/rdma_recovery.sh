# RC-01, RC-05
# shellcheck shell=bash
# limit: 600
# Connections made anew on a kernel RDMA stack: acknowledgements dropped for 1 s, the link down
# for 3 s, an address that moves in its device's table, one of two rails lost, while operations
# are on their way; the same operations end well, every byte right.
. "$VM_TREE/test/vm/rdma.sh"
export MKV_RDMA_LAB=rxe MKV_TEST_REQUIRE=rdma MKV_BUILD_DIR=$MKV_BUILD CK_RUN_CASE=recovery
"$(vm_program "$MKV_BUILD/test/integration/ucp/it_rdma")"
