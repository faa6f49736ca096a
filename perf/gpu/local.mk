# gpu_limits: rates of the GPUs without UCX.
noinst_LTLIBRARIES += perf/gpu/libgpuruntime.la
perf_gpu_libgpuruntime_la_SOURCES = perf/gpu/gpu_runtime.c perf/gpu/gpu_runtime.h
perf_gpu_libgpuruntime_la_CPPFLAGS = $(AM_CPPFLAGS)

# mori_prove runs it for the rate of the raw kernel.
pkglibexec_PROGRAMS = perf/gpu/gpu_limits
perf_gpu_gpu_limits_SOURCES = \
	perf/gpu/gpu_bench.c perf/gpu/gpu_bench.h \
	perf/gpu/gpu_cache.c perf/gpu/gpu_cache.h \
	perf/gpu/gpu_fanout.c \
	perf/gpu/gpu_latency.c \
	perf/gpu/gpu_limits.c \
	perf/gpu/gpu_models.c perf/gpu/gpu_models.h \
	perf/gpu/gpu_permute.c
perf_gpu_gpu_limits_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
perf_gpu_gpu_limits_CFLAGS = $(AM_CFLAGS) -pthread
perf_gpu_gpu_limits_LDADD = perf/gpu/libgpuruntime.la perf/workload/libworkload.la \
	libmorikv_core.la libmuct_code.la $(JSON_LIBS) -ldl -lpthread
