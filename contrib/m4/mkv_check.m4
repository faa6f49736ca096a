# MKV_CHECK: the Check framework, for make check.
AC_DEFUN([MKV_CHECK], [
    AC_ARG_WITH([check],
        [AS_HELP_STRING([--without-check], [build no tests (default: when Check is found)])],
        [], [with_check=auto])
    have_check=no
    AS_IF([test "x$with_check" != xno],
        [PKG_CHECK_MODULES([CHECK], [check >= 0.12], [have_check=yes], [
            AS_IF([test "x$with_check" != xauto],
                [AC_MSG_ERROR([--with-check was given, but Check >= 0.12 was not found])])])])
    AM_CONDITIONAL([HAVE_CHECK], [test "x$have_check" = xyes])
])
