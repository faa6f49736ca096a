# MKV_UCX: the UCX that everything is built against, and those that get a core of the
# module as well. Each needs nothing but installed headers.

# The minor versions of UCX 1.x that ucx_plugin/base/muct_uct_abi.h describes.
m4_define([MKV_UCX_MINORS], [22, 23])
m4_define([MKV_UCX_KNOWN], [1.22 or 1.23])

# MKV_UCX_CORE(WHAT, CFLAGS): a core for the UCX whose headers CFLAGS find.
AC_DEFUN([MKV_UCX_CORE], [
    save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $2"
    ucx_headers="#include <uct/api/version.h>"
    AC_MSG_CHECKING([the version of UCX in $1])
    AC_COMPUTE_INT([ucx_major], [UCT_VERNO_MAJOR], [$ucx_headers],
        [AC_MSG_ERROR([$1 has no headers of UCX (include/uct/api/version.h); a prefix of UCX 1.22 or 1.23 is expected, or the libucx folder of its Python wheel])])
    AC_COMPUTE_INT([ucx_minor], [UCT_VERNO_MINOR], [$ucx_headers])
    CPPFLAGS=$save_CPPFLAGS
    AC_MSG_RESULT([$ucx_major.$ucx_minor])
    ucx_known=no
    m4_foreach([minor], [MKV_UCX_MINORS], [
        AS_IF([test "$ucx_major.$ucx_minor" = 1.]minor, [
            ucx_known=yes
            AS_IF([test "x$have_ucx_core_]minor[" = xyes],
                [AC_MSG_ERROR([two of the UCX given are version 1.]minor[; give one of them])])
            have_ucx_core_]minor[=yes
            UCX_CORE_]minor[_CFLAGS="$2"
        ])
    ])
    AS_IF([test $ucx_known = no],
        [AC_MSG_ERROR([$1 is UCX $ucx_major.$ucx_minor, and this release is for MKV_UCX_KNOWN])])
    ucx_cores="$ucx_cores $ucx_major.$ucx_minor"
])

AC_DEFUN([MKV_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx=DIR], [prefix of UCX MKV_UCX_KNOWN (default: pkg-config)])],
        [], [with_ucx=auto])
    AC_ARG_WITH([ucx-core],
        [AS_HELP_STRING([--with-ucx-core=DIR@<:@,DIR@:>@],
            [build the module's core for these UCX too; their headers are enough])],
        [], [with_ucx_core=no])
    AS_CASE([$with_ucx],
        [no], [AC_MSG_ERROR([UCX is required; --without-ucx makes no sense])],
        [auto|yes], [
            PKG_CHECK_MODULES([UCX], [ucx >= 1.22], [],
                [AC_MSG_ERROR([no UCX >= 1.22 with headers found. Debian forky has one (apt-get install libucx-dev); on
  Debian 12 and 13, Ubuntu 22.04 and 24.04, and elsewhere its Python wheel will do:
    pip install --no-deps --target=/opt/ucx libucx-cu12==1.22.0
    echo /opt/ucx/libucx/lib >/etc/ld.so.conf.d/ucx.conf && ldconfig
    ./configure --with-ucx=/opt/ucx/libucx])])
            UCX_LIBDIR=`$PKG_CONFIG --variable=libdir ucx 2>/dev/null`
            ucx_where="pkg-config's prefix"
            PC_UCX_REQUIRES='ucx >= 1.22'
        ],
        [
            AS_CASE([$with_ucx], [*[[[:space:]]]*],
                [AC_MSG_ERROR([--with-ucx='$with_ucx' has a space, which compiler flags and pkg-config would split; give a path without one, such as a link to it])])
            # its headers' warnings are not ours to mend
            UCX_CFLAGS="-isystem $with_ucx/include"
            ucx_where=$with_ucx
            # The .la files of a wheel name folders of the machine it was built on, and
            # libtool takes them before the libraries. It sees links to the libraries alone.
            ucx_multiarch=`$CC -print-multiarch 2>/dev/null`
            for dir in lib lib64 ${ucx_multiarch:+"lib/$ucx_multiarch"} none; do
                AS_IF([test -e "$with_ucx/$dir/libucp.so"], [break])
            done
            AS_IF([test $dir = none],
                [AC_MSG_ERROR([--with-ucx=$with_ucx: libucp.so is in none of its folders lib, lib64${ucx_multiarch:+ and lib/$ucx_multiarch}; give the prefix of a UCX with headers])])
            ucx_libdir=`cd "$with_ucx/$dir" && pwd`
            UCX_LIBDIR=`pwd`/ucx-lib
            rm -rf ucx-lib && mkdir ucx-lib
            for lib in ucp uct ucs ucm; do
                ln -s "$ucx_libdir/lib$lib".so* ucx-lib/
            done
            UCX_LIBS="-L$UCX_LIBDIR -lucp -luct -lucs -lucm"
            # pkg-config may find another UCX, or none: the wheel has no ucx.pc
            PC_UCX_CFLAGS="-I`cd "$with_ucx/include" && pwd`"
            PC_UCX_LIBS="-L$ucx_libdir -lucp -luct -lucs -lucm"
        ])
    AC_SUBST([PC_UCX_REQUIRES])
    AC_SUBST([PC_UCX_CFLAGS])
    AC_SUBST([PC_UCX_LIBS])
    AC_SUBST([UCX_CFLAGS])
    AC_SUBST([UCX_LIBS])
    AC_SUBST([UCX_LIBDIR])

    ucx_cores=
    MKV_UCX_CORE([$ucx_where], [$UCX_CFLAGS])
    ucx_built_against=$ucx_major.$ucx_minor
    AS_CASE([$with_ucx_core], [yes], [AC_MSG_ERROR([--with-ucx-core needs a prefix of UCX])])
    AS_IF([test "x$with_ucx_core" != xno], [
        for ucx_dir in `echo "$with_ucx_core" | tr ',' ' '`; do
            MKV_UCX_CORE([$ucx_dir], [-isystem $ucx_dir/include])
        done
    ])
    m4_foreach([minor], [MKV_UCX_MINORS], [
        AM_CONDITIONAL([HAVE_UCX_CORE_]minor, [test "x$have_ucx_core_]minor[" = xyes])
        AM_CONDITIONAL([UCX_IS_]minor, [test $ucx_built_against = 1.]minor)
        AC_SUBST([UCX_CORE_]minor[_CFLAGS])
    ])

    # a core's references to UCX are weak; any other undefined reference is a mistake. With
    # sanitizers the program defines their symbols.
    MKV_NO_UNDEFINED=
    AS_IF([test "x$enable_sanitize" = xno], [MKV_NO_UNDEFINED=-Wl,-z,defs])
    AC_SUBST([MKV_NO_UNDEFINED])
])
