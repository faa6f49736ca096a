# Connections and their transports.
libmorikv_core_la_SOURCES += \
    src/peer/backend.c \
    src/peer/backend.h \
    src/peer/conn.c \
    src/peer/conn.h \
    src/peer/list_put.c \
    src/peer/list_put.h \
    src/peer/packet.c \
    src/peer/packet.h \
    src/peer/path.c \
    src/peer/path.h \
    src/peer/peer.c \
    src/peer/peer.h \
    src/peer/process.c \
    src/peer/process.h \
    src/peer/proof.c \
    src/peer/proof.h \
    src/peer/self_blob.c \
    src/peer/self_blob.h
