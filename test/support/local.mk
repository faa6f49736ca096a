# What every test program shares: skips, patterns, processes.
check_LTLIBRARIES += test/support/libmkvtest.la
test_support_libmkvtest_la_SOURCES = \
	test/support/mkv_check.h \
	test/support/mkv_test.h test/support/mkv_test.c \
	test/support/mkv_proc.h test/support/mkv_proc.c \
	test/support/mkv_hip.h test/support/mkv_hip.c
test_support_libmkvtest_la_LIBADD = -ldl
EXTRA_DIST += test/support/environment.sh
