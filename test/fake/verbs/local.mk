# The fake libibverbs, in a folder of its own: a library path to it replaces verbs alone.
check_LTLIBRARIES += test/fake/verbs/libibverbs.la
test_fake_verbs_libibverbs_la_SOURCES = \
	test/fake/verbs/fake_verbs.h \
	test/fake/verbs/fv.h \
	test/fake/verbs/fv_cq.c \
	test/fake/verbs/fv_datagram.c \
	test/fake/verbs/fv_device.c \
	test/fake/verbs/fv_ece.c \
	test/fake/verbs/fv_fault.c \
	test/fake/verbs/fv_gpu.c \
	test/fake/verbs/fv_mr.c \
	test/fake/verbs/fv_pages.c \
	test/fake/verbs/fv_post.c \
	test/fake/verbs/fv_profile.c \
	test/fake/verbs/fv_qp.c \
	test/fake/verbs/fv_recv.c \
	test/fake/verbs/fv_respond.c \
	test/fake/verbs/fv_run.c \
	test/fake/verbs/fv_srq.c \
	test/fake/verbs/fv_text.c \
	test/fake/verbs/fv_wire.c
test_fake_verbs_libibverbs_la_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CFLAGS)
# the map decides which symbols are exported
test_fake_verbs_libibverbs_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
# without -rpath libtool builds no shared library for a target that is not installed
test_fake_verbs_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -rpath /nowhere -version-info 1:0:0 \
	-Wl,--version-script=$(top_srcdir)/test/fake/verbs/verbs.map
test_fake_verbs_libibverbs_la_LIBADD = -lpthread
EXTRA_test_fake_verbs_libibverbs_la_DEPENDENCIES = test/fake/verbs/verbs.map
EXTRA_DIST += test/fake/verbs/verbs.map

check_PROGRAMS += test/fake/verbs/verbs_ctl
test_fake_verbs_verbs_ctl_SOURCES = test/fake/verbs/verbs_ctl.c
test_fake_verbs_verbs_ctl_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CFLAGS)
# the program itself, not a script before it, which would run under a test's preloads
test_fake_verbs_verbs_ctl_LDFLAGS = $(AM_LDFLAGS) -no-install
test_fake_verbs_verbs_ctl_LDADD = test/fake/verbs/libibverbs.la

if HAVE_CHECK
verbs_test_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
verbs_test_ldadd = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS)
verbs_pair_sources = test/fake/verbs/verbs_pair.h test/fake/verbs/verbs_pair.c

# Behaviour of verbs that mori_rdma relies on: one source, linked to the fake and to the real
# library. The real one needs devices: a job of the laboratory runs it.
verbs_contract_sources = $(verbs_pair_sources) \
	test/fake/verbs/test_verbs_contract.c \
	test/fake/verbs/test_verbs_datagram.c \
	test/fake/verbs/test_verbs_error.c \
	test/fake/verbs/test_verbs_srq.c

check_PROGRAMS += test/fake/verbs/test_verbs_contract
test_fake_verbs_test_verbs_contract_SOURCES = $(verbs_contract_sources)
test_fake_verbs_test_verbs_contract_CPPFLAGS = $(verbs_test_cppflags)
test_fake_verbs_test_verbs_contract_LDADD = \
	test/support/libmkvtest.la $(VERBS_LIBS) $(CHECK_LIBS)

verbs_tests = \
	test/fake/verbs/test_verbs_contract_fake \
	test/fake/verbs/test_verbs_fake \
	test/fake/verbs/test_verbs_measured \
	test/fake/verbs/test_verbs_wire
check_PROGRAMS += $(verbs_tests)
TESTS += $(verbs_tests)

test_fake_verbs_test_verbs_contract_fake_SOURCES = $(verbs_contract_sources)
test_fake_verbs_test_verbs_contract_fake_CPPFLAGS = $(verbs_test_cppflags)
test_fake_verbs_test_verbs_contract_fake_LDADD = $(verbs_test_ldadd)

test_fake_verbs_test_verbs_fake_SOURCES = \
	$(verbs_pair_sources) test/fake/verbs/test_verbs_fake.c
test_fake_verbs_test_verbs_fake_CPPFLAGS = $(verbs_test_cppflags)
test_fake_verbs_test_verbs_fake_LDADD = $(verbs_test_ldadd)

test_fake_verbs_test_verbs_measured_SOURCES = \
	$(verbs_pair_sources) test/fake/verbs/test_verbs_measured.c
test_fake_verbs_test_verbs_measured_CPPFLAGS = $(verbs_test_cppflags)
test_fake_verbs_test_verbs_measured_LDADD = $(verbs_test_ldadd)

test_fake_verbs_test_verbs_wire_SOURCES = \
	$(verbs_pair_sources) test/fake/verbs/test_verbs_wire.c
test_fake_verbs_test_verbs_wire_CPPFLAGS = $(verbs_test_cppflags)
test_fake_verbs_test_verbs_wire_LDADD = $(verbs_test_ldadd)
endif
EXTRA_DIST += test/fake/verbs/README.md
