# Regions, registered memory, maps, plans.
libmorikv_core_la_SOURCES += \
    src/cache/blocks.c \
    src/cache/blocks.h \
    src/cache/list_cache.c \
    src/cache/map.c \
    src/cache/plan.c \
    src/cache/region.c \
    src/cache/remote_mem.c \
    src/cache/repeat.c
