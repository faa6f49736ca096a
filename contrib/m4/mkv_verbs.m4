# MKV_VERBS: libibverbs for mori_rdma; without it the module has mori_xgmi alone.
AC_DEFUN([MKV_VERBS], [
    AC_ARG_WITH([verbs],
        [AS_HELP_STRING([--with-verbs], [build mori_rdma (default: when libibverbs is found)])],
        [], [with_verbs=auto])
    have_verbs=no
    AS_IF([test "x$with_verbs" != xno], [
        PKG_CHECK_MODULES([VERBS], [libibverbs], [have_verbs=yes], [
            AS_IF([test "x$with_verbs" != xauto],
                [AC_MSG_ERROR([--with-verbs was given, but libibverbs with headers was not found])])])
    ])
    AS_IF([test "x$have_verbs" = xyes],
        [AC_DEFINE([HAVE_VERBS], [1], [libibverbs is there: mori_rdma is built])
        # rdma-core 50
        save_CPPFLAGS=$CPPFLAGS
        CPPFLAGS="$CPPFLAGS $VERBS_CFLAGS"
        AC_CHECK_MEMBERS([struct ibv_port_attr.active_speed_ex], [], [],
            [[#include <infiniband/verbs.h>]])
        CPPFLAGS=$save_CPPFLAGS])
    AM_CONDITIONAL([HAVE_VERBS], [test "x$have_verbs" = xyes])
])
