# Unit tests: mori_rdma.
rdma_unit_programs = \
	test/unit/rdma/test_rdma_ece \
	test/unit/rdma/test_rdma_ends \
	test/unit/rdma/test_rdma_faults \
	test/unit/rdma/test_rdma_flow \
	test/unit/rdma/test_rdma_fuzz \
	test/unit/rdma/test_rdma_gpus \
	test/unit/rdma/test_rdma_large \
	test/unit/rdma/test_rdma_limits \
	test/unit/rdma/test_rdma_mem \
	test/unit/rdma/test_rdma_move \
	test/unit/rdma/test_rdma_nics \
	test/unit/rdma/test_rdma_pace \
	test/unit/rdma/test_rdma_queue \
	test/unit/rdma/test_rdma_rails \
	test/unit/rdma/test_rdma_reach \
	test/unit/rdma/test_rdma_reads \
	test/unit/rdma/test_rdma_recover \
	test/unit/rdma/test_rdma_routes \
	test/unit/rdma/test_rdma_scale \
	test/unit/rdma/test_rdma_sq \
	test/unit/rdma/test_rdma_steps \
	test/unit/rdma/test_rdma_kv \
	test/unit/rdma/test_rdma_trace \
	test/unit/rdma/test_rdma_turns \
	test/unit/rdma/test_rdma_ucp \
	test/unit/rdma/test_rdma_unexpected \
	test/unit/rdma/test_rdma_vmm \
	test/unit/rdma/test_rdma_wait \
	test/unit/rdma/test_rdma_wire
check_PROGRAMS += $(rdma_unit_programs)
TESTS += $(rdma_unit_programs)

test_unit_rdma_test_rdma_limits_SOURCES = test/unit/rdma/test_rdma_limits.c
test_unit_rdma_test_rdma_limits_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_rdma_test_rdma_limits_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_limits_LDADD = \
	test/support/librdmarig.la libmuct.la $(CHECK_LIBS) $(UCX_LIBS) -lucs

test_unit_rdma_test_rdma_mem_SOURCES = test/unit/rdma/test_rdma_mem.c
test_unit_rdma_test_rdma_mem_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_rdma_test_rdma_mem_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_mem_LDADD = libmuct.la $(CHECK_LIBS)

test_unit_rdma_test_rdma_sq_SOURCES = test/unit/rdma/test_rdma_sq.c
test_unit_rdma_test_rdma_sq_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_rdma_test_rdma_sq_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_sq_LDADD = libmuct.la $(CHECK_LIBS)

test_unit_rdma_test_rdma_wire_SOURCES = test/unit/rdma/test_rdma_wire.c
test_unit_rdma_test_rdma_wire_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_rdma_test_rdma_wire_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_wire_LDADD = libmuct.la $(CHECK_LIBS)

test_unit_rdma_test_rdma_routes_SOURCES = test/unit/rdma/test_rdma_routes.c
test_unit_rdma_test_rdma_routes_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_rdma_test_rdma_routes_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_routes_LDADD = libmuct.la $(CHECK_LIBS)

# The whole transport in a real UCX.
test_unit_rdma_test_rdma_ece_SOURCES = test/unit/rdma/test_rdma_ece.c
test_unit_rdma_test_rdma_ece_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_ece_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_faults_SOURCES = test/unit/rdma/test_rdma_faults.c
test_unit_rdma_test_rdma_faults_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_faults_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_queue_SOURCES = test/unit/rdma/test_rdma_queue.c
test_unit_rdma_test_rdma_queue_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_queue_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_flow_SOURCES = test/unit/rdma/test_rdma_flow.c
test_unit_rdma_test_rdma_flow_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_flow_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_fuzz_SOURCES = \
	test/unit/rdma/test_rdma_fuzz.c test/unit/rdma/rdma_message.h test/unit/rdma/rdma_message.c \
	$(verbs_pair_sources)
test_unit_rdma_test_rdma_fuzz_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_fuzz_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_fuzz_LDADD = $(rdma_rig_ldadd) libmuct.la

test_unit_rdma_test_rdma_gpus_SOURCES = test/unit/rdma/test_rdma_gpus.c
test_unit_rdma_test_rdma_gpus_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_gpus_LDFLAGS = $(muct_ldflags)
test_unit_rdma_test_rdma_gpus_LDADD = $(rdma_rig_ldadd) libmuct.la

test_unit_rdma_test_rdma_reads_SOURCES = test/unit/rdma/test_rdma_reads.c
test_unit_rdma_test_rdma_reads_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_reads_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_turns_SOURCES = test/unit/rdma/test_rdma_turns.c
test_unit_rdma_test_rdma_turns_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_turns_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_recover_SOURCES = test/unit/rdma/test_rdma_recover.c
test_unit_rdma_test_rdma_recover_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_recover_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_pace_SOURCES = test/unit/rdma/test_rdma_pace.c $(rdma_clock_sources)
test_unit_rdma_test_rdma_pace_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_pace_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_rails_SOURCES = test/unit/rdma/test_rdma_rails.c $(rdma_clock_sources)
test_unit_rdma_test_rdma_rails_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_rails_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_reach_SOURCES = test/unit/rdma/test_rdma_reach.c
test_unit_rdma_test_rdma_reach_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_reach_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_steps_SOURCES = test/unit/rdma/test_rdma_steps.c
test_unit_rdma_test_rdma_steps_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_steps_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_scale_SOURCES = test/unit/rdma/test_rdma_scale.c
test_unit_rdma_test_rdma_scale_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_scale_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_trace_SOURCES = test/unit/rdma/test_rdma_trace.c
test_unit_rdma_test_rdma_trace_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_trace_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_wait_SOURCES = test/unit/rdma/test_rdma_wait.c
test_unit_rdma_test_rdma_wait_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_wait_LDADD = $(rdma_rig_ldadd)

# UCP over the module, as applications call it
test_unit_rdma_test_rdma_ucp_SOURCES = test/unit/rdma/test_rdma_ucp.c
test_unit_rdma_test_rdma_ucp_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_ucp_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_large_SOURCES = test/unit/rdma/test_rdma_large.c
test_unit_rdma_test_rdma_large_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_large_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_vmm_SOURCES = test/unit/rdma/test_rdma_vmm.c
test_unit_rdma_test_rdma_vmm_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_vmm_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_ends_SOURCES = test/unit/rdma/test_rdma_ends.c
test_unit_rdma_test_rdma_ends_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_ends_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_kv_SOURCES = test/unit/rdma/test_rdma_kv.c $(rdma_pair_sources)
test_unit_rdma_test_rdma_kv_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_kv_LDADD = $(rdma_rig_ldadd) libmorikv.la

test_unit_rdma_test_rdma_move_SOURCES = test/unit/rdma/test_rdma_move.c $(rdma_pair_sources)
test_unit_rdma_test_rdma_move_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_move_LDADD = $(rdma_rig_ldadd) libmorikv.la

test_unit_rdma_test_rdma_unexpected_SOURCES = test/unit/rdma/test_rdma_unexpected.c
test_unit_rdma_test_rdma_unexpected_CPPFLAGS = $(rdma_rig_cppflags)
test_unit_rdma_test_rdma_unexpected_LDADD = $(rdma_rig_ldadd)

test_unit_rdma_test_rdma_nics_SOURCES = test/unit/rdma/test_rdma_nics.c
test_unit_rdma_test_rdma_nics_CPPFLAGS = $(rdma_rig_cppflags) $(hipcpu_path_cppflags)
test_unit_rdma_test_rdma_nics_LDADD = $(rdma_rig_ldadd)
