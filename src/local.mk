# libmorikv: the KV library on UCP's public API.
include_HEADERS += src/morikv.h
EXTRA_DIST += src/libmorikv.map

# Everything once; unit tests link it with a UCP of their own. Each room names its files.
noinst_LTLIBRARIES += libmorikv_core.la
libmorikv_core_la_SOURCES = \
    src/context.c \
    src/progress.c \
    src/progress.h \
    src/stats.c \
    src/threads.c \
    src/threads.h \
    src/worker.c \
    src/worker.h

include src/wire/local.mk
include src/base/local.mk
include src/memory/local.mk
include src/plan/local.mk
include src/peer/local.mk
include src/message/local.mk
include src/xfer/local.mk
include src/stage/local.mk
include src/post/local.mk
include src/direct/local.mk

lib_LTLIBRARIES += libmorikv.la
libmorikv_la_SOURCES =
libmorikv_la_LIBADD = libmorikv_core.la $(UCX_LIBS) -lpthread
libmorikv_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
    -Wl,--version-script=$(top_srcdir)/src/libmorikv.map
libmorikv_la_DEPENDENCIES = libmorikv_core.la src/libmorikv.map
