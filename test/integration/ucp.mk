# An unmodified UCX over the module: a small application, and the tests that run it.
check_PROGRAMS += test/integration/ucp_app
test_integration_ucp_app_SOURCES = \
	test/integration/ucp_app.h test/integration/ucp_app.c \
	test/integration/ucp_app_client.c test/integration/ucp_app_large.c
test_integration_ucp_app_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_integration_ucp_app_LDADD = test/support/libmkvtest.la $(UCX_LIBS) -lucs

# Says that it is a newer UCX; preloaded by it_module.
check_LTLIBRARIES += test/integration/libucp_next.la
test_integration_libucp_next_la_SOURCES = test/integration/ucp_next.c
test_integration_libucp_next_la_LDFLAGS = \
	-module -avoid-version -shared -rpath $(abs_builddir)/test/integration

it_ucp_tests = \
	test/integration/it_module test/integration/it_select test/integration/it_fault
check_PROGRAMS += $(it_ucp_tests)
TESTS += $(it_ucp_tests)
it_run_sources = test/integration/it_run.h test/integration/it_run.c
it_libs = test/support/libmkvtest.la $(CHECK_LIBS) -ldl
it_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) -D_GNU_SOURCE

test_integration_it_module_SOURCES = test/integration/it_module.c $(it_run_sources)
test_integration_it_module_CPPFLAGS = $(it_cppflags)
test_integration_it_module_LDADD = $(it_libs)

test_integration_it_select_SOURCES = test/integration/it_select.c $(it_run_sources)
test_integration_it_select_CPPFLAGS = $(it_cppflags)
test_integration_it_select_LDADD = $(it_libs)

test_integration_it_fault_SOURCES = test/integration/it_fault.c $(it_run_sources)
test_integration_it_fault_CPPFLAGS = $(it_cppflags)
test_integration_it_fault_LDADD = $(it_libs)

# The proof for owners of GPUs, on the runtime of the tests.
dist_check_SCRIPTS += test/integration/prove_amd.sh
TESTS += test/integration/prove_amd.sh
