# Unit tests: rdma. Tests over the fake libibverbs are in verbs.mk.
rdma_unit_tests = \
	test/unit/test_rdma_limits \
	test/unit/test_rdma_sq \
	test/unit/test_rdma_wire
check_PROGRAMS += $(rdma_unit_tests)
TESTS += $(rdma_unit_tests)
test_unit_test_rdma_limits_SOURCES = test/unit/test_rdma_limits.c
test_unit_test_rdma_limits_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_rdma_limits_LDADD = libmuct.la $(CHECK_LIBS)
test_unit_test_rdma_sq_SOURCES = test/unit/test_rdma_sq.c
test_unit_test_rdma_sq_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_rdma_sq_LDADD = libmuct.la $(CHECK_LIBS)
test_unit_test_rdma_wire_SOURCES = test/unit/test_rdma_wire.c
test_unit_test_rdma_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_rdma_wire_LDADD = libmuct.la $(CHECK_LIBS)

# The conformance suite on every kind of device of the fake.
dist_check_SCRIPTS += test/unit/rdma_conformance.sh
TESTS += test/unit/rdma_conformance.sh
