# Messages and blobs as bytes; pure.
libmorikv_core_la_SOURCES += \
    src/wire/blob.c \
    src/wire/blob_shape.c \
    src/wire/blob_shape.h \
    src/wire/codec.c \
    src/wire/codec.h \
    src/wire/utf8.c \
    src/wire/utf8.h \
    src/wire/wire.c \
    src/wire/wire.h \
    src/wire/wire_fin.c \
    src/wire/wire_pull.c \
    src/wire/wire_stage.c
