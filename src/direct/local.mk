# Operations on a peer's memory
libmorikv_core_la_SOURCES += \
    src/direct/op.c \
    src/direct/op.h \
    src/direct/op_api.c \
    src/direct/op_build.c \
    src/direct/op_build.h \
    src/direct/op_give.c \
    src/direct/op_give.h \
    src/direct/op_step.c \
    src/direct/op_step.h \
    src/direct/op_watch.c \
    src/direct/op_watch.h
