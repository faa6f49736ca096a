# The soft-RoCE laboratory: scripts only, run by contrib/test vm.
EXTRA_DIST += \
	test/vm/README.md \
	test/vm/guest.sh \
	test/vm/hosts.sh \
	test/vm/init \
	test/vm/jobs/conformance.sh \
	test/vm/jobs/laboratory.sh \
	test/vm/jobs/mori_calls.sh \
	test/vm/jobs/rdma_acks.sh \
	test/vm/jobs/rdma_bandwidth.sh \
	test/vm/jobs/rdma_faults.sh \
	test/vm/jobs/rdma_kv.sh \
	test/vm/jobs/rdma_latency.sh \
	test/vm/jobs/rdma_memlock.sh \
	test/vm/jobs/rdma_plain.sh \
	test/vm/jobs/rdma_recovery.sh \
	test/vm/jobs/rdma_ucx.sh \
	test/vm/jobs/two_hosts.sh \
	test/vm/jobs/verbs_contract.sh \
	test/vm/modules \
	test/vm/rdma.sh \
	test/vm/run \
	test/vm/run-jobs \
	test/vm/serve.sh \
	test/vm/setup \
	test/vm/tsc_khz.c
