# `make bench` prints tables; nothing in make check measures time.
check_PROGRAMS += perf/bench/bench_plan perf/bench/bench_bytes
perf_bench_bench_plan_SOURCES = perf/bench/bench_plan.c
perf_bench_bench_plan_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_bytes_SOURCES = perf/bench/bench_bytes.c
perf_bench_bench_bytes_LDADD = perf/kv_perf/libkvrun.la
EXTRA_DIST += perf/bench/baseline perf/bench/bench.sh perf/bench/bench_check.sh

.PHONY: bench bench-check
bench: all perf/bench/bench_plan$(EXEEXT) perf/bench/bench_bytes$(EXEEXT)
	$(AM_V_at)$(srcdir)/perf/bench/bench.sh $(abs_builddir)

# Red when a block costs more instructions than it did.
bench-check: all perf/bench/bench_plan$(EXEEXT)
	$(AM_V_at)$(srcdir)/perf/bench/bench_check.sh $(abs_builddir)
