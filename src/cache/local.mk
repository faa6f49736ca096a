# Regions, registered memory, maps, plans.
libmorikv_core_la_SOURCES += \
    src/cache/blocks.c \
    src/cache/blocks.h \
    src/cache/list_cache.c \
    src/cache/list_cache.h \
    src/cache/map.c \
    src/cache/map.h \
    src/cache/plan.c \
    src/cache/plan.h \
    src/cache/region.c \
    src/cache/region.h \
    src/cache/remote_mem.c \
    src/cache/remote_mem.h \
    src/cache/repeat.c \
    src/cache/repeat.h \
    src/cache/unit_set.c \
    src/cache/unit_set.h
