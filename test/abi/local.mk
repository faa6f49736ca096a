# Programs and libraries of different versions together. The header of each release is
# kept in a folder of its name; the next one is today's, with a member more in every
# structure that has a size.
abi_next_header = test/abi/next/morikv.h
EXTRA_DIST += test/abi/0.1/morikv.h test/abi/libmorikv.abi
CLEANFILES += $(abi_next_header)

$(abi_next_header): $(top_srcdir)/src/morikv.h
	$(AM_V_GEN)$(MKDIR_P) test/abi/next && \
	sed -E -e 's/^\} mkv_(open_params|region|peer_attr|map_params|map_attr|plan_attr|xfer_params|sel|gate|xfer_attr|stats|event)_t;/    uint64_t added_member;\n&/' \
		-e 's/^#define MKV_API_MINOR .*/#define MKV_API_MINOR 99/' \
		$(top_srcdir)/src/morikv.h >$@.new && \
	test `grep -c added_member $@.new` = 12 && mv $@.new $@

# The library of that time.
check_LTLIBRARIES += test/abi/libmorikv_next.la
test_abi_libmorikv_next_la_SOURCES = $(libmorikv_core_la_SOURCES)
test_abi_libmorikv_next_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-include $(abs_builddir)/$(abi_next_header)
test_abi_libmorikv_next_la_CFLAGS = $(AM_CFLAGS) -O0 -g0
$(test_abi_libmorikv_next_la_OBJECTS): $(abi_next_header)

abi_programs = \
	test/abi/abi_old_on_new \
	test/abi/abi_new_on_old \
	test/abi/abi_released \
	test/abi/abi_padding
check_PROGRAMS += $(abi_programs)
TESTS += $(abi_programs)
abi_sources = test/abi/abi_story.c test/fake/ucp/fake_ucp.c test/fake/ucp/fake_ucp.h
abi_released_cppflags = $(AM_CPPFLAGS) -include $(top_srcdir)/test/abi/0.1/morikv.h

test_abi_abi_old_on_new_SOURCES = $(abi_sources)
test_abi_abi_old_on_new_CPPFLAGS = $(abi_released_cppflags)
test_abi_abi_old_on_new_LDADD = test/abi/libmorikv_next.la $(UCX_LIBS) -lpthread

test_abi_abi_new_on_old_SOURCES = $(abi_sources)
test_abi_abi_new_on_old_CPPFLAGS = $(AM_CPPFLAGS) -DABI_NEXT \
	-include $(abs_builddir)/$(abi_next_header)
test_abi_abi_new_on_old_LDADD = libmorikv_core.la $(UCX_LIBS) -lpthread
$(test_abi_abi_new_on_old_OBJECTS): $(abi_next_header)

test_abi_abi_released_SOURCES = $(abi_sources)
test_abi_abi_released_CPPFLAGS = $(abi_released_cppflags)
test_abi_abi_released_LDADD = libmorikv_core.la $(UCX_LIBS) -lpthread

test_abi_abi_padding_SOURCES = test/abi/abi_padding.c
