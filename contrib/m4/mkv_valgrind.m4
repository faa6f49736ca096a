# MKV_VALGRIND: for contrib/test's valgrind level and make bench's instruction counts.
AC_DEFUN([MKV_VALGRIND], [
    AC_PATH_PROG([VALGRIND], [valgrind])
])
