/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two processes that invalidate memory at once wait for each other's copies, and none
 * of them makes progress meanwhile: UCP wants the end of an invalidation before the
 * call returns. So the call itself gives back what its process' finished copies use.
 *
 * muct_xgmi_queues_lock guards the list of queues, and each queue's lock its started
 * batches. A batch in the list of started ones is not changed but by who makes
 * progress, whose notes of how much of it is over are not looked at here.
 */

#include "xgmi/copy/xgmi_batch.h"

static pthread_mutex_t muct_xgmi_queues_lock = PTHREAD_MUTEX_INITIALIZER;
static muct_xgmi_queue_t *muct_xgmi_queues;


void muct_xgmi_queue_enlist(muct_xgmi_queue_t *queue)
{
    queue->thread = pthread_self();
    pthread_mutex_lock(&muct_xgmi_queues_lock);
    queue->next = muct_xgmi_queues;
    muct_xgmi_queues = queue;
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}

void muct_xgmi_queue_delist(muct_xgmi_queue_t *queue)
{
    muct_xgmi_queue_t **link;

    pthread_mutex_lock(&muct_xgmi_queues_lock);
    for (link = &muct_xgmi_queues; *link != NULL; link = &(*link)->next) {
        if (*link == queue) {
            *link = queue->next;
            break;
        }
    }
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}

static bool muct_xgmi_batch_has_ended(const muct_xgmi_queue_t *queue,
                                      const muct_xgmi_batch_t *batch)
{
    unsigned i;
    int ret;

    if (batch->was_launched && !muct_xgmi_batch_is_launch_over(queue, batch)) {
        return false;
    }

    for (i = 0; i < MUCT_XGMI_MAX_STREAMS; ++i) {
        if (!(batch->used & MUCT_XGMI_WAITS_FOR(i))) {
            continue;
        }
        if (!queue->gpu->may_query_events) {
            if (!muct_xgmi_word_reached(muct_xgmi_queue_mark_at(queue, i),
                                        batch->marks[i])) {
                return false;
            }
            continue;
        }
        ret = muct_gpu_forget(queue->gpu, queue->gpu->event_query(batch->events[i]));
        if (muct_gpu_is_not_ready(ret)) {
            return false;
        }
    }
    return true;
}

/* What is still gathered copies too, when no other thread can be about to start it. */
static void muct_xgmi_queue_start_own(muct_xgmi_queue_t *queue)
{
    if (queue->config->has_one_thread && pthread_equal(queue->thread, pthread_self())) {
        muct_xgmi_queue_start(queue);
    }
}

void muct_xgmi_queues_give_back(void)
{
    muct_xgmi_queue_t *queue;
    muct_xgmi_batch_t *batch;

    pthread_mutex_lock(&muct_xgmi_queues_lock);
    for (queue = muct_xgmi_queues; queue != NULL; queue = queue->next) {
        muct_xgmi_queue_start_own(queue);
        pthread_mutex_lock(&queue->lock);
        for (batch = queue->head; batch != NULL; batch = batch->next) {
            if (!muct_xgmi_batch_has_ended(queue, batch)) {
                break; /* those behind it wait for their turn, over or not */
            }
            muct_xgmi_batch_release_uses(queue, batch);
        }
        pthread_mutex_unlock(&queue->lock);
    }
    pthread_mutex_unlock(&muct_xgmi_queues_lock);
}
