# Keyed buffers.
libmorikv_core_la_SOURCES += \
    src/store/fetch.c \
    src/store/fetch.h \
    src/store/publication.c \
    src/store/publication.h \
    src/store/serve.c \
    src/store/serve.h \
    src/store/slab.c \
    src/store/store.c \
    src/store/store.h \
    src/store/table.c \
    src/store/table.h
