# Parts of the GPU level: HIP on CUDA's driver, the packing and running scripts.
noinst_LTLIBRARIES += test/gpu/libhipshim.la
test_gpu_libhipshim_la_SOURCES = test/gpu/hipshim.c
test_gpu_libhipshim_la_CPPFLAGS = $(AM_CPPFLAGS)
test_gpu_libhipshim_la_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_libhipshim_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/gpu -Wl,--version-script=$(srcdir)/test/gpu/hipshim.map
test_gpu_libhipshim_la_LIBADD = -ldl -lpthread
EXTRA_DIST += test/gpu/hipshim.map
EXTRA_DIST += test/gpu/pack.sh test/gpu/pack_root.sh test/gpu/run test/gpu/run_gpu.sh \
	test/gpu/stages.sh
EXTRA_DIST += test/gpu/README.md

# Known behaviour of AMD's runtimes, checked for contrib/prove-amd
check_PROGRAMS += test/gpu/gpu_risks
test_gpu_gpu_risks_SOURCES = test/gpu/gpu_risks.c test/gpu/gpu_risks.h \
	test/gpu/gpu_risks_chunks.c test/gpu/gpu_risks_peers.c test/gpu/gpu_risks_watch.c test/gpu/risks_kernel.h
test_gpu_gpu_risks_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE \
	-DRISKS_KERNEL_FILE='"$(abs_builddir)/test/gpu/risks_kernel.bundle"'
test_gpu_gpu_risks_CFLAGS = $(AM_CFLAGS) -pthread
test_gpu_gpu_risks_LDFLAGS = $(muct_ldflags)
test_gpu_gpu_risks_LDADD = libmuct.la -ldl -lpthread
EXTRA_DIST += test/gpu/risks_kernel.hip
if HAVE_HIPCC
check_DATA = test/gpu/risks_kernel.bundle
CLEANFILES += test/gpu/risks_kernel.bundle
test/gpu/risks_kernel.bundle: test/gpu/risks_kernel.hip test/gpu/risks_kernel.h
	$(AM_V_at)$(MKDIR_P) test/gpu
	$(AM_V_GEN)HIPCC='$(HIPCC)' $(srcdir)/contrib/compile_kernel $(srcdir)/test/gpu/risks_kernel.hip $@
endif
