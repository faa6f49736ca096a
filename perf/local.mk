# mori_kv_perf, the benchmarks, and what they share.
include perf/workload/local.mk
include perf/kv_perf/local.mk
include perf/bench/local.mk
include perf/gpu/local.mk

EXTRA_DIST += perf/README.md \
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
