# MKV_PICKY: the warnings every file of this project is built with.
# A table that ends in {NULL}, as UCX's do, is not a mistake.
# -Werror is for --enable-werror, which CI gives; a user's newer compiler may warn.
AC_DEFUN([MKV_PICKY], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat warnings as errors (CI does)])],
        [], [enable_werror=no])
    MKV_PICKY_CFLAGS=
    for flag in -std=gnu11 -Wall -Wextra -Wshadow -Wmissing-prototypes \
                -Wstrict-prototypes -Wformat=2 -Wnull-dereference \
                -Wno-missing-field-initializers -Wvla -Wundef -Wwrite-strings -fvisibility=hidden; do
        save_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror $flag"
        AC_MSG_CHECKING([whether $CC takes $flag])
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
            [AC_MSG_RESULT([yes]); MKV_PICKY_CFLAGS="$MKV_PICKY_CFLAGS $flag"],
            [AC_MSG_RESULT([no])])
        CFLAGS=$save_CFLAGS
    done
    AS_IF([test "x$enable_werror" = xyes],
        [MKV_PICKY_CFLAGS="$MKV_PICKY_CFLAGS -Werror"])
    AC_SUBST([MKV_PICKY_CFLAGS])
])
