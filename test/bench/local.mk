# Cost of the module for the host, over the fakes; run by hand, see perf/README.md.
if HAVE_CHECK
# Cost of a block in mori_xgmi
check_PROGRAMS += test/bench/xgmi_cost
test_bench_xgmi_cost_SOURCES = test/bench/xgmi_cost.c
test_bench_xgmi_cost_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_bench_xgmi_cost_LDFLAGS = $(muct_ldflags)
test_bench_xgmi_cost_LDADD = libmuct.la

# A message beside idle senders: perf/bench/bench.sh runs it.
check_PROGRAMS += test/bench/bench_idle
test_bench_bench_idle_SOURCES = test/bench/bench_idle.c $(xgmi_inside_sources)
test_bench_bench_idle_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_bench_bench_idle_LDFLAGS = $(muct_ldflags)
test_bench_bench_idle_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la libmuct.la \
	$(CHECK_LIBS) $(UCX_LIBS) -luct -lucs -ldl -lm

if HAVE_VERBS
# Instructions a work request: bench_rdma.sh runs it.
check_PROGRAMS += test/bench/bench_rdma
test_bench_bench_rdma_SOURCES = test/bench/bench_rdma.c
test_bench_bench_rdma_CPPFLAGS = $(rdma_rig_cppflags)
test_bench_bench_rdma_LDADD = $(rdma_rig_ldadd)
EXTRA_DIST += test/bench/bench_rdma.sh
endif
endif
