# Unit tests: mori_xgmi.
xgmi_unit_programs = \
	test/unit/xgmi/test_xgmi_am \
	test/unit/xgmi/test_xgmi_am_peer \
	test/unit/xgmi/test_xgmi_aside \
	test/unit/xgmi/test_xgmi_box \
	test/unit/xgmi/test_xgmi_code \
	test/unit/xgmi/test_xgmi_ep \
	test/unit/xgmi/test_xgmi_export \
	test/unit/xgmi/test_xgmi_fuzz \
	test/unit/xgmi/test_xgmi_gather \
	test/unit/xgmi/test_xgmi_inbox \
	test/unit/xgmi/test_xgmi_inval \
	test/unit/xgmi/test_xgmi_kernel \
	test/unit/xgmi/test_xgmi_key \
	test/unit/xgmi/test_xgmi_leave \
	test/unit/xgmi/test_xgmi_links \
	test/unit/xgmi/test_xgmi_list \
	test/unit/xgmi/test_xgmi_loader \
	test/unit/xgmi/test_xgmi_map \
	test/unit/xgmi/test_xgmi_mapping \
	test/unit/xgmi/test_xgmi_md \
	test/unit/xgmi/test_xgmi_moves \
	test/unit/xgmi/test_xgmi_open \
	test/unit/xgmi/test_xgmi_page \
	test/unit/xgmi/test_xgmi_queue \
	test/unit/xgmi/test_xgmi_ring
check_PROGRAMS += $(xgmi_unit_programs)
TESTS += $(xgmi_unit_programs) test/unit/xgmi/xgmi_fence.sh test/unit/xgmi/xgmi_archs.sh
EXTRA_DIST += test/unit/xgmi/xgmi_fence.sh test/unit/xgmi/xgmi_archs.sh

# The transport in a real UCX, linked with it instead of loaded.
xgmi_inside_sources = test/unit/xgmi/xgmi_inside.h test/unit/xgmi/xgmi_inside.c
test_unit_xgmi_test_xgmi_am_SOURCES = \
	test/unit/xgmi/test_xgmi_am.c test/unit/xgmi/xgmi_inside.h test/unit/xgmi/xgmi_inside.c \
	test/unit/xgmi/xgmi_lists.h test/unit/xgmi/xgmi_lists.c \
	test/unit/xgmi/xgmi_sides.h test/unit/xgmi/xgmi_sides.c
test_unit_xgmi_test_xgmi_am_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_am_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_am_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_am_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la libmuct.la \
	$(CHECK_LIBS) $(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_am_peer_SOURCES = \
	test/unit/xgmi/test_xgmi_am_peer.c test/unit/xgmi/xgmi_inside.h test/unit/xgmi/xgmi_inside.c \
	test/unit/xgmi/xgmi_lists.h test/unit/xgmi/xgmi_lists.c \
	test/unit/xgmi/xgmi_sides.h test/unit/xgmi/xgmi_sides.c
test_unit_xgmi_test_xgmi_am_peer_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_am_peer_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_am_peer_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_am_peer_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la libmuct.la \
	$(CHECK_LIBS) $(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_aside_SOURCES = test/unit/xgmi/test_xgmi_aside.c
test_unit_xgmi_test_xgmi_aside_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_aside_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_aside_LDADD = test/support/libmkvtest.la libmuct.la $(CHECK_LIBS)

test_unit_xgmi_test_xgmi_code_SOURCES = test/unit/xgmi/test_xgmi_code.c
test_unit_xgmi_test_xgmi_code_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_KERNEL
test_unit_xgmi_test_xgmi_code_CPPFLAGS += -DHAVE_KERNEL_CODE
endif
test_unit_xgmi_test_xgmi_code_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_code_LDADD = libmuct_code.la $(CHECK_LIBS)

# Endpoints of the module in a real UCX, to the process itself.
test_unit_xgmi_test_xgmi_ep_SOURCES = \
	test/unit/xgmi/test_xgmi_ep.c test/unit/xgmi/xgmi_lists.h test/unit/xgmi/xgmi_lists.c
test_unit_xgmi_test_xgmi_ep_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_ep_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_ep_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_fuzz_SOURCES = \
	test/unit/xgmi/test_xgmi_fuzz.c test/unit/xgmi/ends_here.h test/unit/xgmi/xgmi_inside.h test/unit/xgmi/xgmi_inside.c \
	test/unit/xgmi/xgmi_lists.h test/unit/xgmi/xgmi_lists.c \
	test/unit/xgmi/xgmi_sides.h test/unit/xgmi/xgmi_sides.c
test_unit_xgmi_test_xgmi_fuzz_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_fuzz_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_fuzz_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_fuzz_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la libmuct.la \
	$(CHECK_LIBS) $(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_gather_SOURCES = test/unit/xgmi/test_xgmi_gather.c
test_unit_xgmi_test_xgmi_gather_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_gather_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_gather_LDADD = libmuct.la $(CHECK_LIBS)

# Messages with both ends in one process
test_unit_xgmi_test_xgmi_box_SOURCES = \
	test/unit/xgmi/test_xgmi_box.c test/unit/xgmi/ends_here.h
test_unit_xgmi_test_xgmi_box_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_box_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_box_LDADD = \
	test/support/libmkvtest.la libmuct.la $(CHECK_LIBS) $(UCX_LIBS) -lucs -lpthread -ldl

test_unit_xgmi_test_xgmi_inbox_SOURCES = \
	test/unit/xgmi/test_xgmi_inbox.c test/unit/xgmi/ends_here.h
test_unit_xgmi_test_xgmi_inbox_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -pthread
test_unit_xgmi_test_xgmi_inbox_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_inbox_LDADD = \
	test/support/libmkvtest.la libmuct.la $(CHECK_LIBS) $(UCX_LIBS) -lucs -lpthread

# The module in a real UCX, in two processes.
test_unit_xgmi_test_xgmi_inval_SOURCES = test/unit/xgmi/test_xgmi_inval.c
test_unit_xgmi_test_xgmi_inval_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_inval_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_inval_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

# The kernel itself, played by threads.
test_unit_xgmi_test_xgmi_kernel_SOURCES = test/unit/xgmi/test_xgmi_kernel.c
test_unit_xgmi_test_xgmi_kernel_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -pthread \
	-Wno-missing-prototypes -Wno-unknown-pragmas -Wno-shadow
test_unit_xgmi_test_xgmi_kernel_LDADD = libmuct_code.la $(CHECK_LIBS) -lpthread

test_unit_xgmi_test_xgmi_key_SOURCES = test/unit/xgmi/test_xgmi_key.c
test_unit_xgmi_test_xgmi_key_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_key_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_key_LDADD = libmuct.la $(CHECK_LIBS)

test_unit_xgmi_test_xgmi_leave_SOURCES = test/unit/xgmi/test_xgmi_leave.c
test_unit_xgmi_test_xgmi_leave_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_leave_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_leave_LDADD = test/support/libmkvtest.la libmuct.la $(CHECK_LIBS)

test_unit_xgmi_test_xgmi_links_SOURCES = test/unit/xgmi/test_xgmi_links.c
test_unit_xgmi_test_xgmi_links_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_links_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_links_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_links_LDADD = \
	test/support/libctside.la test/support/libmkvtest.la libmuct.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_list_SOURCES = test/unit/xgmi/test_xgmi_list.c
test_unit_xgmi_test_xgmi_list_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_list_LDADD = libmuct_code.la $(CHECK_LIBS)

# These want another process that owns memory.
xgmi_owner_cppflags = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
xgmi_owner_ldadd = \
	test/support/libfakehip.la test/support/libxgmiowner.la libmuct.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -lpthread -ldl

test_unit_xgmi_test_xgmi_export_SOURCES = test/unit/xgmi/test_xgmi_export.c
test_unit_xgmi_test_xgmi_export_CPPFLAGS = $(xgmi_owner_cppflags)
test_unit_xgmi_test_xgmi_export_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_export_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_export_LDADD = $(xgmi_owner_ldadd)

test_unit_xgmi_test_xgmi_loader_SOURCES = test/unit/xgmi/test_xgmi_loader.c
test_unit_xgmi_test_xgmi_loader_CPPFLAGS = $(xgmi_owner_cppflags)
test_unit_xgmi_test_xgmi_loader_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_loader_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_loader_LDADD = $(xgmi_owner_ldadd)

test_unit_xgmi_test_xgmi_map_SOURCES = test/unit/xgmi/test_xgmi_map.c
test_unit_xgmi_test_xgmi_map_CPPFLAGS = $(xgmi_owner_cppflags)
test_unit_xgmi_test_xgmi_map_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_map_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_map_LDADD = $(xgmi_owner_ldadd)

test_unit_xgmi_test_xgmi_mapping_SOURCES = test/unit/xgmi/test_xgmi_mapping.c
test_unit_xgmi_test_xgmi_mapping_CPPFLAGS = $(xgmi_owner_cppflags)
test_unit_xgmi_test_xgmi_mapping_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_mapping_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_mapping_LDADD = $(xgmi_owner_ldadd)

test_unit_xgmi_test_xgmi_md_SOURCES = test/unit/xgmi/test_xgmi_md.c
test_unit_xgmi_test_xgmi_md_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_md_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_md_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_md_LDADD = test/support/libfakehip.la test/support/libmkvtest.la libmuct.la $(CHECK_LIBS)

# Private host memory of the process itself, by the module in a real UCX.
test_unit_xgmi_test_xgmi_moves_SOURCES = test/unit/xgmi/test_xgmi_moves.c
test_unit_xgmi_test_xgmi_moves_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_moves_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_moves_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_page_SOURCES = test/unit/xgmi/test_xgmi_page.c
test_unit_xgmi_test_xgmi_page_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_page_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_page_LDADD = \
	test/support/libmkvtest.la libmuct.la $(CHECK_LIBS) $(UCX_LIBS) -lucs -lpthread -ldl

# The module in a real UCX, and another process that is stopped.
test_unit_xgmi_test_xgmi_open_SOURCES = \
	test/unit/xgmi/test_xgmi_open.c test/unit/xgmi/xgmi_lists.h test/unit/xgmi/xgmi_lists.c
test_unit_xgmi_test_xgmi_open_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_xgmi_test_xgmi_open_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_open_LDADD = \
	test/support/libfakehip.la test/support/libctside.la test/support/libmkvtest.la $(CHECK_LIBS) \
	$(UCX_LIBS) -luct -lucs -ldl -lm

test_unit_xgmi_test_xgmi_queue_SOURCES = test/unit/xgmi/test_xgmi_queue.c
test_unit_xgmi_test_xgmi_queue_CPPFLAGS = $(xgmi_owner_cppflags)
test_unit_xgmi_test_xgmi_queue_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_xgmi_test_xgmi_queue_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_queue_LDADD = $(xgmi_owner_ldadd)

test_unit_xgmi_test_xgmi_ring_SOURCES = test/unit/xgmi/test_xgmi_ring.c
test_unit_xgmi_test_xgmi_ring_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -pthread
test_unit_xgmi_test_xgmi_ring_LDFLAGS = $(muct_ldflags)
test_unit_xgmi_test_xgmi_ring_LDADD = \
	test/support/libmkvtest.la libmuct.la $(CHECK_LIBS) $(UCX_LIBS) -lpthread
