# Unit tests: what both transports share.
check_PROGRAMS += test/unit/base/test_muct_base
TESTS += test/unit/base/test_muct_base
test_unit_base_test_muct_base_SOURCES = test/unit/base/test_muct_base.c
test_unit_base_test_muct_base_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_base_test_muct_base_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_base_test_muct_base_LDFLAGS = $(muct_ldflags)
test_unit_base_test_muct_base_LDADD = test/support/libfakehip.la libmuct.la $(CHECK_LIBS)

check_PROGRAMS += test/unit/base/test_muct_gpu_tl
TESTS += test/unit/base/test_muct_gpu_tl
test_unit_base_test_muct_gpu_tl_SOURCES = test/unit/base/test_muct_gpu_tl.c
test_unit_base_test_muct_gpu_tl_CPPFLAGS = $(AM_CPPFLAGS) $(hipcpu_path_cppflags)
test_unit_base_test_muct_gpu_tl_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_base_test_muct_gpu_tl_LDFLAGS = $(muct_ldflags)
test_unit_base_test_muct_gpu_tl_LDADD = test/support/libfakehip.la libmuct.la $(CHECK_LIBS) -lpthread

check_PROGRAMS += test/unit/base/test_muct_loader
TESTS += test/unit/base/test_muct_loader
test_unit_base_test_muct_loader_SOURCES = test/unit/base/test_muct_loader.c
test_unit_base_test_muct_loader_CFLAGS = $(AM_CFLAGS) $(CHECK_CFLAGS)
test_unit_base_test_muct_loader_LDADD = libmuct_version.la $(CHECK_LIBS)

if HAVE_HIP_HEADERS
check_PROGRAMS += test/unit/base/test_muct_hip_abi
TESTS += test/unit/base/test_muct_hip_abi
test_unit_base_test_muct_hip_abi_SOURCES = test/unit/base/test_muct_hip_abi.c
test_unit_base_test_muct_hip_abi_CPPFLAGS = $(AM_CPPFLAGS) $(HIP_CFLAGS)
endif
