# Regions, registered memory, maps, plans.
libmorikv_core_la_SOURCES += \
    src/cache/blocks.c \
    src/cache/blocks.h \
    src/cache/byte_list.c \
    src/cache/byte_list.h \
    src/cache/list_cache.c \
    src/cache/list_cache.h \
    src/cache/map.c \
    src/cache/map.h \
    src/cache/mem_index.c \
    src/cache/mem_index.h \
    src/cache/pair.c \
    src/cache/pair.h \
    src/cache/plan.c \
    src/cache/plan.h \
    src/cache/plan_bytes.c \
    src/cache/match.c \
    src/cache/match.h \
    src/cache/region.c \
    src/cache/region.h \
    src/cache/region_shape.c \
    src/cache/region_shape.h \
    src/cache/remote_mem.c \
    src/cache/remote_mem.h \
    src/cache/repeat.c \
    src/cache/repeat.h \
    src/cache/shape.c \
    src/cache/shape.h \
    src/cache/unit_set.c \
    src/cache/unit_set.h
