/* SPDX-License-Identifier: BSD-3-Clause */

/* Copies inside the device: what is compared is the cost of starting, not the link. */

#include "xgmi/xgmi_measure.h"

#include "base/muct_log.h"

#include <time.h>

#define MUCT_XGMI_MEASURE_PIECE 4096
#define MUCT_XGMI_MEASURE_ROUNDS 20
#define MUCT_XGMI_MEASURE_MAX 16

static void muct_xgmi_measure_done(muct_xgmi_op_t *op, ucs_status_t status)
{
    int *is_done = op->arg;

    *is_done = (status == UCS_OK) ? 1 : -1;
}

static double muct_xgmi_measure_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + ((double)ts.tv_nsec * 1e-9);
}

/* Shortest time of copying some pieces, in seconds; a negative one is a failure. */
static double muct_xgmi_measure_one(muct_xgmi_queue_t *queue, uint64_t memory,
                                    unsigned count, unsigned max_calls)
{
    double best = -1;
    double start, took;
    unsigned round, i;
    int is_done;

    queue->max_calls = max_calls;
    for (round = 0; round < MUCT_XGMI_MEASURE_ROUNDS; ++round) {
        start = muct_xgmi_measure_now();
        if (muct_xgmi_queue_reserve(queue, count) != UCS_OK) {
            return -1;
        }
        for (i = 0; i < count; ++i) { /* every fourth, so that none join */
            muct_xgmi_queue_add(queue, memory + ((4 * i) * MUCT_XGMI_MEASURE_PIECE),
                                memory + ((4 * i + 2) * MUCT_XGMI_MEASURE_PIECE),
                                MUCT_XGMI_MEASURE_PIECE);
        }
        is_done = 0;
        muct_xgmi_queue_commit(queue, muct_xgmi_measure_done, queue, &is_done);
        muct_xgmi_queue_start(queue);
        while (is_done == 0) {
            (void)muct_xgmi_queue_poll(queue);
        }
        took = muct_xgmi_measure_now() - start;
        if (is_done < 0) {
            return -1;
        }
        best = ((best < 0) || (took < best)) ? took : best;
    }

    return best;
}

void muct_xgmi_measure(muct_xgmi_queue_t *queue)
{
    const size_t size = 4 * MUCT_XGMI_MEASURE_MAX * MUCT_XGMI_MEASURE_PIECE;
    unsigned configured = queue->max_calls;
    double launch, calls;
    unsigned count;
    void *memory;

    if ((queue->kernel == NULL) ||
        (muct_gpu_forget(queue->gpu, queue->gpu->mem_alloc(&memory, size)) !=
         MUCT_HIP_SUCCESS)) {
        return;
    }

    launch = muct_xgmi_measure_one(queue, (uintptr_t)memory, MUCT_XGMI_MEASURE_MAX, 0);
    for (count = 1; (launch > 0) && (count < MUCT_XGMI_MEASURE_MAX); ++count) {
        calls = muct_xgmi_measure_one(queue, (uintptr_t)memory, count, count);
        if ((calls < 0) || (calls > launch)) {
            break;
        }
    }

    queue->max_calls = (launch > 0) ? count - 1 : configured;
    (void)muct_gpu_forget(queue->gpu, queue->gpu->mem_free(memory));
    muct_info("device %d: a launch takes %.1f us, up to %u pieces are copied by calls",
              queue->device, launch * 1e6, queue->max_calls);
}
