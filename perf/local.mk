# mori_kv_perf and the benchmarks.
