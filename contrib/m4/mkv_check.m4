# MKV_CHECK: the Check framework, for make check.
AC_DEFUN([MKV_CHECK], [
    PKG_CHECK_MODULES([CHECK], [check >= 0.12], [have_check=yes], [have_check=no])
    AM_CONDITIONAL([HAVE_CHECK], [test "x$have_check" = xyes])
])
