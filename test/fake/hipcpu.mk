# libhipcpu: the HIP runtime on the CPU.
noinst_LTLIBRARIES += test/fake/libhipcpu.la
test_fake_libhipcpu_la_SOURCES = \
	test/fake/hipcpu.h test/fake/hipcpu_abi.h test/fake/hipcpu_impl.h \
	test/fake/hipcpu_core.c test/fake/hipcpu_device.c test/fake/hipcpu_range.c \
	test/fake/hipcpu_memory.c test/fake/hipcpu_ipc.c test/fake/hipcpu_line.c \
	test/fake/hipcpu_stream.c test/fake/hipcpu_copy.c test/fake/hipcpu_module.c
test_fake_libhipcpu_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
test_fake_libhipcpu_la_CFLAGS = $(AM_CFLAGS) -pthread
test_fake_libhipcpu_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/fake -Wl,--version-script=$(srcdir)/test/fake/hipcpu.map
test_fake_libhipcpu_la_LIBADD = -lpthread
EXTRA_test_fake_libhipcpu_la_DEPENDENCIES = test/fake/hipcpu.map
EXTRA_DIST += test/fake/hipcpu.map

# Under AMD's file name, for programs that were linked with it: add this folder to
# LD_LIBRARY_PATH.
BUILT_SOURCES += test/fake/hipcpu/libamdhip64.so.6
CLEANFILES += test/fake/hipcpu/libamdhip64.so.6
test/fake/hipcpu/libamdhip64.so.6:
	$(AM_V_at)$(MKDIR_P) test/fake/hipcpu
	$(AM_V_GEN)ln -sf ../.libs/libhipcpu.so $@
