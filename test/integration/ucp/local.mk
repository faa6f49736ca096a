# An unmodified UCX over the module: a small application, and the tests that run it.
check_PROGRAMS += test/integration/ucp/ucp_app
test_integration_ucp_ucp_app_SOURCES = \
	test/integration/ucp/ucp_app.h test/integration/ucp/ucp_app.c \
	test/integration/ucp/ucp_app_client.c test/integration/ucp/ucp_app_large.c
test_integration_ucp_ucp_app_CPPFLAGS = $(AM_CPPFLAGS)
test_integration_ucp_ucp_app_LDADD = test/support/libmkvtest.la $(UCX_LIBS) -lucs

# Reports the version of a newer UCX; it_module preloads it.
check_LTLIBRARIES += test/integration/ucp/libucp_next.la
test_integration_ucp_libucp_next_la_SOURCES = test/integration/ucp/ucp_next.c
test_integration_ucp_libucp_next_la_LDFLAGS = $(it_module_ldflags)
test_integration_ucp_libucp_next_la_LIBADD = -L$(UCX_LIBDIR) -lucs
it_module_ldflags = \
	-module -avoid-version -shared -rpath $(abs_builddir)/test/integration/ucp

# A core with a reference that no UCX defines.
check_LTLIBRARIES += test/integration/ucp/core_odd.la
test_integration_ucp_core_odd_la_SOURCES = test/integration/ucp/core_odd.c
test_integration_ucp_core_odd_la_LDFLAGS = $(it_module_ldflags)

it_programs = \
	test/integration/ucp/it_consumer \
	test/integration/ucp/it_direct \
	test/integration/ucp/it_fault \
	test/integration/ucp/it_gone \
	test/integration/ucp/it_lists \
	test/integration/ucp/it_module \
	test/integration/ucp/it_rest \
	test/integration/ucp/it_select
check_PROGRAMS += $(it_programs)
TESTS += $(it_programs)
it_run_sources = test/integration/ucp/it_run.h test/integration/ucp/it_run.c
it_libs = test/support/libmkvtest.la $(CHECK_LIBS) -ldl
it_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

test_integration_ucp_it_module_SOURCES = test/integration/ucp/it_module.c $(it_run_sources)
test_integration_ucp_it_module_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_module_LDADD = $(it_libs)

test_integration_ucp_it_select_SOURCES = test/integration/ucp/it_select.c $(it_run_sources)
test_integration_ucp_it_select_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_select_LDADD = $(it_libs)

test_integration_ucp_it_fault_SOURCES = test/integration/ucp/it_fault.c $(it_run_sources)
test_integration_ucp_it_fault_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_fault_LDADD = $(it_libs)

# Clients that die while they connect, and messages of UCX's own programs.
check_PROGRAMS += test/integration/ucp/ucp_gone
test_integration_ucp_ucp_gone_SOURCES = test/integration/ucp/ucp_gone.c
test_integration_ucp_ucp_gone_CPPFLAGS = $(AM_CPPFLAGS)
test_integration_ucp_ucp_gone_LDADD = test/support/libmkvtest.la $(UCX_LIBS) -lucs
test_integration_ucp_it_gone_SOURCES = test/integration/ucp/it_gone.c $(it_run_sources)
test_integration_ucp_it_gone_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_gone_LDADD = $(it_libs)

# A worker that sleeps while its peers end in every order
check_PROGRAMS += test/integration/ucp/ucp_rest
test_integration_ucp_ucp_rest_SOURCES = test/integration/ucp/ucp_rest.c
test_integration_ucp_ucp_rest_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_integration_ucp_ucp_rest_LDADD = test/support/libmkvtest.la $(UCX_LIBS) -lucs
test_integration_ucp_it_rest_SOURCES = test/integration/ucp/it_rest.c $(it_run_sources)
test_integration_ucp_it_rest_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_rest_LDADD = $(it_libs)

# Copies through the host's memory, by counts
test_integration_ucp_it_direct_SOURCES = test/integration/ucp/it_direct.c $(it_run_sources)
test_integration_ucp_it_direct_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_direct_LDADD = $(it_libs)

it_kernel_ldadd = perf/gpu/libgpuruntime.la libmuct_code.la $(it_libs) $(UCX_LIBS) -lucs -ldl

# Data that a kernel on the receiving GPU reads after the notification of its arrival
test_integration_ucp_it_consumer_SOURCES = test/integration/ucp/it_consumer.c $(it_run_sources)
test_integration_ucp_it_consumer_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_consumer_LDADD = $(it_kernel_ldadd)

# Lists in flight by the hundred, in regions by the hundred.
test_integration_ucp_it_lists_SOURCES = test/integration/ucp/it_lists.c $(it_run_sources)
test_integration_ucp_it_lists_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_lists_LDADD = $(it_kernel_ldadd)

# mori_rdma under UCP, on the fake here and on soft-RoCE in the laboratory.
if HAVE_VERBS
check_PROGRAMS += test/integration/ucp/it_rdma
TESTS += test/integration/ucp/it_rdma
test_integration_ucp_it_rdma_SOURCES = test/integration/ucp/it_rdma.c $(it_run_sources)
test_integration_ucp_it_rdma_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_rdma_LDADD = $(it_libs)
endif

# Every API of UCP on memory of every type, where mori_copy packs and stages.
check_PROGRAMS += test/integration/ucp/ucp_copy test/integration/ucp/it_copy
TESTS += test/integration/ucp/it_copy
test_integration_ucp_ucp_copy_SOURCES = test/integration/ucp/ucp_copy.c
test_integration_ucp_ucp_copy_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_integration_ucp_ucp_copy_LDADD = test/support/libmkvtest.la $(UCX_LIBS) -lucs
test_integration_ucp_it_copy_SOURCES = test/integration/ucp/it_copy.c $(it_run_sources)
test_integration_ucp_it_copy_CPPFLAGS = $(it_cppflags)
test_integration_ucp_it_copy_LDADD = $(it_libs)
