# MKV_UCX: UCX >= 1.22 with public headers.
AC_DEFUN([MKV_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx=DIR], [prefix of UCX >= 1.22 (default: pkg-config)])],
        [], [with_ucx=auto])
    AS_CASE([$with_ucx],
        [no], [AC_MSG_ERROR([UCX is required; --without-ucx makes no sense])],
        [auto|yes], [
            PKG_CHECK_MODULES([UCX], [ucx >= 1.22], [],
                [AC_MSG_ERROR([no UCX >= 1.22 with headers found: install libucx-dev >= 1.22, give --with-ucx=DIR, or run contrib/test, which makes its own])])
        ],
        [
            # its headers' warnings are not ours to mend
            UCX_CFLAGS="-isystem $with_ucx/include"
            UCX_LIBS="-L$with_ucx/lib -lucp -luct -lucs -lucm"
            AC_SUBST([UCX_CFLAGS])
            AC_SUBST([UCX_LIBS])
        ])
    UCX_LIBDIR=`$PKG_CONFIG --variable=libdir ucx 2>/dev/null`
    AS_CASE([$with_ucx], [auto|yes], [], [UCX_LIBDIR=$with_ucx/lib])
    AC_SUBST([UCX_LIBDIR])

    save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $UCX_CFLAGS"
    AC_PREPROC_IFELSE([AC_LANG_PROGRAM([[
        #include <ucp/api/ucp_version.h>
        #if UCP_API_MAJOR != 1 || UCP_API_MINOR < 22
        #error too old
        #endif]])], [],
        [AC_MSG_ERROR([the UCX headers are missing or older than 1.22; install libucx-dev >= 1.22 or give --with-ucx=DIR])])
    CPPFLAGS=$save_CPPFLAGS
])
