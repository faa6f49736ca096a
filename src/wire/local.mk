# Messages and blobs as bytes; pure.
libmorikv_core_la_SOURCES += \
    src/wire/blob.c \
    src/wire/codec.h \
    src/wire/wire.c \
    src/wire/wire.h
