# MKV_JSON: json-c, for the traces and results of the tools in perf.
AC_DEFUN([MKV_JSON], [
    PKG_CHECK_MODULES([JSON], [json-c >= 0.13], [],
        [AC_MSG_ERROR([json-c >= 0.13 with headers was not found: mori_kv_perf reads traces and writes results with it; install libjson-c-dev (Debian, Ubuntu) or json-c-devel])])
])
