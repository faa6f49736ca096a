# Programs and libraries of two versions together: today's, and a synthetic next one, whose
# structures with a size all have one member more.
abi_next_header = test/abi/next/morikv.h
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
	test/abi/abi_today \
	test/abi/abi_padding
check_PROGRAMS += $(abi_programs)
TESTS += $(abi_programs)
abi_sources = test/abi/abi_story.c
abi_ldadd = test/fake/ucp/libfakeucp.la $(UCX_LIBS) -lpthread
abi_today_cppflags = $(AM_CPPFLAGS) -include $(top_srcdir)/src/morikv.h

test_abi_abi_old_on_new_SOURCES = $(abi_sources)
test_abi_abi_old_on_new_CPPFLAGS = $(abi_today_cppflags)
test_abi_abi_old_on_new_LDADD = test/abi/libmorikv_next.la $(abi_ldadd)

test_abi_abi_new_on_old_SOURCES = $(abi_sources)
test_abi_abi_new_on_old_CPPFLAGS = $(AM_CPPFLAGS) -DABI_NEXT \
	-include $(abs_builddir)/$(abi_next_header)
test_abi_abi_new_on_old_LDADD = libmorikv_core.la $(abi_ldadd)
$(test_abi_abi_new_on_old_OBJECTS): $(abi_next_header)

test_abi_abi_today_SOURCES = $(abi_sources)
test_abi_abi_today_CPPFLAGS = $(abi_today_cppflags)
test_abi_abi_today_LDADD = libmorikv_core.la $(abi_ldadd)

test_abi_abi_padding_SOURCES = test/abi/abi_padding.c
