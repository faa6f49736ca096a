# The fake libibverbs, in a folder of its own: a library path to it replaces verbs alone.
check_LTLIBRARIES += test/fake/verbs/libibverbs.la
test_fake_verbs_libibverbs_la_SOURCES = \
	test/fake/verbs/fake_verbs.h \
	test/fake/verbs/fv.h \
	test/fake/verbs/fv_cq.c \
	test/fake/verbs/fv_device.c \
	test/fake/verbs/fv_fault.c \
	test/fake/verbs/fv_gpu.c \
	test/fake/verbs/fv_mr.c \
	test/fake/verbs/fv_post.c \
	test/fake/verbs/fv_profile.c \
	test/fake/verbs/fv_qp.c \
	test/fake/verbs/fv_respond.c \
	test/fake/verbs/fv_run.c \
	test/fake/verbs/fv_text.c \
	test/fake/verbs/fv_wire.c
test_fake_verbs_libibverbs_la_CPPFLAGS = $(AM_CPPFLAGS) $(VERBS_CFLAGS)
# the map decides what is seen
test_fake_verbs_libibverbs_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
# -rpath makes a shared library of what is not installed
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
