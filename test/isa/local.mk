# The copy kernel's machine code, executed.
isa_sources = \
	test/isa/isa.h test/isa/isa_impl.h \
	test/isa/isa_cache.h test/isa/isa_cache.c \
	test/isa/isa_compare.c test/isa/isa_decode.c test/isa/isa_flow.c test/isa/isa_lds.c \
	test/isa/isa_mem.c test/isa/isa_memory.c test/isa/isa_ops.c test/isa/isa_parse.c \
	test/isa/isa_queue.c test/isa/isa_run.c test/isa/isa_salu.c test/isa/isa_valu.c \
	test/isa/isa_wave.c
isa_rig_sources = \
	test/isa/copy_rig.h test/isa/copy_rig.c test/isa/isa_code.h test/isa/isa_code.c
EXTRA_DIST += test/isa/README.md test/isa/no_comgr.sh

if HAVE_COMGR
check_LTLIBRARIES += test/isa/libisa.la
test_isa_libisa_la_SOURCES = $(isa_sources)
test_isa_libisa_la_LIBADD = -lamd_comgr

# Kernels of programs over test/kfd; to be loaded by path, so -rpath
noinst_LTLIBRARIES += test/isa/libisa_kfd.la
test_isa_libisa_kfd_la_SOURCES = $(isa_sources) test/isa/isa_kfd.c
test_isa_libisa_kfd_la_CFLAGS = $(AM_CFLAGS) -pthread
test_isa_libisa_kfd_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/isa
test_isa_libisa_kfd_la_LIBADD = -lamd_comgr -lpthread

isa_programs = test/isa/test_isa_copy test/isa/test_isa_model test/isa/test_isa_op
check_PROGRAMS += $(isa_programs)
TESTS += $(isa_programs)

test_isa_test_isa_copy_SOURCES = test/isa/test_isa_copy.c $(isa_rig_sources)
test_isa_test_isa_copy_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_isa_test_isa_copy_LDADD = test/isa/libisa.la libmuct_code.la $(CHECK_LIBS)

test_isa_test_isa_model_SOURCES = test/isa/test_isa_model.c $(isa_rig_sources)
test_isa_test_isa_model_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_isa_test_isa_model_LDADD = test/isa/libisa.la libmuct_code.la $(CHECK_LIBS)

test_isa_test_isa_op_SOURCES = test/isa/test_isa_op.c test/isa/isa_op_rows.h
test_isa_test_isa_op_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_isa_test_isa_op_LDADD = test/isa/libisa.la $(CHECK_LIBS)
else
TESTS += test/isa/no_comgr.sh
endif
