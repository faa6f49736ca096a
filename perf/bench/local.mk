# `make bench` prints tables; nothing in make check measures time.
check_PROGRAMS += perf/bench/bench_plan
perf_bench_bench_plan_SOURCES = perf/bench/bench_plan.c
perf_bench_bench_plan_LDADD = perf/kv_perf/libkvrun.la
EXTRA_DIST += perf/bench/bench.sh

.PHONY: bench
bench: all perf/bench/bench_plan$(EXEEXT)
	$(AM_V_at)$(srcdir)/perf/bench/bench.sh $(abs_builddir)
