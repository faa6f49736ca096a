# gpu_risks: known faults of AMD's runtimes; mori_prove reports them.
pkglibexec_PROGRAMS += perf/risks/gpu_risks
perf_risks_gpu_risks_SOURCES = perf/risks/gpu_risks.c perf/risks/risks_base.c perf/risks/risks_base.h \
	perf/risks/risks_chunks.c perf/risks/risks_chunks.h perf/risks/risks_graph.c perf/risks/risks_graph.h \
	perf/risks/risks_nic.c perf/risks/risks_nic.h perf/risks/risks_peers.c perf/risks/risks_peers.h \
	perf/risks/risks_watch.c perf/risks/risks_watch.h perf/risks/risks_kernel.h
perf_risks_gpu_risks_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
perf_risks_gpu_risks_CFLAGS = $(AM_CFLAGS) -pthread
perf_risks_gpu_risks_LDFLAGS = $(muct_ldflags)
perf_risks_gpu_risks_LDADD = libmuct.la $(UCX_LIBS) -ldl -lpthread
EXTRA_DIST += perf/risks/risks_kernel.hip
if HAVE_HIPCC
risksdir = $(pkglibexecdir)
risks_DATA = perf/risks/risks_kernel.bundle
CLEANFILES += perf/risks/risks_kernel.bundle
perf/risks/risks_kernel.bundle: perf/risks/risks_kernel.hip perf/risks/risks_kernel.h
	$(AM_V_at)$(MKDIR_P) perf/risks
	$(AM_V_GEN)HIPCC='$(HIPCC)' $(srcdir)/contrib/compile_kernel $(srcdir)/perf/risks/risks_kernel.hip $@
endif
