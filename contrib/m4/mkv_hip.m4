# MKV_HIP: the HIP runtime's headers. The product binds libamdhip64 by dlopen and
# compiles without them; with them, its table is checked against the prototypes.
AC_DEFUN([MKV_HIP], [
    AC_ARG_WITH([rocm],
        [AS_HELP_STRING([--with-rocm@<:@=DIR@:>@], [prefix of ROCm's headers (default: /usr and /opt/rocm, when found)])],
        [], [with_rocm=auto])
    have_hip=no
    HIP_CFLAGS=
    AS_IF([test "x$with_rocm" != xno], [
        AS_CASE([$with_rocm], [auto|yes], [dirs="/usr /opt/rocm"], [dirs=$with_rocm])
        for dir in $dirs; do
            AS_IF([test $have_hip = no && test -f $dir/include/hip/hip_runtime_api.h],
                [have_hip=yes; HIP_CFLAGS="-isystem $dir/include -D__HIP_PLATFORM_AMD__"])
        done
        AS_IF([test $have_hip = no && test "x$with_rocm" != xauto],
            [AC_MSG_ERROR([--with-rocm=$with_rocm was given, but include/hip/hip_runtime_api.h is not in: $dirs])])
    ])
    AS_IF([test $have_hip = yes],
        [AC_DEFINE([HAVE_HIP_HEADERS], [1], [hip/hip_runtime_api.h is there])])
    AM_CONDITIONAL([HAVE_HIP_HEADERS], [test $have_hip = yes])
    AC_SUBST([HIP_CFLAGS])
])
