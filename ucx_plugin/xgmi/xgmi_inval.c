/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The lock guards the list and the watching interfaces; completions are called without
 * it, as they may deregister more memory.
 */

#include "xgmi/xgmi_inval.h"

#include "base/muct_log.h"
#include "xgmi/copy/xgmi_queue.h"

#include <ucs/sys/stubs.h>

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define MUCT_XGMI_INVAL_POLL_NS 50000
#define MUCT_XGMI_NSEC_PER_MSEC 1000000

typedef struct muct_xgmi_inval {
    struct muct_xgmi_inval *next;
    muct_xgmi_inval_mem_t mem;
    uint32_t generation; /* generation of the slot since its keys are void */
    uct_completion_t *comp;
    ucs_status_t status;
    uint64_t deadline_ms;
    uint64_t looked_ms; /* time of the last search for dead processes */
} muct_xgmi_inval_t;


static uint64_t muct_xgmi_inval_now_ms(void)
{
    return muct_xgmi_wake_now_ns() / MUCT_XGMI_NSEC_PER_MSEC;
}

static void muct_xgmi_inval_warn(const muct_xgmi_inval_mem_t *mem, unsigned timeout_ms)
{
    muct_warn("another process has not ended its copies of 0x%" PRIx64
              " length %" PRIu64 " within %u ms of its invalidation",
              mem->address, mem->length, timeout_ms);
}

static void muct_xgmi_inval_pause(void)
{
    const struct timespec pause = {0, MUCT_XGMI_INVAL_POLL_NS};

    muct_xgmi_queues_release();
    nanosleep(&pause, NULL);
}

static ucs_status_t muct_xgmi_inval_wait_for(uint32_t slot, uint32_t generation,
                                             unsigned timeout_ms)
{
    uint64_t deadline_ms = muct_xgmi_inval_now_ms() + timeout_ms;

    while (muct_xgmi_slot_is_used(slot, generation)) {
        muct_xgmi_slot_drop_dead(slot);
        if (muct_xgmi_inval_now_ms() > deadline_ms) {
            muct_xgmi_slot_expire(slot, generation);
            return UCS_ERR_TIMED_OUT;
        }
        muct_xgmi_inval_pause();
    }

    return UCS_OK;
}

ucs_status_t muct_xgmi_inval_wait(uint32_t slot, unsigned timeout_ms)
{
    return muct_xgmi_inval_wait_for(slot, muct_xgmi_slot_void(slot), timeout_ms);
}

void muct_xgmi_invals_init(muct_xgmi_invals_t *invals, unsigned timeout_ms)
{
    *invals = (muct_xgmi_invals_t){.timeout_ms = timeout_ms};
    pthread_mutex_init(&invals->lock, NULL);
}

void muct_xgmi_invals_cleanup(muct_xgmi_invals_t *invals)
{
    pthread_mutex_destroy(&invals->lock);
}

void muct_xgmi_invals_join(muct_xgmi_invals_t *invals, muct_xgmi_inval_watch_t *watch,
                           muct_xgmi_wake_t *wake)
{
    watch->wake = wake;
    pthread_mutex_lock(&invals->lock);
    watch->next = invals->watches;
    invals->watches = watch;
    pthread_mutex_unlock(&invals->lock);
}

void muct_xgmi_invals_leave(muct_xgmi_invals_t *invals, muct_xgmi_inval_watch_t *watch)
{
    muct_xgmi_inval_watch_t **link;
    bool is_last;

    pthread_mutex_lock(&invals->lock);
    for (link = &invals->watches; *link != watch; link = &(*link)->next) {
    }
    *link = watch->next;
    is_last = (invals->watches == NULL);
    pthread_mutex_unlock(&invals->lock);

    while (is_last && muct_xgmi_invals_are_there(invals)) {
        muct_xgmi_inval_pause();
        (void)muct_xgmi_invals_progress(invals);
    }
}

/* A completion on UCP's stack has a function that aborts; it must not be called
 * after the call returns. */
static bool muct_xgmi_inval_may_be_late(const uct_completion_t *comp)
{
    return comp->func != (uct_completion_callback_t)ucs_empty_function_do_assert_void;
}

/* Queue the invalidation for progress. @return Whether an interface makes progress. */
static bool muct_xgmi_invals_add(muct_xgmi_invals_t *invals, muct_xgmi_inval_t *inval)
{
    muct_xgmi_inval_watch_t *watch;
    bool is_watched;

    pthread_mutex_lock(&invals->lock);
    is_watched = (invals->watches != NULL);
    if (is_watched) {
        inval->next = invals->head;
        invals->head = inval;
        atomic_fetch_add(&invals->count, 1);
    }
    for (watch = invals->watches; watch != NULL; watch = watch->next) {
        muct_xgmi_wake_signal(watch->wake);
    }
    pthread_mutex_unlock(&invals->lock);
    return is_watched;
}

static bool muct_xgmi_inval_defer(muct_xgmi_invals_t *invals,
                                  const muct_xgmi_inval_mem_t *mem, uint32_t generation,
                                  uct_completion_t *comp)
{
    muct_xgmi_inval_t *inval = malloc(sizeof(*inval));

    if (inval == NULL) {
        return false;
    }

    *inval = (muct_xgmi_inval_t){.mem = *mem,
                                 .generation = generation,
                                 .comp = comp,
                                 .status = UCS_OK,
                                 .deadline_ms =
                                     muct_xgmi_inval_now_ms() + invals->timeout_ms};
    if (!muct_xgmi_invals_add(invals, inval)) {
        free(inval);
        return false;
    }
    return true;
}

void muct_xgmi_invals_start(muct_xgmi_invals_t *invals,
                            const muct_xgmi_inval_mem_t *mem, uct_completion_t *comp)
{
    uint32_t generation = muct_xgmi_slot_void(mem->slot);
    ucs_status_t status;

    if (muct_xgmi_inval_may_be_late(comp) &&
        muct_xgmi_slot_is_used(mem->slot, generation) &&
        muct_xgmi_inval_defer(invals, mem, generation, comp)) {
        return;
    }

    status = muct_xgmi_inval_wait_for(mem->slot, generation, invals->timeout_ms);
    if (status != UCS_OK) {
        muct_xgmi_inval_warn(mem, invals->timeout_ms);
    }
    muct_completion_invoke(comp, status);
}

static bool muct_xgmi_inval_is_over(muct_xgmi_inval_t *inval, uint64_t now_ms)
{
    if (now_ms != inval->looked_ms) {
        inval->looked_ms = now_ms;
        muct_xgmi_slot_drop_dead(inval->mem.slot);
    }
    if (!muct_xgmi_slot_is_used(inval->mem.slot, inval->generation)) {
        return true;
    }
    if (now_ms <= inval->deadline_ms) {
        return false;
    }

    muct_xgmi_slot_expire(inval->mem.slot, inval->generation);
    inval->status = UCS_ERR_TIMED_OUT;
    return true;
}

/*
 * @return Finished invalidations, taken out of the list.
 */
static muct_xgmi_inval_t *muct_xgmi_invals_take(muct_xgmi_invals_t *invals)
{
    muct_xgmi_inval_t **link = &invals->head, *inval, *over = NULL;
    uint64_t now_ms = muct_xgmi_inval_now_ms();

    pthread_mutex_lock(&invals->lock);
    while ((inval = *link) != NULL) {
        if (muct_xgmi_inval_is_over(inval, now_ms)) {
            *link = inval->next;
            inval->next = over;
            over = inval;
        } else {
            link = &inval->next;
        }
    }
    pthread_mutex_unlock(&invals->lock);
    return over;
}

unsigned muct_xgmi_invals_progress(muct_xgmi_invals_t *invals)
{
    muct_xgmi_inval_t *over = muct_xgmi_invals_take(invals), *inval;
    unsigned count = 0;

    while ((inval = over) != NULL) {
        over = inval->next;
        if (inval->status != UCS_OK) {
            muct_xgmi_inval_warn(&inval->mem, invals->timeout_ms);
        }
        muct_completion_invoke(inval->comp, inval->status);
        atomic_fetch_sub(&invals->count, 1);
        free(inval);
        ++count;
    }
    return count;
}
