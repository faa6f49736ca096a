# The UCT conformance suite: one program, run by transport name.
check_PROGRAMS += test/conformance/uct_conformance
test_conformance_uct_conformance_SOURCES = \
	test/conformance/ct_target.h test/conformance/ct_target.c \
	test/conformance/ct.h test/conformance/ct.c test/conformance/ct_op.c \
	test/conformance/case_query.c test/conformance/case_rma.c \
	test/conformance/case_limit.c test/conformance/case_list.c test/conformance/case_am.c \
	test/conformance/case_message.c \
	test/conformance/case_atomic.c test/conformance/case_flow.c \
	test/conformance/case_event.c \
	test/conformance/case_key.c test/conformance/case_fault.c \
	test/conformance/case_contract.c \
	test/conformance/ct_main.c
test_conformance_uct_conformance_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
test_conformance_uct_conformance_LDADD = \
	test/support/libctside.la test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS) -luct -lucs -lm

# UCX's own transports verify the suite: their claimed capabilities must pass too.
uct_conformance_tests = \
	test/conformance/uct_self.sh \
	test/conformance/uct_tcp.sh \
	test/conformance/uct_posix.sh \
	test/conformance/uct_sysv.sh \
	test/conformance/uct_cma.sh \
	test/conformance/uct_mori_copy.sh \
	test/conformance/uct_mori_xgmi.sh
dist_check_SCRIPTS += $(uct_conformance_tests)
EXTRA_DIST += test/conformance/run.sh test/conformance/README.md
TESTS += $(uct_conformance_tests)

if HAVE_VERBS
# mori_rdma on every kind of device of the fake libibverbs.
dist_check_SCRIPTS += test/conformance/uct_mori_rdma.sh
TESTS += test/conformance/uct_mori_rdma.sh
endif
