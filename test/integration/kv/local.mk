# libmorikv between two processes; kv_*.sh runs the programs over one transport each.
kv_programs = \
	test/integration/kv/kv_basic \
	test/integration/kv/kv_fault \
	test/integration/kv/kv_more \
	test/integration/kv/kv_ops \
	test/integration/kv/kv_ranks \
	test/integration/kv/kv_sleep
check_PROGRAMS += $(kv_programs)
kv_side_sources = test/integration/kv/kv_side.h test/integration/kv/kv_side.c
kv_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
kv_ldadd = libmorikv.la test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_integration_kv_kv_basic_SOURCES = test/integration/kv/kv_basic.c $(kv_side_sources)
test_integration_kv_kv_basic_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_basic_LDADD = $(kv_ldadd)

test_integration_kv_kv_fault_SOURCES = test/integration/kv/kv_fault.c $(kv_side_sources)
test_integration_kv_kv_fault_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_fault_LDADD = $(kv_ldadd) -lpthread

test_integration_kv_kv_more_SOURCES = test/integration/kv/kv_more.c $(kv_side_sources)
test_integration_kv_kv_more_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_more_LDADD = $(kv_ldadd)

test_integration_kv_kv_ops_SOURCES = test/integration/kv/kv_ops.c $(kv_side_sources)
test_integration_kv_kv_ops_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_ops_LDADD = $(kv_ldadd)

test_integration_kv_kv_ranks_SOURCES = test/integration/kv/kv_ranks.c \
	test/integration/kv/kv_side.h $(mkv_ranks_sources)
test_integration_kv_kv_ranks_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_ranks_LDADD = $(kv_ldadd)

test_integration_kv_kv_sleep_SOURCES = test/integration/kv/kv_sleep.c $(kv_side_sources)
test_integration_kv_kv_sleep_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_sleep_LDADD = $(kv_ldadd) -lpthread

# A side of a test with two processes, which test/vm/jobs/two_hosts.sh starts
check_PROGRAMS += test/integration/kv/kv_hosts
test_integration_kv_kv_hosts_SOURCES = test/integration/kv/kv_hosts.c $(kv_side_sources)
test_integration_kv_kv_hosts_CPPFLAGS = $(kv_cppflags)
test_integration_kv_kv_hosts_LDADD = perf/kv_perf/libkvperf.la $(kv_ldadd)

kv_scripts = \
	test/integration/kv/kv_example.sh \
	test/integration/kv/kv_host.sh \
	test/integration/kv/kv_latency.sh \
	test/integration/kv/kv_layouts.sh \
	test/integration/kv/kv_namespaces.sh \
	test/integration/kv/kv_shm.sh \
	test/integration/kv/kv_tcp.sh \
	test/integration/kv/kv_xgmi.sh
dist_check_SCRIPTS += $(kv_scripts) test/integration/kv/kv_run.sh
EXTRA_DIST += test/integration/kv/kv_device.sh
TESTS += $(kv_scripts)

if HAVE_VERBS
dist_check_SCRIPTS += test/integration/kv/kv_pinned.sh test/integration/kv/kv_rdma.sh test/integration/kv/kv_stage.sh
TESTS += test/integration/kv/kv_pinned.sh test/integration/kv/kv_rdma.sh test/integration/kv/kv_stage.sh

# it counts objects of the fake's device, so the fake is in the same process
check_PROGRAMS += test/integration/kv/kv_rejoin
test_integration_kv_kv_rejoin_SOURCES = test/integration/kv/kv_rejoin.c
test_integration_kv_kv_rejoin_CPPFLAGS = $(rdma_rig_cppflags)
test_integration_kv_kv_rejoin_LDADD = $(rdma_rig_ldadd) libmorikv.la
TESTS += test/integration/kv/kv_rejoin
endif
