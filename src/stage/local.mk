# Short pieces by way of staging in GPU memory
libmorikv_core_la_SOURCES += \
    src/stage/loop.c \
    src/stage/loop.h \
    src/stage/scatter.c \
    src/stage/scatter.h \
    src/stage/stage.c \
    src/stage/stage.h \
    src/stage/stage_buf.c \
    src/stage/stage_buf.h \
    src/stage/stage_listen.c \
    src/stage/stage_listen.h
