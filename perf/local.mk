# mori_kv_perf and the benchmarks.
noinst_LTLIBRARIES += perf/libkvperf.la perf/libkvrun.la

# What knows neither UCP nor libmorikv; has unit tests.
perf_libkvperf_la_SOURCES = \
	perf/allocator.c perf/allocator.h \
	perf/channel.c perf/channel.h \
	perf/clock.h \
	perf/generator.c perf/generator.h \
	perf/histogram.c perf/histogram.h \
	perf/memory.c perf/memory.h \
	perf/message.c perf/message.h \
	perf/moves.c perf/moves.h \
	perf/options.c perf/options.h \
	perf/patience.h \
	perf/pattern.c perf/pattern.h \
	perf/pool.c perf/pool.h \
	perf/progress.c perf/progress.h \
	perf/random.h \
	perf/report.c perf/report.h \
	perf/request.c perf/request.h \
	perf/result.c perf/result.h \
	perf/run.c perf/run.h \
	perf/side.c perf/side.h \
	perf/tables.c perf/tables.h \
	perf/trace.c perf/trace.h \
	perf/workload.c perf/workload.h

# What moves bytes.
perf_libkvrun_la_SOURCES = \
	perf/engine.h \
	perf/engine_mkv.c \
	perf/engine_ucp.c \
	perf/kv.c perf/kv.h \
	perf/ucp_notify.c perf/ucp_notify.h
perf_libkvrun_la_LIBADD = perf/libkvperf.la libmorikv.la $(UCX_LIBS)

bin_PROGRAMS += perf/mori_kv_perf
perf_mori_kv_perf_SOURCES = \
	perf/launch.c perf/launch.h \
	perf/model.c \
	perf/mori_kv_perf.c \
	perf/pingpong.c perf/pingpong.h \
	perf/sweep.c perf/sweep.h
perf_mori_kv_perf_LDADD = perf/libkvrun.la

# Benchmarks. `make bench` prints tables; nothing in make check measures time.
check_PROGRAMS += perf/bench_plan
perf_bench_plan_SOURCES = perf/bench_plan.c
perf_bench_plan_LDADD = perf/libkvrun.la

EXTRA_DIST += perf/README.md perf/bench.sh \
	perf/results/h200x2-allocation.json \
	perf/results/h200x2-gpu_latency.json \
	perf/results/h200x2-gpu_limits.json \
	perf/results/h200x2-gpu_models.json \
	perf/results/h200x2-host2-latency-release.json \
	perf/results/h200x2-host2-latency.json \
	perf/results/h200x2-host2-mori_kv_perf-release.json \
	perf/results/h200x2-host2-mori_kv_perf.json \
	perf/results/h200x2-host2-spread.json \
	perf/results/h200x2-host3-latency-release.json \
	perf/results/h200x2-latency-release.json \
	perf/results/h200x2-latency.json \
	perf/results/h200x2-long-release.json \
	perf/results/h200x2-mori_kv_perf-release.json \
	perf/results/h200x2-mori_kv_perf.json \
	perf/results/h200x2-other-pairs.json \
	perf/results/h200x2-probe.json \
	perf/results/h200x2-profile.txt \
	perf/results/h200x2-spread-release.json
.PHONY: bench
bench: all perf/bench_plan$(EXEEXT)
	$(AM_V_at)$(srcdir)/perf/bench.sh $(abs_builddir)
include perf/gpu_limits.mk
