# Unit tests of the tests' own support.
support_unit_programs = test/unit/support/test_mkv_nowait test/unit/support/test_mkv_port
check_PROGRAMS += $(support_unit_programs)
TESTS += $(support_unit_programs)

test_unit_support_test_mkv_nowait_SOURCES = test/unit/support/test_mkv_nowait.c
test_unit_support_test_mkv_nowait_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
test_unit_support_test_mkv_nowait_LDADD = test/support/libmkvtest.la $(CHECK_LIBS) -lpthread

test_unit_support_test_mkv_port_SOURCES = test/unit/support/test_mkv_port.c
test_unit_support_test_mkv_port_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
test_unit_support_test_mkv_port_LDADD = test/support/libmkvtest.la $(CHECK_LIBS)
