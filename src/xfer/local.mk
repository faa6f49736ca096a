# Transfers and their legs.
libmorikv_core_la_SOURCES += \
    src/xfer/expose.c \
    src/xfer/expose.h \
    src/xfer/incoming.c \
    src/xfer/incoming.h \
    src/xfer/leg.c \
    src/xfer/leg.h \
    src/xfer/leg_receive.c \
    src/xfer/leg_receive.h \
    src/xfer/owner.c \
    src/xfer/owner.h \
    src/xfer/post_notify.c \
    src/xfer/post_notify.h \
    src/xfer/state.c \
    src/xfer/state.h \
    src/xfer/trace.c \
    src/xfer/trace.h \
    src/xfer/watch.c \
    src/xfer/watch.h \
    src/xfer/xfer.c \
    src/xfer/xfer.h \
    src/xfer/xfer_api.c \
    src/xfer/xfer_events.c \
    src/xfer/xfer_events.h \
    src/xfer/xfer_open.c
