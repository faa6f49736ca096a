# MKV_SANITIZE: --enable-sanitize=LIST builds everything with -fsanitize=LIST.
AC_DEFUN([MKV_SANITIZE], [
    AC_ARG_ENABLE([sanitize],
        [AS_HELP_STRING([--enable-sanitize@<:@=LIST@:>@],
            [build with sanitizers (address,undefined)])],
        [], [enable_sanitize=no])
    AS_IF([test "x$enable_sanitize" = xyes], [enable_sanitize=address,undefined])
    MKV_SANITIZE_CFLAGS=
    AS_IF([test "x$enable_sanitize" != xno],
        [MKV_SANITIZE_CFLAGS="-fsanitize=$enable_sanitize -fno-omit-frame-pointer -fno-sanitize-recover=all"])
    AC_SUBST([MKV_SANITIZE_CFLAGS])
    AM_CONDITIONAL([HAVE_SANITIZE], [test "x$enable_sanitize" != xno])
])
