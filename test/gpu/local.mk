# Parts of the GPU level: HIP on CUDA's driver, the packing and running scripts.
noinst_LTLIBRARIES += test/gpu/libhipshim.la
test_gpu_libhipshim_la_SOURCES = test/gpu/hipshim.c
test_gpu_libhipshim_la_CPPFLAGS = $(AM_CPPFLAGS)
test_gpu_libhipshim_la_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_libhipshim_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/gpu -Wl,--version-script=$(srcdir)/test/gpu/hipshim.map
test_gpu_libhipshim_la_LIBADD = -ldl -lpthread
EXTRA_DIST += test/gpu/hipshim.map
EXTRA_DIST += test/gpu/lib_gpus.sh test/gpu/pack.sh test/gpu/pack_nixl.sh test/gpu/pack_root.sh test/gpu/run test/gpu/run_gpu.sh \
	test/gpu/stages.sh
EXTRA_DIST += test/gpu/README.md
