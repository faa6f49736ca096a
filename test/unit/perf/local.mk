# Unit tests: perf.
perf_unit_programs = \
	test/unit/perf/test_perf_allocator \
	test/unit/perf/test_perf_block_moves \
	test/unit/perf/test_perf_block_tables \
	test/unit/perf/test_perf_channel \
	test/unit/perf/test_perf_compute \
	test/unit/perf/test_perf_generator \
	test/unit/perf/test_perf_geometry \
	test/unit/perf/test_perf_histogram \
	test/unit/perf/test_perf_link \
	test/unit/perf/test_perf_options \
	test/unit/perf/test_perf_pool \
	test/unit/perf/test_perf_progress \
	test/unit/perf/test_perf_slots \
	test/unit/perf/test_perf_trace

check_PROGRAMS += $(perf_unit_programs)
TESTS += $(perf_unit_programs)

perf_unit_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS) \
	-DTEST_MODELS='"$(abs_top_srcdir)/perf/models"'
perf_unit_ldadd = perf/kv_perf/libkvperf.la $(CHECK_LIBS)

test_unit_perf_test_perf_allocator_SOURCES = test/unit/perf/test_perf_allocator.c
test_unit_perf_test_perf_allocator_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_allocator_LDADD = $(perf_unit_ldadd)

# Runs by a clock of its own
test_unit_perf_test_perf_channel_SOURCES = test/unit/perf/test_perf_channel.c
test_unit_perf_test_perf_channel_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_channel_LDADD = $(perf_unit_ldadd)

# Over the fake UCP, by a clock of its own.
test_unit_perf_test_perf_compute_SOURCES = test/unit/perf/test_perf_compute.c
test_unit_perf_test_perf_compute_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_compute_LDADD = perf/kv_perf/libkvcompute.la $(morikv_pair_ldadd)

test_unit_perf_test_perf_generator_SOURCES = test/unit/perf/test_perf_generator.c
test_unit_perf_test_perf_generator_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_generator_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_histogram_SOURCES = test/unit/perf/test_perf_histogram.c
test_unit_perf_test_perf_histogram_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_histogram_LDADD = $(perf_unit_ldadd)

# libmorikv's own merge shows the result that its plans would have.
test_unit_perf_test_perf_block_moves_SOURCES = test/unit/perf/test_perf_block_moves.c
test_unit_perf_test_perf_block_moves_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_block_moves_LDADD = $(perf_unit_ldadd) libmorikv.la $(UCX_LIBS)

test_unit_perf_test_perf_options_SOURCES = test/unit/perf/test_perf_options.c
test_unit_perf_test_perf_options_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_options_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_pool_SOURCES = test/unit/perf/test_perf_pool.c
test_unit_perf_test_perf_pool_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_pool_LDADD = $(perf_unit_ldadd)
test_unit_perf_test_perf_pool_LDFLAGS = -Wl,--wrap=perf_memory_alloc \
	-Wl,--wrap=perf_memory_free -Wl,--wrap=perf_memory_write \
	-Wl,--wrap=perf_memory_read

test_unit_perf_test_perf_block_tables_SOURCES = test/unit/perf/test_perf_block_tables.c
test_unit_perf_test_perf_block_tables_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_block_tables_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_trace_SOURCES = test/unit/perf/test_perf_trace.c
test_unit_perf_test_perf_trace_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_trace_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_progress_SOURCES = test/unit/perf/test_perf_progress.c
test_unit_perf_test_perf_progress_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_progress_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_link_SOURCES = test/unit/perf/test_perf_link.c
test_unit_perf_test_perf_link_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_link_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_slots_SOURCES = test/unit/perf/test_perf_slots.c
test_unit_perf_test_perf_slots_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_slots_LDADD = $(perf_unit_ldadd)

test_unit_perf_test_perf_geometry_SOURCES = test/unit/perf/test_perf_geometry.c
test_unit_perf_test_perf_geometry_CPPFLAGS = $(perf_unit_cppflags)
test_unit_perf_test_perf_geometry_LDADD = $(perf_unit_ldadd)

noinst_HEADERS += test/unit/perf/clock_here.h test/unit/perf/models_here.h

# Whole runs of mori_kv_perf over tcp; its models' lists beside those of gpu_limits.
perf_unit_scripts = \
	test/unit/perf/test_perf_beside.sh \
	test/unit/perf/test_perf_cli.sh \
	test/unit/perf/test_perf_output.sh \
	test/unit/perf/test_perf_fanout.sh \
	test/unit/perf/test_perf_models.sh
dist_check_SCRIPTS += $(perf_unit_scripts)
TESTS += $(perf_unit_scripts)
