# MKV_HELP2MAN: manual pages from --help, which has to run where it is built.
AC_DEFUN([MKV_HELP2MAN], [
    AC_CHECK_PROG([HELP2MAN], [help2man], [help2man])
    AM_CONDITIONAL([HAVE_HELP2MAN], [test -n "$HELP2MAN" && test "x$cross_compiling" != xyes])
])
