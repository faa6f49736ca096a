# Conversion of a plan to UCX calls
libmorikv_core_la_SOURCES += \
    src/post/arrived.c \
    src/post/arrived.h \
    src/post/call_end.c \
    src/post/call_end.h \
    src/post/flush.c \
    src/post/flush.h \
    src/post/gate.c \
    src/post/gate.h \
    src/post/post.c \
    src/post/post.h \
    src/post/post_calls.c \
    src/post/post_calls.h \
    src/post/post_cursor.h \
    src/post/post_end.c \
    src/post/post_end.h \
    src/post/post_list.c \
    src/post/post_list.h \
    src/post/post_queue.c \
    src/post/post_units.c \
    src/post/post_units.h \
    src/post/pull.c \
    src/post/pull.h \
    src/post/push.c \
    src/post/push.h
