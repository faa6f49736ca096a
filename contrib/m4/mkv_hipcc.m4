# MKV_HIPCC: the compiler of the copy kernel for AMD GPUs. Without it the module
# carries no kernel and copies block by block.
AC_DEFUN([MKV_HIPCC], [
    AC_ARG_WITH([hipcc],
        [AS_HELP_STRING([--with-hipcc@<:@=PATH@:>@], [compile the copy kernel (default: when hipcc is found)])],
        [], [with_hipcc=auto])
    AC_ARG_VAR([HIPCC], [compiler of the copy kernel])
    AS_CASE([$with_hipcc],
        [no], [HIPCC=],
        [auto|yes], [AS_IF([test -z "$HIPCC"], [AC_PATH_PROG([HIPCC], [hipcc], [], [$PATH:/opt/rocm/bin])])],
        [HIPCC=$with_hipcc])
    AS_IF([test "x$with_hipcc" != xauto && test "x$with_hipcc" != xno && test -z "$HIPCC"],
        [AC_MSG_ERROR([--with-hipcc was given, but hipcc was not found])])
    AM_CONDITIONAL([HAVE_HIPCC], [test -n "$HIPCC"])
])
