# Unit tests: xgmi.
check_PROGRAMS += test/unit/test_xgmi_key
TESTS += test/unit/test_xgmi_key
test_unit_test_xgmi_key_SOURCES = test/unit/test_xgmi_key.c
test_unit_test_xgmi_key_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_xgmi_key_LDADD = libmuct.la $(CHECK_LIBS)

check_PROGRAMS += test/unit/test_xgmi_map
TESTS += test/unit/test_xgmi_map
test_unit_test_xgmi_map_SOURCES = test/unit/test_xgmi_map.c \
	test/unit/xgmi_owner.c test/unit/xgmi_owner.h
test_unit_test_xgmi_map_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(hipcpu_path_cppflags)
test_unit_test_xgmi_map_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_xgmi_map_LDADD = libmuct.la $(CHECK_LIBS)

# What a block costs the host; a benchmark, run by hand (see docs/xgmi.md).
check_PROGRAMS += test/unit/xgmi_cost
test_unit_xgmi_cost_SOURCES = test/unit/xgmi_cost.c
test_unit_xgmi_cost_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_cost_LDADD = libmuct.la

check_PROGRAMS += test/unit/test_xgmi_queue
TESTS += test/unit/test_xgmi_queue
test_unit_test_xgmi_queue_SOURCES = test/unit/test_xgmi_queue.c \
	test/unit/xgmi_owner.c test/unit/xgmi_owner.h
test_unit_test_xgmi_queue_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(hipcpu_path_cppflags)
test_unit_test_xgmi_queue_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_xgmi_queue_LDADD = libmuct.la $(CHECK_LIBS)
