# What mori_rdma relies on in verbs: one source, linked to the fake and to the real library.
verbs_contract_sources = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c \
	test/unit/verbs_contract.c test/unit/verbs_contract_error.c

check_PROGRAMS += test/unit/verbs_contract_fake test/unit/verbs_contract
test_unit_verbs_contract_fake_SOURCES = $(verbs_contract_sources)
test_unit_verbs_contract_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_contract_fake_LDADD = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS)

test_unit_verbs_contract_SOURCES = $(verbs_contract_sources)
test_unit_verbs_contract_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_contract_LDADD = \
	test/support/libmkvtest.la $(VERBS_LIBS) $(CHECK_LIBS)

check_PROGRAMS += test/unit/verbs_fake
test_unit_verbs_fake_SOURCES = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c test/unit/verbs_fake.c
test_unit_verbs_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_fake_LDADD = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS)

check_PROGRAMS += test/unit/verbs_wire
test_unit_verbs_wire_SOURCES = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c test/unit/verbs_wire.c
test_unit_verbs_wire_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_wire_LDADD = $(test_unit_verbs_fake_LDADD)

# The real one wants devices: a job of the laboratory runs it.
TESTS += test/unit/verbs_contract_fake test/unit/verbs_fake test/unit/verbs_wire
EXTRA_DIST += \
	test/vm/jobs/rdma_bandwidth.sh \
	test/vm/jobs/rdma_faults.sh \
	test/vm/jobs/rdma_kv.sh \
	test/vm/jobs/rdma_ucx.sh \
	test/vm/jobs/verbs_contract.sh \
	test/vm/rdma.sh

# mori_rdma in a real UCX over two fake devices in one process.
rdma_rig_sources = \
	test/unit/rdma_rig.h test/unit/rdma_rig.c \
	test/conformance/ct_uct.h test/conformance/ct_side.h \
	test/conformance/ct_side.c test/conformance/ct_mem.c
rdma_rig_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
# the fake comes first, so that the module finds it already there
rdma_rig_ldadd = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

check_PROGRAMS += test/unit/rdma_faults test/unit/rdma_flow test/unit/rdma_gpus
test_unit_rdma_faults_SOURCES = $(rdma_rig_sources) test/unit/rdma_faults.c
test_unit_rdma_faults_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_faults_LDADD = $(rdma_rig_ldadd)
test_unit_rdma_flow_SOURCES = $(rdma_rig_sources) test/unit/rdma_flow.c
test_unit_rdma_flow_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_flow_LDADD = $(rdma_rig_ldadd)
test_unit_rdma_gpus_SOURCES = $(rdma_rig_sources) test/unit/rdma_gpus.c
test_unit_rdma_gpus_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_gpus_LDADD = $(rdma_rig_ldadd)
TESTS += test/unit/rdma_faults test/unit/rdma_flow test/unit/rdma_gpus

# Instructions a work request: perf/bench_rdma.sh runs it.
check_PROGRAMS += perf/bench_rdma
perf_bench_rdma_SOURCES = $(rdma_rig_sources) perf/bench_rdma.c
perf_bench_rdma_CPPFLAGS = $(rdma_rig_cppflags)
perf_bench_rdma_LDADD = $(rdma_rig_ldadd)
EXTRA_DIST += perf/bench_rdma.sh

# mori_rdma under UCP, on the fake here and on soft-RoCE in the laboratory.
check_PROGRAMS += test/integration/it_rdma
test_integration_it_rdma_SOURCES = \
	test/integration/it_rdma.c test/integration/it_run.h test/integration/it_run.c
test_integration_it_rdma_CPPFLAGS = $(it_cppflags)
test_integration_it_rdma_LDADD = $(it_libs)
TESTS += test/integration/it_rdma

dist_check_SCRIPTS += test/integration/kv_rdma.sh
TESTS += test/integration/kv_rdma.sh
