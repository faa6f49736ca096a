# Transfers and their legs.
libmorikv_core_la_SOURCES += \
    src/xfer/early.c \
    src/xfer/expose.c \
    src/xfer/leg.c \
    src/xfer/xfer.c \
    src/xfer/xfer_open.c
