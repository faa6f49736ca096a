/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * opener->lock guards everything and is not held during an open. A line is the queue of
 * a peer's mappings to open, with the thread that opens them. An empty line moves to
 * the list of ended lines; the next thread, or the opener's end, joins its thread.
 */

#include "xgmi/memory/xgmi_opener.h"

#include "base/muct_log.h"
#include "xgmi/peer/xgmi_thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <string.h>
#include <time.h>

typedef struct muct_xgmi_line {
    struct muct_xgmi_line *next;
    muct_xgmi_opener_t *opener;
    uint64_t owner;
    muct_xgmi_opening_t *first;
    muct_xgmi_opening_t **last;
    pthread_t thread;
} muct_xgmi_line_t;

struct muct_xgmi_opener {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    muct_xgmi_line_t *lines; /* lines with mappings to open */
    muct_xgmi_line_t *ended;
};


static void muct_xgmi_opener_join(muct_xgmi_line_t *ended)
{
    muct_xgmi_line_t *next;

    for (; ended != NULL; ended = next) {
        next = ended->next;
        pthread_join(ended->thread, NULL);
        free(ended);
    }
}

/* Locked. */
static void muct_xgmi_opener_end(muct_xgmi_opener_t *opener, muct_xgmi_line_t *line)
{
    muct_xgmi_line_t **link = &opener->lines;

    while (*link != line) {
        link = &(*link)->next;
    }
    *link = line->next;
    line->next = opener->ended;
    opener->ended = line;
    pthread_cond_broadcast(&opener->changed);
}

static void *muct_xgmi_opener_main(void *arg)
{
    muct_xgmi_line_t *line = arg;
    muct_xgmi_opener_t *opener = line->opener;
    muct_xgmi_opening_t *opening;
    muct_xgmi_line_t *ended;

    (void)prctl(PR_SET_NAME, "mori-opener"); /* a thread inherits its creator's name */
    pthread_mutex_lock(&opener->lock);
    ended = opener->ended;
    opener->ended = NULL;
    while ((opening = line->first) != NULL) {
        line->first = opening->next;
        if (line->first == NULL) {
            line->last = &line->first;
        }
        pthread_mutex_unlock(&opener->lock);
        opening->run(opening);
        pthread_mutex_lock(&opener->lock);
    }
    muct_xgmi_opener_end(opener, line);
    pthread_mutex_unlock(&opener->lock);
    muct_xgmi_opener_join(ended);
    return NULL;
}

ucs_status_t muct_xgmi_opener_create(muct_xgmi_opener_t **opener_p)
{
    muct_xgmi_opener_t *opener = calloc(1, sizeof(*opener));
    pthread_condattr_t attr;

    if (opener == NULL) {
        muct_error("failed to allocate the opener of peer memory");
        return UCS_ERR_NO_MEMORY;
    }

    pthread_mutex_init(&opener->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&opener->changed, &attr);
    pthread_condattr_destroy(&attr);
    *opener_p = opener;
    return UCS_OK;
}

bool muct_xgmi_opener_destroy(muct_xgmi_opener_t *opener, unsigned limit_ms)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += limit_ms / 1000;
    pthread_mutex_lock(&opener->lock);
    while ((opener->lines != NULL) && (error == 0)) {
        error = pthread_cond_timedwait(&opener->changed, &opener->lock, &until);
    }
    pthread_mutex_unlock(&opener->lock);
    if (error != 0) {
        return false;
    }

    muct_xgmi_opener_join(opener->ended);
    pthread_cond_destroy(&opener->changed);
    pthread_mutex_destroy(&opener->lock);
    free(opener);
    return true;
}

/* Locked. */
static muct_xgmi_line_t *muct_xgmi_opener_start(muct_xgmi_opener_t *opener,
                                                uint64_t owner)
{
    muct_xgmi_line_t *line = calloc(1, sizeof(*line));
    int error;

    if (line == NULL) {
        muct_error("failed to allocate the opener of memory of peer 0x%lx", owner);
        return NULL;
    }

    line->opener = opener;
    line->owner = owner;
    line->last = &line->first;
    error = muct_xgmi_thread_start(&line->thread, muct_xgmi_opener_main, line);
    if (error != 0) {
        muct_error("failed to start a thread that opens memory of peer 0x%lx: %s",
                   owner, strerror(error));
        free(line);
        return NULL;
    }

    line->next = opener->lines;
    opener->lines = line;
    return line;
}

ucs_status_t muct_xgmi_opener_add(muct_xgmi_opener_t *opener,
                                  muct_xgmi_opening_t *opening)
{
    muct_xgmi_line_t *line;

    opening->next = NULL;
    pthread_mutex_lock(&opener->lock);
    for (line = opener->lines; (line != NULL) && (line->owner != opening->owner);
         line = line->next) {
    }
    if (line == NULL) {
        line = muct_xgmi_opener_start(opener, opening->owner);
    }
    if (line != NULL) {
        *line->last = opening;
        line->last = &opening->next;
    }
    pthread_mutex_unlock(&opener->lock);
    return (line == NULL) ? UCS_ERR_NO_MEMORY : UCS_OK;
}
