# MKV_PATHS: libtool's -rpath takes a path as one word.
AC_DEFUN([MKV_PATHS], [
    for mkv_path in prefix exec_prefix bindir libdir includedir datadir datarootdir mandir libexecdir; do
        eval "mkv_value=\$$mkv_path"
        AS_CASE([$mkv_value], [*[[[:space:]]]*],
            [AC_MSG_ERROR([$mkv_path is '$mkv_value'; expected a path without spaces, which libtool splits; DESTDIR of make install may have some])])
    done
])
