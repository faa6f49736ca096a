# Unit tests: perf.
