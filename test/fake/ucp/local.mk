# A UCP that the test holds in its hands; a program that links it has no other.
if HAVE_CHECK
check_LTLIBRARIES += test/fake/ucp/libfakeucp.la
test_fake_ucp_libfakeucp_la_SOURCES = test/fake/ucp/fake_ucp.h test/fake/ucp/fake_ucp.c
test_fake_ucp_libfakeucp_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
endif
EXTRA_DIST += test/fake/ucp/README.md
