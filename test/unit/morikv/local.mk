# Unit tests: libmorikv.
morikv_unit_programs = \
	test/unit/morikv/test_mkv_blocks \
	test/unit/morikv/test_mkv_lists \
	test/unit/morikv/test_mkv_mixed \
	test/unit/morikv/test_mkv_options \
	test/unit/morikv/test_mkv_post \
	test/unit/morikv/test_mkv_setup \
	test/unit/morikv/test_mkv_states \
	test/unit/morikv/test_mkv_units \
	test/unit/morikv/test_mkv_wire \
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

test_unit_morikv_test_mkv_wire_SOURCES = test/unit/morikv/test_mkv_wire.c
test_unit_morikv_test_mkv_wire_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_wire_LDADD = $(morikv_unit_ldadd)

# Two contexts of the library over a UCP that the test holds in its hands.
morikv_pair_ldadd = \
	test/support/libmkvpair.la libmorikv_core.la test/fake/ucp/libfakeucp.la \
	test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_unit_morikv_test_mkv_lists_SOURCES = test/unit/morikv/test_mkv_lists.c
test_unit_morikv_test_mkv_lists_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_lists_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_units_SOURCES = test/unit/morikv/test_mkv_units.c
test_unit_morikv_test_mkv_units_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_units_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_mixed_SOURCES = test/unit/morikv/test_mkv_mixed.c
test_unit_morikv_test_mkv_mixed_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_mixed_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_post_SOURCES = test/unit/morikv/test_mkv_post.c
test_unit_morikv_test_mkv_post_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_post_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_setup_SOURCES = test/unit/morikv/test_mkv_setup.c
test_unit_morikv_test_mkv_setup_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_setup_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_states_SOURCES = test/unit/morikv/test_mkv_states.c
test_unit_morikv_test_mkv_states_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_states_LDADD = $(morikv_pair_ldadd)

test_unit_morikv_test_mkv_xfer_SOURCES = test/unit/morikv/test_mkv_xfer.c
test_unit_morikv_test_mkv_xfer_CPPFLAGS = $(morikv_unit_cppflags)
test_unit_morikv_test_mkv_xfer_LDADD = $(morikv_pair_ldadd)

dist_check_SCRIPTS += test/unit/morikv/test_mkv_exports.sh
TESTS += test/unit/morikv/test_mkv_exports.sh
