# libmorikv between two processes; kv_*.sh runs the programs over one transport each.
kv_programs = \
	test/integration/kv_basic \
	test/integration/kv_more \
	test/integration/kv_fault

check_PROGRAMS += $(kv_programs)
kv_side_sources = test/integration/kv_side.h test/integration/kv_side.c
kv_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
kv_ldadd = libmorikv.la test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_integration_kv_basic_SOURCES = test/integration/kv_basic.c $(kv_side_sources)
test_integration_kv_basic_CPPFLAGS = $(kv_cppflags)
test_integration_kv_basic_LDADD = $(kv_ldadd)

test_integration_kv_more_SOURCES = test/integration/kv_more.c $(kv_side_sources)
test_integration_kv_more_CPPFLAGS = $(kv_cppflags)
test_integration_kv_more_LDADD = $(kv_ldadd)

test_integration_kv_fault_SOURCES = test/integration/kv_fault.c $(kv_side_sources)
test_integration_kv_fault_CPPFLAGS = $(kv_cppflags)
test_integration_kv_fault_LDADD = $(kv_ldadd)

kv_scripts = \
	test/integration/kv_tcp.sh \
	test/integration/kv_shm.sh \
	test/integration/kv_xgmi.sh \
	test/integration/kv_latency.sh
dist_check_SCRIPTS += $(kv_scripts) test/integration/kv_run.sh
TESTS += $(kv_scripts)

# The example of the documentation is a test like the others.
check_PROGRAMS += contrib/examples/kv_write
contrib_examples_kv_write_SOURCES = contrib/examples/kv_write.c
contrib_examples_kv_write_LDADD = libmorikv.la $(UCX_LIBS)
dist_check_SCRIPTS += test/integration/kv_example.sh
TESTS += test/integration/kv_example.sh
