# Unit tests: hipcpu.
check_PROGRAMS += test/unit/test_xgmi_list
TESTS += test/unit/test_xgmi_list
test_unit_test_xgmi_list_SOURCES = test/unit/test_xgmi_list.c \
	ucx_plugin/xgmi/xgmi_list.c ucx_plugin/xgmi/xgmi_list.h \
	ucx_plugin/xgmi/xgmi_kernel.h
test_unit_test_xgmi_list_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_xgmi_list_LDADD = $(CHECK_LIBS)

check_PROGRAMS += test/unit/test_hipcpu
TESTS += test/unit/test_hipcpu
test_unit_test_hipcpu_SOURCES = test/unit/test_hipcpu.c \
	ucx_plugin/xgmi/xgmi_list.c
test_unit_test_hipcpu_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test -D_GNU_SOURCE
test_unit_test_hipcpu_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_hipcpu_LDADD = test/fake/libhipcpu.la $(CHECK_LIBS)

check_PROGRAMS += test/unit/test_xgmi_kernel
TESTS += test/unit/test_xgmi_kernel
test_unit_test_xgmi_kernel_SOURCES = test/unit/test_xgmi_kernel.c \
	ucx_plugin/xgmi/xgmi_list.c ucx_plugin/xgmi/xgmi_kernel.hip
test_unit_test_xgmi_kernel_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS) -pthread \
	-Wno-missing-prototypes -Wno-unknown-pragmas -Wno-shadow
test_unit_test_xgmi_kernel_LDADD = $(CHECK_LIBS) -lpthread

check_PROGRAMS += test/unit/test_xgmi_code
TESTS += test/unit/test_xgmi_code
test_unit_test_xgmi_code_SOURCES = test/unit/test_xgmi_code.c
test_unit_test_xgmi_code_CPPFLAGS = $(AM_CPPFLAGS)
if HAVE_HIPCC
test_unit_test_xgmi_code_CPPFLAGS += -DHAVE_KERNEL_CODE
endif
test_unit_test_xgmi_code_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_test_xgmi_code_LDADD = libmuct_code.la $(CHECK_LIBS)
