# Messages between peers.
libmorikv_core_la_SOURCES += \
    src/message/credit.c \
    src/message/credit.h \
    src/message/deliver.c \
    src/message/deliver.h \
    src/message/early.c \
    src/message/early.h \
    src/message/grant.c \
    src/message/grant.h \
    src/message/heartbeat.c \
    src/message/heartbeat.h \
    src/message/hello.c \
    src/message/hello.h \
    src/message/inbox.c \
    src/message/inbox.h \
    src/message/listen.c \
    src/message/listen.h \
    src/message/message.c \
    src/message/message.h \
    src/message/peer_api.c \
    src/message/peer_close.c \
    src/message/peer_close.h \
    src/message/reply.c \
    src/message/reply.h
