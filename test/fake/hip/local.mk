# libhipcpu: the HIP runtime on the CPU.
noinst_LTLIBRARIES += test/fake/hip/libhipcpu.la
test_fake_hip_libhipcpu_la_SOURCES = \
	test/fake/hip/hipcpu.h test/fake/hip/hipcpu_abi.h test/fake/hip/hipcpu_impl.h \
	test/fake/hip/hipcpu_capture.c test/fake/hip/hipcpu_capture.h \
	test/fake/hip/hipcpu_copy.c test/fake/hip/hipcpu_core.c \
	test/fake/hip/hipcpu_count.c \
	test/fake/hip/hipcpu_device.c test/fake/hip/hipcpu_ipc.c \
	test/fake/hip/hipcpu_hwq.c test/fake/hip/hipcpu_kept.c \
	test/fake/hip/hipcpu_late.c test/fake/hip/hipcpu_line.c test/fake/hip/hipcpu_memory.c \
	test/fake/hip/hipcpu_module.c test/fake/hip/hipcpu_pool.c test/fake/hip/hipcpu_range.c \
	test/fake/hip/hipcpu_rules.c test/fake/hip/hipcpu_rules.h \
	test/fake/hip/hipcpu_stream.c test/fake/hip/hipcpu_vmm.c \
	test/fake/hip/hipcpu_watch.c test/fake/hip/hipcpu_watch.h
test_fake_hip_libhipcpu_la_CPPFLAGS = $(AM_CPPFLAGS)
test_fake_hip_libhipcpu_la_CFLAGS = $(AM_CFLAGS) -pthread
test_fake_hip_libhipcpu_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/fake/hip \
	-Wl,--version-script=$(srcdir)/test/fake/hip/hipcpu.map
test_fake_hip_libhipcpu_la_LIBADD = -lpthread
EXTRA_test_fake_hip_libhipcpu_la_DEPENDENCIES = test/fake/hip/hipcpu.map
EXTRA_DIST += test/fake/hip/hipcpu.map

# Under AMD's file name, for programs that were linked with it: add this folder to
# LD_LIBRARY_PATH.
BUILT_SOURCES += test/fake/hip/lib/libamdhip64.so.6
CLEANFILES += test/fake/hip/lib/libamdhip64.so.6
test/fake/hip/lib/libamdhip64.so.6:
	$(AM_V_at)$(MKDIR_P) test/fake/hip/lib
	$(AM_V_GEN)ln -sf ../.libs/libhipcpu.so $@

# Flags for programs that need the path of the runtime
hipcpu_path_cppflags = \
	-DHIPCPU_PATH='"$(abs_builddir)/test/fake/hip/lib/libamdhip64.so.6"'

if HAVE_CHECK
check_PROGRAMS += test/fake/hip/test_hipcpu test/fake/hip/test_hipcpu_rules
TESTS += test/fake/hip/test_hipcpu test/fake/hip/test_hipcpu_rules
test_fake_hip_test_hipcpu_SOURCES = test/fake/hip/test_hipcpu.c
test_fake_hip_test_hipcpu_CPPFLAGS = $(AM_CPPFLAGS)
test_fake_hip_test_hipcpu_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_fake_hip_test_hipcpu_LDADD = \
	test/fake/hip/libhipcpu.la libmuct_code.la $(CHECK_LIBS)

test_fake_hip_test_hipcpu_rules_SOURCES = test/fake/hip/test_hipcpu_rules.c
test_fake_hip_test_hipcpu_rules_CPPFLAGS = $(AM_CPPFLAGS)
test_fake_hip_test_hipcpu_rules_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_fake_hip_test_hipcpu_rules_LDADD = test/fake/hip/libhipcpu.la $(CHECK_LIBS)
endif
EXTRA_DIST += test/fake/hip/README.md
