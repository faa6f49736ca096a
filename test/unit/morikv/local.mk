# Unit tests: libmorikv.
morikv_unit_programs = \
	test/unit/morikv/fuzz_mkv \
	test/unit/morikv/test_mkv_arrived \
	test/unit/morikv/test_mkv_blocks \
	test/unit/morikv/test_mkv_faults \
	test/unit/morikv/test_mkv_fence \
	test/unit/morikv/test_mkv_fetch \
	test/unit/morikv/test_mkv_footprint \
	test/unit/morikv/test_mkv_heal \
	test/unit/morikv/test_mkv_bytes \
	test/unit/morikv/test_mkv_inbox \
	test/unit/morikv/test_mkv_incoming \
	test/unit/morikv/test_mkv_instances \
	test/unit/morikv/test_mkv_keys \
	test/unit/morikv/test_mkv_kinds \
	test/unit/morikv/test_mkv_legs \
	test/unit/morikv/test_mkv_lists \
	test/unit/morikv/test_mkv_messages \
	test/unit/morikv/test_mkv_mixed \
	test/unit/morikv/test_mkv_ops \
	test/unit/morikv/test_mkv_options \
	test/unit/morikv/test_mkv_overlap \
	test/unit/morikv/test_mkv_path \
	test/unit/morikv/test_mkv_post \
	test/unit/morikv/test_mkv_pull \
	test/unit/morikv/test_mkv_priority \
	test/unit/morikv/test_mkv_process \
	test/unit/morikv/test_mkv_quiet \
	test/unit/morikv/test_mkv_refuse \
	test/unit/morikv/test_mkv_regions \
	test/unit/morikv/test_mkv_setup \
	test/unit/morikv/test_mkv_early \
	test/unit/morikv/test_mkv_elect \
	test/unit/morikv/test_mkv_ranks \
	test/unit/morikv/test_mkv_shape \
	test/unit/morikv/test_mkv_slab \
	test/unit/morikv/test_mkv_stage \
	test/unit/morikv/test_mkv_states \
	test/unit/morikv/test_mkv_stress \
	test/unit/morikv/test_mkv_table \
	test/unit/morikv/test_mkv_threads \
	test/unit/morikv/test_mkv_times \
	test/unit/morikv/test_mkv_units \
	test/unit/morikv/test_mkv_wire \
	test/unit/morikv/test_mkv_wrong \
	test/unit/morikv/test_mkv_xfer
check_PROGRAMS += $(morikv_unit_programs)
TESTS += $(morikv_unit_programs)

morikv_unit_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
morikv_unit_ldadd = \
	libmorikv_core.la test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_unit_morikv_test_mkv_blocks_SOURCES = test/unit/morikv/test_mkv_blocks.c
test_unit_morikv_test_mkv_blocks_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_blocks_LDADD = $(morikv_unit_ldadd)

test_unit_morikv_test_mkv_options_SOURCES = test/unit/morikv/test_mkv_options.c
test_unit_morikv_test_mkv_options_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_options_LDADD = $(morikv_unit_ldadd)

test_unit_morikv_test_mkv_process_SOURCES = test/unit/morikv/test_mkv_process.c
test_unit_morikv_test_mkv_process_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_process_LDADD = $(morikv_unit_ldadd) -lpthread

test_unit_morikv_test_mkv_wire_SOURCES = test/unit/morikv/test_mkv_wire.c
test_unit_morikv_test_mkv_wire_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_wire_LDADD = $(morikv_unit_ldadd)

# Two contexts of the library over a UCP that the test controls.
morikv_pair_ldadd = \
	test/support/libmkvpair.la libmorikv_core.la test/fake/ucp/libfakeucp.la \
	test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_unit_morikv_test_mkv_faults_SOURCES = test/unit/morikv/test_mkv_faults.c
test_unit_morikv_test_mkv_faults_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_faults_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_footprint_SOURCES = test/unit/morikv/test_mkv_footprint.c
test_unit_morikv_test_mkv_footprint_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_footprint_LDFLAGS = -Wl,--wrap=malloc -Wl,--wrap=calloc \
	-Wl,--wrap=realloc -Wl,--wrap=aligned_alloc -Wl,--wrap=strdup \
	-Wl,--wrap=free
test_unit_morikv_test_mkv_footprint_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_wrong_SOURCES = test/unit/morikv/test_mkv_wrong.c
test_unit_morikv_test_mkv_wrong_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_wrong_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_heal_SOURCES = test/unit/morikv/test_mkv_heal.c
test_unit_morikv_test_mkv_heal_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_heal_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_early_SOURCES = test/unit/morikv/test_mkv_early.c
test_unit_morikv_test_mkv_early_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_early_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_inbox_SOURCES = test/unit/morikv/test_mkv_inbox.c
test_unit_morikv_test_mkv_inbox_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_inbox_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_refuse_SOURCES = test/unit/morikv/test_mkv_refuse.c
test_unit_morikv_test_mkv_refuse_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_refuse_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_keys_SOURCES = test/unit/morikv/test_mkv_keys.c
test_unit_morikv_test_mkv_keys_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_keys_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_legs_SOURCES = test/unit/morikv/test_mkv_legs.c
test_unit_morikv_test_mkv_legs_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_legs_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_bytes_SOURCES = test/unit/morikv/test_mkv_bytes.c
test_unit_morikv_test_mkv_bytes_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_bytes_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_elect_SOURCES = test/unit/morikv/test_mkv_elect.c
test_unit_morikv_test_mkv_elect_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_elect_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_ranks_SOURCES = test/unit/morikv/test_mkv_ranks.c $(mkv_ranks_sources)
test_unit_morikv_test_mkv_ranks_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_ranks_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_shape_SOURCES = test/unit/morikv/test_mkv_shape.c
test_unit_morikv_test_mkv_shape_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_shape_LDADD = $(morikv_unit_ldadd)

test_unit_morikv_test_mkv_slab_SOURCES = test/unit/morikv/test_mkv_slab.c
test_unit_morikv_test_mkv_slab_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_slab_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_incoming_SOURCES = test/unit/morikv/test_mkv_incoming.c
test_unit_morikv_test_mkv_incoming_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_incoming_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_instances_SOURCES = test/unit/morikv/test_mkv_instances.c
test_unit_morikv_test_mkv_instances_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_instances_LDADD = $(morikv_pair_ldadd)

# Any bytes from a peer; contrib/fuzz has libFuzzer look for more.
test_unit_morikv_fuzz_mkv_SOURCES = test/unit/morikv/fuzz_mkv.c
test_unit_morikv_fuzz_mkv_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_fuzz_mkv_LDADD = \
	libmorikv_core.la test/fake/ucp/libfakeucp.la test/support/libmkvtest.la \
	$(CHECK_LIBS) $(UCX_LIBS)
EXTRA_DIST += test/unit/morikv/corpus

test_unit_morikv_test_mkv_lists_SOURCES = test/unit/morikv/test_mkv_lists.c
test_unit_morikv_test_mkv_lists_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_lists_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_table_SOURCES = test/unit/morikv/test_mkv_table.c
test_unit_morikv_test_mkv_table_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_table_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_units_SOURCES = test/unit/morikv/test_mkv_units.c
test_unit_morikv_test_mkv_units_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_units_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_messages_SOURCES = test/unit/morikv/test_mkv_messages.c
test_unit_morikv_test_mkv_messages_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_messages_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_mixed_SOURCES = test/unit/morikv/test_mkv_mixed.c
test_unit_morikv_test_mkv_mixed_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_mixed_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_ops_SOURCES = test/unit/morikv/test_mkv_ops.c
test_unit_morikv_test_mkv_ops_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_ops_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_path_SOURCES = test/unit/morikv/test_mkv_path.c
test_unit_morikv_test_mkv_path_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_path_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_post_SOURCES = test/unit/morikv/test_mkv_post.c
test_unit_morikv_test_mkv_post_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_post_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_fetch_SOURCES = test/unit/morikv/test_mkv_fetch.c
test_unit_morikv_test_mkv_fetch_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_fetch_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_pull_SOURCES = test/unit/morikv/test_mkv_pull.c
test_unit_morikv_test_mkv_pull_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_pull_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_quiet_SOURCES = test/unit/morikv/test_mkv_quiet.c
test_unit_morikv_test_mkv_quiet_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_quiet_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_fence_SOURCES = test/unit/morikv/test_mkv_fence.c
test_unit_morikv_test_mkv_fence_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_fence_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_stage_SOURCES = test/unit/morikv/test_mkv_stage.c
test_unit_morikv_test_mkv_stage_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_stage_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_overlap_SOURCES = test/unit/morikv/test_mkv_overlap.c
test_unit_morikv_test_mkv_overlap_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_overlap_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_regions_SOURCES = test/unit/morikv/test_mkv_regions.c
test_unit_morikv_test_mkv_regions_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_regions_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_setup_SOURCES = test/unit/morikv/test_mkv_setup.c
test_unit_morikv_test_mkv_setup_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_setup_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_states_SOURCES = test/unit/morikv/test_mkv_states.c
test_unit_morikv_test_mkv_states_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_states_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_stress_SOURCES = test/unit/morikv/test_mkv_stress.c
test_unit_morikv_test_mkv_stress_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_stress_LDADD = $(morikv_pair_ldadd) -lpthread

test_unit_morikv_test_mkv_threads_SOURCES = test/unit/morikv/test_mkv_threads.c
test_unit_morikv_test_mkv_threads_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_threads_LDADD = $(morikv_pair_ldadd) -lpthread

test_unit_morikv_test_mkv_arrived_SOURCES = test/unit/morikv/test_mkv_arrived.c
test_unit_morikv_test_mkv_arrived_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_arrived_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_priority_SOURCES = test/unit/morikv/test_mkv_priority.c
test_unit_morikv_test_mkv_priority_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_priority_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_kinds_SOURCES = test/unit/morikv/test_mkv_kinds.c
test_unit_morikv_test_mkv_kinds_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_kinds_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_times_SOURCES = test/unit/morikv/test_mkv_times.c
test_unit_morikv_test_mkv_times_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_times_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_xfer_SOURCES = test/unit/morikv/test_mkv_xfer.c
test_unit_morikv_test_mkv_xfer_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_xfer_LDADD = $(morikv_pair_ldadd)

dist_check_SCRIPTS += test/unit/morikv/test_mkv_exports.sh test/unit/morikv/test_mkv_texts.sh
TESTS += test/unit/morikv/test_mkv_exports.sh test/unit/morikv/test_mkv_texts.sh
