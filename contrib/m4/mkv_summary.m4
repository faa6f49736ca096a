# MKV_SUMMARY: prints the chosen settings.
AC_DEFUN([MKV_SUMMARY], [
    check_hint=
    AS_IF([test "x$have_check" = xno], [check_hint=': make check will fail; install Check >= 0.12'])
    AC_MSG_NOTICE([UCX        $ucx_built_against $UCX_CFLAGS $UCX_LIBS])
    AC_MSG_NOTICE([cores for $ucx_cores])
    verbs_hint=
    AS_IF([test "x$have_verbs" = xno && test "x$with_verbs" = xauto], [verbs_hint=': install libibverbs-dev (Debian, Ubuntu) or rdma-core-devel'])
    AC_MSG_NOTICE([mori_rdma  $have_verbs${verbs_hint}])
    AC_MSG_NOTICE([HIP headers $have_hip])
    AC_MSG_NOTICE([copy kernel $kernel_from])
    AC_MSG_NOTICE([tests      $have_check${check_hint}])
    AC_MSG_NOTICE([sanitizers $enable_sanitize])
])
