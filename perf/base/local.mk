# Errors, interrupts, clock, random numbers, tables of the terminal.
perf_workload_libworkload_la_SOURCES += \
	perf/base/backoff.h \
	perf/base/clock.h \
	perf/base/error.c perf/base/error.h \
	perf/base/interrupt.c perf/base/interrupt.h \
	perf/base/leave.h \
	perf/base/random.h \
	perf/base/table.c perf/base/table.h
