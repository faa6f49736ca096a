# libmorikv: the KV library on UCP's public API.
include_HEADERS += src/morikv.h
EXTRA_DIST += src/libmorikv.map

# Everything once; unit tests link it with a UCP of their own.
noinst_LTLIBRARIES += libmorikv_core.la
libmorikv_core_la_SOURCES = \
    src/arena.c \
    src/blob.c \
    src/blocks.c \
    src/blocks.h \
    src/context.c \
    src/describe.c \
    src/early.c \
    src/event.c \
    src/expose.c \
    src/fill.c \
    src/leg.c \
    src/list.h \
    src/log.c \
    src/log.h \
    src/map.c \
    src/mem.c \
    src/mkv_int.h \
    src/notify.c \
    src/options.c \
    src/options.h \
    src/peer.c \
    src/peer_close.c \
    src/plan.c \
    src/post.c \
    src/post_begin.c \
    src/post_cursor.h \
    src/post_list.c \
    src/post_list.h \
    src/remote.c \
    src/stats.c \
    src/threads.c \
    src/transport.c \
    src/wire.c \
    src/wire.h \
    src/wire_int.h \
    src/worker.c \
    src/xfer.c \
    src/xfer_open.c

lib_LTLIBRARIES += libmorikv.la
libmorikv_la_SOURCES =
libmorikv_la_LIBADD = libmorikv_core.la $(UCX_LIBS) -lpthread
libmorikv_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -no-undefined \
    -Wl,--version-script=$(top_srcdir)/src/libmorikv.map
libmorikv_la_DEPENDENCIES = libmorikv_core.la src/libmorikv.map
