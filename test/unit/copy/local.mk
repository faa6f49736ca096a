# Unit tests: mori_copy.
copy_unit_programs = \
	test/unit/copy/test_copy_md \
	test/unit/copy/test_copy_queue
check_PROGRAMS += $(copy_unit_programs)
TESTS += $(copy_unit_programs)

test_unit_copy_test_copy_md_SOURCES = test/unit/copy/test_copy_md.c
test_unit_copy_test_copy_md_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_copy_test_copy_md_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_copy_test_copy_md_LDFLAGS = $(muct_ldflags)
test_unit_copy_test_copy_md_LDADD = test/support/libfakehip.la libmuct.la $(CHECK_LIBS)

test_unit_copy_test_copy_queue_SOURCES = test/unit/copy/test_copy_queue.c
test_unit_copy_test_copy_queue_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(hipcpu_path_cppflags)
test_unit_copy_test_copy_queue_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_copy_test_copy_queue_LDFLAGS = $(muct_ldflags)
test_unit_copy_test_copy_queue_LDADD = test/support/libfakehip.la libmuct.la $(CHECK_LIBS) -lpthread
