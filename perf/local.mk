# mori_kv_perf, the benchmarks, and what they share.
include perf/workload/local.mk
include perf/base/local.mk
include perf/memory/local.mk
include perf/kv_perf/local.mk
include perf/bench/local.mk
include perf/gpu/local.mk
include perf/risks/local.mk

EXTRA_DIST += perf/README.md \
	perf/nixl/nixl_lists.py \
	perf/results/2026-11-21-gpu_limits.csv \
	perf/results/2026-11-21-mori_kv_perf.csv \
	perf/results/2026-11-21-probe.csv \
	perf/results/2026-11-22-fanout.csv \
	perf/results/2026-11-22-mori_kv_perf.csv \
	perf/results/README.md
