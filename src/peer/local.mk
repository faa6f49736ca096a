# Connections and their messages.
libmorikv_core_la_SOURCES += \
    src/peer/backend.c \
    src/peer/message.c \
    src/peer/peer.c \
    src/peer/peer_close.c \
    src/peer/self_blob.c
