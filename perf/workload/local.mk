# What is to be moved, from where to where; knows neither UCP nor libmorikv.
noinst_LTLIBRARIES += perf/workload/libworkload.la
perf_workload_libworkload_la_SOURCES = \
	perf/workload/allocator.c perf/workload/allocator.h \
	perf/workload/backoff.h \
	perf/workload/block_moves.c perf/workload/block_moves.h \
	perf/workload/block_tables.c perf/workload/block_tables.h \
	perf/workload/clock.h \
	perf/workload/engine_side.c perf/workload/engine_side.h \
	perf/workload/error.c perf/workload/error.h \
	perf/workload/generator.c perf/workload/generator.h \
	perf/workload/geometry.c perf/workload/geometry.h \
	perf/workload/memory.c perf/workload/memory.h \
	perf/workload/options.c perf/workload/options.h \
	perf/workload/pattern.c perf/workload/pattern.h \
	perf/workload/pool.c perf/workload/pool.h \
	perf/workload/random.h \
	perf/workload/request.c perf/workload/request.h \
	perf/workload/table.c perf/workload/table.h \
	perf/workload/trace.c perf/workload/trace.h
perf_workload_libworkload_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(JSON_CFLAGS)
perf_workload_libworkload_la_LIBADD = $(JSON_LIBS)
