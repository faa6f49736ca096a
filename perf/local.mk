# mori_kv_perf and the benchmarks.
noinst_LTLIBRARIES += perf/libkvperf.la
perf_libkvperf_la_SOURCES = \
	perf/allocator.c perf/allocator.h \
	perf/generator.c perf/generator.h \
	perf/histogram.c perf/histogram.h \
	perf/memory.c perf/memory.h \
	perf/message.c perf/message.h \
	perf/options.c perf/options.h \
	perf/pool.c perf/pool.h \
	perf/random.h \
	perf/request.c perf/request.h \
	perf/tables.c perf/tables.h \
	perf/trace.c perf/trace.h \
	perf/workload.c perf/workload.h
include perf/gpu_limits.mk
