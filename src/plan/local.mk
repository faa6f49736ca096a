# Plans: block lists merged into runs.
libmorikv_core_la_SOURCES += \
    src/plan/blocks.c \
    src/plan/blocks.h \
    src/plan/byte_list.c \
    src/plan/byte_list.h \
    src/plan/list_cache.c \
    src/plan/list_cache.h \
    src/plan/plan.c \
    src/plan/plan.h \
    src/plan/plan_bytes.c \
    src/plan/plan_sel.c \
    src/plan/plan_sel.h \
    src/plan/unit_set.c \
    src/plan/unit_set.h
