# Regions, registered memory, maps.
libmorikv_core_la_SOURCES += \
    src/memory/map.c \
    src/memory/map.h \
    src/memory/match.c \
    src/memory/match.h \
    src/memory/mem_index.c \
    src/memory/mem_index.h \
    src/memory/pair.c \
    src/memory/pair.h \
    src/memory/region.c \
    src/memory/region.h \
    src/memory/region_shape.c \
    src/memory/region_shape.h \
    src/memory/remote_mem.c \
    src/memory/remote_mem.h \
    src/memory/repeat.c \
    src/memory/repeat.h \
    src/memory/shape.c \
    src/memory/shape.h \
    src/memory/span.c \
    src/memory/span.h
