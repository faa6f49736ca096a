# Programs and libraries of different versions together. The header of each release is
# kept in a folder of its name; the next one is today's, with a member more in every
# structure that has a size.
abi_next_header = test/abi/next/morikv.h
EXTRA_DIST += test/abi/0.1/morikv.h test/abi/libmorikv.abi
CLEANFILES += $(abi_next_header)

$(abi_next_header): $(top_srcdir)/src/morikv.h
	$(AM_V_GEN)$(MKDIR_P) test/abi/next && \
	awk '/^typedef struct/ { sized = 0 } /^    size_t size;/ { sized = 1 } \
		(sized && /^\} mkv_.*_t;/) || /^\} mkv_event_t;/ { print "    uint64_t added_member;"; sized = 0 } \
		{ print }' $(top_srcdir)/src/morikv.h | sed \
		-e 's/^#define MKV_API_MINOR .*/#define MKV_API_MINOR 99/' >$@.new && mv $@.new $@

# The library of that time, for the one program that needs it.
EXTRA_LTLIBRARIES += test/abi/libmorikv_next.la
CLEANFILES += test/abi/libmorikv_next.la
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
abi_sources = test/abi/abi_story.c
abi_ldadd = test/fake/ucp/libfakeucp.la $(UCX_LIBS) -lpthread
abi_released_cppflags = $(AM_CPPFLAGS) -include $(top_srcdir)/test/abi/0.1/morikv.h

test_abi_abi_old_on_new_SOURCES = $(abi_sources)
test_abi_abi_old_on_new_CPPFLAGS = $(abi_released_cppflags)
test_abi_abi_old_on_new_LDADD = test/abi/libmorikv_next.la $(abi_ldadd)

test_abi_abi_new_on_old_SOURCES = $(abi_sources)
test_abi_abi_new_on_old_CPPFLAGS = $(AM_CPPFLAGS) -DABI_NEXT \
	-include $(abs_builddir)/$(abi_next_header)
test_abi_abi_new_on_old_LDADD = libmorikv_core.la $(abi_ldadd)
$(test_abi_abi_new_on_old_OBJECTS): $(abi_next_header)

test_abi_abi_released_SOURCES = $(abi_sources)
test_abi_abi_released_CPPFLAGS = $(abi_released_cppflags)
test_abi_abi_released_LDADD = libmorikv_core.la $(abi_ldadd)

test_abi_abi_padding_SOURCES = test/abi/abi_padding.c
