# Unit tests: src.
src_unit_programs = \
	test/unit/src_blocks \
	test/unit/src_wire \
	test/unit/src_options \
	test/unit/src_lists \
	test/unit/src_mixed \
	test/unit/src_post \
	test/unit/src_setup \
	test/unit/src_xfer
check_PROGRAMS += $(src_unit_programs)
TESTS += $(src_unit_programs)

src_unit_cppflags = $(AM_CPPFLAGS) $(CHECK_CFLAGS)
src_unit_ldadd = \
	libmorikv_core.la test/support/libmkvtest.la $(CHECK_LIBS) $(UCX_LIBS)

test_unit_src_blocks_SOURCES = test/unit/src_blocks.c
test_unit_src_blocks_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_blocks_LDADD = $(src_unit_ldadd)

test_unit_src_wire_SOURCES = test/unit/src_wire.c
test_unit_src_wire_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_wire_LDADD = $(src_unit_ldadd)

test_unit_src_options_SOURCES = test/unit/src_options.c
test_unit_src_options_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_options_LDADD = $(src_unit_ldadd)

# Two contexts of the library over a UCP that the test holds in its hands.
src_pair_sources = \
	test/unit/src_pair.h test/unit/src_pair.c \
	test/fake/fake_ucp.h test/fake/fake_ucp.c

test_unit_src_xfer_SOURCES = test/unit/src_xfer.c $(src_pair_sources)
test_unit_src_xfer_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_xfer_LDADD = $(src_unit_ldadd)

test_unit_src_lists_SOURCES = test/unit/src_lists.c $(src_pair_sources)
test_unit_src_lists_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_lists_LDADD = $(src_unit_ldadd)

test_unit_src_mixed_SOURCES = test/unit/src_mixed.c $(src_pair_sources)
test_unit_src_mixed_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_mixed_LDADD = $(src_unit_ldadd)

test_unit_src_post_SOURCES = test/unit/src_post.c $(src_pair_sources)
test_unit_src_post_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_post_LDADD = $(src_unit_ldadd)

test_unit_src_setup_SOURCES = test/unit/src_setup.c $(src_pair_sources)
test_unit_src_setup_CPPFLAGS = $(src_unit_cppflags)
test_unit_src_setup_LDADD = $(src_unit_ldadd)

dist_check_SCRIPTS += test/unit/src_exports.sh
TESTS += test/unit/src_exports.sh
