# `make bench` prints tables; nothing in make check measures time.
check_PROGRAMS += perf/bench/bench_plan perf/bench/bench_bytes perf/bench/bench_expose \
	perf/bench/bench_notify perf/bench/bench_notify_ucp \
	perf/bench/bench_cut perf/bench/bench_op perf/bench/bench_post perf/bench/bench_put \
	perf/bench/bench_scale perf/bench/bench_thread
perf_bench_bench_plan_SOURCES = perf/bench/bench_plan.c perf/bench/bench_callgrind.h
perf_bench_bench_plan_LDADD = perf/kv_perf/libkvrun.la
bench_pair = perf/bench/bench_pair.c perf/bench/bench_pair.h perf/bench/bench_callgrind.h
perf_bench_bench_bytes_SOURCES = perf/bench/bench_bytes.c $(bench_pair)
perf_bench_bench_bytes_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_put_SOURCES = perf/bench/bench_put.c
perf_bench_bench_put_LDADD = perf/workload/libworkload.la $(UCX_LIBS)
perf_bench_bench_thread_SOURCES = perf/bench/bench_thread.c
perf_bench_bench_thread_LDADD = perf/workload/libworkload.la $(UCX_LIBS)
perf_bench_bench_scale_SOURCES = perf/bench/bench_scale.c $(bench_pair)
perf_bench_bench_scale_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_expose_SOURCES = perf/bench/bench_expose.c $(bench_pair)
perf_bench_bench_expose_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_notify_SOURCES = perf/bench/bench_notify.c perf/bench/bench_step.h $(bench_pair)
perf_bench_bench_notify_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_notify_ucp_SOURCES = perf/bench/bench_notify_ucp.c perf/bench/bench_raw.c \
	perf/bench/bench_raw.h perf/bench/bench_step.h perf/bench/bench_callgrind.h
perf_bench_bench_notify_ucp_LDADD = perf/workload/libworkload.la $(UCX_LIBS)
perf_bench_bench_cut_SOURCES = perf/bench/bench_cut.c $(bench_pair)
perf_bench_bench_cut_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_op_SOURCES = perf/bench/bench_op.c $(bench_pair)
perf_bench_bench_op_LDADD = perf/kv_perf/libkvrun.la
perf_bench_bench_post_SOURCES = perf/bench/bench_post.c $(bench_pair)
perf_bench_bench_post_LDADD = perf/kv_perf/libkvrun.la
EXTRA_DIST += perf/bench/baseline perf/bench/bench.sh perf/bench/bench_check.sh

if HAVE_CHECK
bench_idle = test/bench/bench_idle$(EXEEXT)
endif

.PHONY: bench bench-check
bench: all perf/bench/bench_plan$(EXEEXT) perf/bench/bench_bytes$(EXEEXT) perf/bench/bench_expose$(EXEEXT) \
		perf/bench/bench_notify$(EXEEXT) perf/bench/bench_notify_ucp$(EXEEXT) \
		perf/bench/bench_cut$(EXEEXT) perf/bench/bench_op$(EXEEXT) \
		perf/bench/bench_post$(EXEEXT) $(bench_idle)
	$(AM_V_at)$(srcdir)/perf/bench/bench.sh $(abs_builddir)

# Red when a block costs more instructions than it did.
bench-check: all perf/bench/bench_plan$(EXEEXT) perf/bench/bench_expose$(EXEEXT) \
		perf/bench/bench_notify$(EXEEXT) perf/bench/bench_cut$(EXEEXT) \
		perf/bench/bench_op$(EXEEXT) perf/bench/bench_post$(EXEEXT)
	$(AM_V_at)$(srcdir)/perf/bench/bench_check.sh $(abs_builddir)
