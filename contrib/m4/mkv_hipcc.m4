# MKV_HIPCC: where the copy kernel for AMD GPUs comes from: a hipcc that compiles it for each
# architecture, or the bundle that a release tarball brings. A module without a kernel copies
# lists block by block, many times slower, so it is built on request alone.
AC_DEFUN([MKV_HIPCC], [
    AC_ARG_WITH([hipcc],
        [AS_HELP_STRING([--with-hipcc@<:@=PATH@:>@], [compile the copy kernel by this hipcc (default: the hipcc in PATH or /opt/rocm/bin, else the bundle of the tarball)])
AS_HELP_STRING([--without-hipcc], [build without a copy kernel: lists of blocks go block by block])],
        [], [with_hipcc=auto])
    AC_ARG_VAR([HIPCC], [compiler of the copy kernel])
    AS_CASE([$with_hipcc],
        [no], [HIPCC=],
        [auto|yes], [AS_IF([test -z "$HIPCC"], [AC_PATH_PROG([HIPCC], [hipcc], [], [$PATH:/opt/rocm/bin])])],
        [HIPCC=$with_hipcc])
    AS_IF([test "x$with_hipcc" = xyes && test -z "$HIPCC"],
        [AC_MSG_ERROR([--with-hipcc was given, but hipcc was not found])])

    kernel_archs=`"$srcdir/contrib/compile_kernel" --archs`
    AS_IF([test -n "$HIPCC"], [
        AC_MSG_CHECKING([whether $HIPCC compiles for $kernel_archs])
        echo '#include <hip/hip_runtime.h>' >conftest.hip
        AS_IF([HIPCC=$HIPCC "$srcdir/contrib/compile_kernel" conftest.hip conftest.bundle >conftest.log 2>&1],
            [
                AC_MSG_RESULT([yes])
                kernel_lacks=`sed -n 's/^contrib.compile_kernel: //p' conftest.log`
                AS_IF([test -n "$kernel_lacks"], [AC_MSG_NOTICE([copy kernel: $kernel_lacks])])
            ],
            [
                AC_MSG_RESULT([no])
                cat conftest.log >&AS_MESSAGE_LOG_FD
                AS_IF([test "x$with_hipcc" != xauto],
                    [AC_MSG_ERROR([$HIPCC does not compile for $kernel_archs (config.log has its output); hipcc of ROCm 7.0 or later does])])
                hipcc_reason="$HIPCC does not compile for $kernel_archs"
                HIPCC=
            ])
        rm -f conftest.hip conftest.bundle conftest.log
    ], [hipcc_reason="hipcc was not found"])

    AS_IF([test "x$with_hipcc" = xno], [kernel_from=no],
        [test -n "$HIPCC"], [kernel_from=$HIPCC],
        [test -e "$srcdir/contrib/xgmi_kernel.bundle"], [kernel_from="the bundle of this tarball"],
        [AC_MSG_ERROR([no copy kernel for AMD GPUs: $hipcc_reason. Either
  install hipcc of ROCm 7.0 or later (Debian forky: apt-get install hipcc; ROCm's own: --with-hipcc=/opt/rocm/bin/hipcc),
  take the release tarball, which brings the compiled kernel,
  or give --without-hipcc: lists of blocks then go block by block, many times slower])])
    AM_CONDITIONAL([HAVE_HIPCC], [test -n "$HIPCC"])
    AM_CONDITIONAL([HAVE_KERNEL], [test "x$kernel_from" != xno])
])
