# Common part of all test programs: skips, patterns, processes
check_LTLIBRARIES += test/support/libmkvtest.la
test_support_libmkvtest_la_SOURCES = \
	test/support/mkv_check.h \
	test/support/mkv_test.h test/support/mkv_test.c \
	test/support/mkv_nowait.h test/support/mkv_nowait.c \
	test/support/mkv_port.h test/support/mkv_port.c \
	test/support/mkv_proc.h test/support/mkv_proc.c \
	test/support/mkv_hip.h test/support/mkv_hip.c
test_support_libmkvtest_la_LIBADD = -ldl

# A port for scripts
check_PROGRAMS += test/support/keep_port
test_support_keep_port_SOURCES = test/support/keep_port.c
test_support_keep_port_LDADD = test/support/libmkvtest.la
EXTRA_DIST += test/support/environment.sh test/support/fake_node.sh test/support/machine.sh test/support/proof.sh
EXTRA_DIST += test/support/ports.py

# Ranks of two sides over any UCP; the programs that use it compile it.
mkv_ranks_sources = test/support/mkv_ranks.h test/support/mkv_ranks.c
EXTRA_DIST += $(mkv_ranks_sources)

# Two contexts of libmorikv over mori_rdma on the fake libibverbs, as above.
rdma_pair_sources = test/support/rdma_pair.h test/support/rdma_pair.c
EXTRA_DIST += $(rdma_pair_sources)

# The clock that mori_rdma waits by, which stands still; the programs that use it compile it.
rdma_clock_sources = test/support/rdma_clock.h test/support/rdma_clock.c
EXTRA_DIST += $(rdma_clock_sources)

if HAVE_CHECK
# Two contexts of libmorikv over the fake UCP.
check_LTLIBRARIES += test/support/libmkvpair.la
test_support_libmkvpair_la_SOURCES = test/support/mkv_pair.h test/support/mkv_pair.c
test_support_libmkvpair_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

# A side of a UCT connection, without the headers of the module under test
check_LTLIBRARIES += test/support/libctside.la
test_support_libctside_la_SOURCES = test/support/ct_uct.h \
	test/support/ct_side.h test/support/ct_side.c test/support/ct_addr.c test/support/ct_mem.c
test_support_libctside_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS)

# The tests' HIP runtime from within the process that uses it.
check_LTLIBRARIES += test/support/libfakehip.la
test_support_libfakehip_la_SOURCES = test/support/fake_hip.h test/support/fake_hip.c
test_support_libfakehip_la_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_support_libfakehip_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_support_libfakehip_la_LIBADD = -ldl -lpthread

# A process that owns GPU memory, for tests of mori_xgmi.
check_LTLIBRARIES += test/support/libxgmiowner.la
test_support_libxgmiowner_la_SOURCES = test/support/xgmi_owner.h test/support/xgmi_owner.c
test_support_libxgmiowner_la_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_support_libxgmiowner_la_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)

if HAVE_VERBS
# mori_rdma in a real UCX over two fake devices in one process.
check_LTLIBRARIES += test/support/librdmarig.la
test_support_librdmarig_la_SOURCES = test/support/rdma_rig.h test/support/rdma_rig.c \
	test/support/rdma_inside.h test/support/rdma_inside.c \
	test/support/rdma_log.h test/support/rdma_log.c
test_support_librdmarig_la_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)

rdma_rig_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
# the fake comes first, so that the module finds it already there
rdma_rig_ldadd = \
	test/support/librdmarig.la test/support/libctside.la \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm
endif
endif
