# A UCP that the test controls; a program that links it has no other.
if HAVE_CHECK
check_LTLIBRARIES += test/fake/ucp/libfakeucp.la
test_fake_ucp_libfakeucp_la_SOURCES = test/fake/ucp/fake_ucp.h test/fake/ucp/fake_ucp.c
test_fake_ucp_libfakeucp_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

check_PROGRAMS += test/fake/ucp/test_fake_ucp
TESTS += test/fake/ucp/test_fake_ucp
test_fake_ucp_test_fake_ucp_SOURCES = test/fake/ucp/test_fake_ucp.c
test_fake_ucp_test_fake_ucp_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
test_fake_ucp_test_fake_ucp_LDADD = \
	test/fake/ucp/libfakeucp.la $(CHECK_LIBS) $(UCX_LIBS)
endif
EXTRA_DIST += test/fake/ucp/README.md
