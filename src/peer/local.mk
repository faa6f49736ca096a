# Connections and their messages.
libmorikv_core_la_SOURCES += \
    src/peer/backend.c \
    src/peer/backend.h \
    src/peer/conn.c \
    src/peer/conn.h \
    src/peer/credit.c \
    src/peer/credit.h \
    src/peer/deliver.c \
    src/peer/deliver.h \
    src/peer/grant.c \
    src/peer/grant.h \
    src/peer/heartbeat.c \
    src/peer/heartbeat.h \
    src/peer/hello.c \
    src/peer/hello.h \
    src/peer/inbox.c \
    src/peer/inbox.h \
    src/peer/listen.c \
    src/peer/listen.h \
    src/peer/list_put.c \
    src/peer/list_put.h \
    src/peer/message.c \
    src/peer/message.h \
    src/peer/packet.c \
    src/peer/packet.h \
    src/peer/path.c \
    src/peer/path.h \
    src/peer/peer.c \
    src/peer/peer.h \
    src/peer/peer_api.c \
    src/peer/peer_close.c \
    src/peer/peer_close.h \
    src/peer/process.c \
    src/peer/process.h \
    src/peer/self_blob.c \
    src/peer/self_blob.h
