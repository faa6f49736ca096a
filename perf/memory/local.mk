# Memory of a side: pools of blocks, the blocks of each request, and moves between pools.
perf_workload_libworkload_la_SOURCES += \
	perf/memory/block_moves.c perf/memory/block_moves.h \
	perf/memory/block_tables.c perf/memory/block_tables.h \
	perf/memory/engine_side.c perf/memory/engine_side.h \
	perf/memory/memory.c perf/memory/memory.h \
	perf/memory/pattern.c perf/memory/pattern.h \
	perf/memory/pool.c perf/memory/pool.h
