# gpu_limits: what the GPUs can do without UCX.
noinst_LTLIBRARIES += perf/libgpuruntime.la
perf_libgpuruntime_la_SOURCES = perf/gpu_runtime.c perf/gpu_runtime.h
perf_libgpuruntime_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE

noinst_PROGRAMS += perf/gpu_limits
perf_gpu_limits_SOURCES = perf/gpu_limits.c perf/gpu_bench.c perf/gpu_bench.h \
	perf/gpu_cache.c perf/gpu_cache.h perf/gpu_latency.c perf/gpu_models.c \
	perf/gpu_reasons.c
perf_gpu_limits_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE
perf_gpu_limits_CFLAGS = $(AM_CFLAGS) -pthread
perf_gpu_limits_LDADD = perf/libgpuruntime.la perf/libkvperf.la \
	libmorikv_core.la libmuct_code.la -ldl -lpthread
