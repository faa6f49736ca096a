/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Rule late-mark: bytes of short copies that stay in the GPU's caches.
 *
 * Short copies are kernels that end with a release to their own device. The next
 * command of the stream that releases to the system makes their bytes visible: an
 * event, a callback, a host wait. The number of hipStreamWriteValue32() does not. Bytes
 * that nothing releases arrive HIPCPU_LATE_NS later.
 *
 * hipcpu_late_lock guards the list, which is in order of arrival. An entry belongs to
 * the thread that ran the copy, that is, to its line.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct hipcpu_late {
    struct hipcpu_late *next;
    pthread_t thread;
    char *dst;
    size_t size;
    char bytes[];
} hipcpu_late_t;

static pthread_mutex_t hipcpu_late_lock = PTHREAD_MUTEX_INITIALIZER;
static hipcpu_late_t *hipcpu_late_list;


/* Locked. Entries of one thread, or with NULL all; their order is kept. */
static void hipcpu_late_land_of(const pthread_t *thread)
{
    hipcpu_late_t **link = &hipcpu_late_list;
    hipcpu_late_t *late;

    while ((late = *link) != NULL) {
        if ((thread != NULL) && !pthread_equal(late->thread, *thread)) {
            link = &late->next;
            continue;
        }
        *link = late->next;
        memcpy(late->dst, late->bytes, late->size);
        free(late);
    }
}

void hipcpu_late_land(void)
{
    pthread_t self = pthread_self();

    pthread_mutex_lock(&hipcpu_late_lock);
    hipcpu_late_land_of(&self);
    pthread_mutex_unlock(&hipcpu_late_lock);
}

void hipcpu_late_land_all(void)
{
    pthread_mutex_lock(&hipcpu_late_lock);
    hipcpu_late_land_of(NULL);
    pthread_mutex_unlock(&hipcpu_late_lock);
}

/* The entry may be gone by then, and a different entry may have its address; that one
 * then arrives early. */
static void *hipcpu_late_main(void *arg)
{
    const struct timespec delay = {.tv_nsec = HIPCPU_LATE_NS};
    const hipcpu_late_t *late;
    pthread_t thread;

    nanosleep(&delay, NULL);
    pthread_mutex_lock(&hipcpu_late_lock);
    for (late = hipcpu_late_list; (late != NULL) && (late != arg); late = late->next) {
    }
    if (late != NULL) {
        thread = late->thread; /* the entry is freed on the way */
        hipcpu_late_land_of(&thread);
    }
    pthread_mutex_unlock(&hipcpu_late_lock);
    return NULL;
}

bool hipcpu_late_take(char *dst, const char *src, size_t size)
{
    hipcpu_late_t **link = &hipcpu_late_list;
    hipcpu_late_t *late;
    pthread_t thread;

    if (!hipcpu_rule(HIPCPU_RULE_LATE_MARK) || (size > HIPCPU_LATE_SIZE)) {
        return false;
    }

    late = malloc(sizeof(*late) + size);
    if (late == NULL) {
        hipcpu_misuse("no memory for %zu late bytes", size);
    }
    late->next = NULL;
    late->thread = pthread_self();
    late->dst = dst;
    late->size = size;
    memcpy(late->bytes, src, size);
    pthread_mutex_lock(&hipcpu_late_lock);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = late;
    if (pthread_create(&thread, NULL, hipcpu_late_main, late) != 0) {
        hipcpu_misuse("no thread for late bytes");
    }
    pthread_detach(thread);
    pthread_mutex_unlock(&hipcpu_late_lock);
    return true;
}
