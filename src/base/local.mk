# Base of all objects
libmorikv_core_la_SOURCES += \
    src/base/abi.c \
    src/base/abi.h \
    src/base/ctx.c \
    src/base/ctx.h \
    src/base/event.c \
    src/base/event.h \
    src/base/latency.h \
    src/base/list.h \
    src/base/log.c \
    src/base/log.h \
    src/base/name.c \
    src/base/name.h \
    src/base/options.c \
    src/base/options.h \
    src/base/options_table.c \
    src/base/options_table.h \
    src/base/table.h \
    src/base/tombstone.c \
    src/base/tombstone.h \
    src/base/tuning.c \
    src/base/tuning.h
