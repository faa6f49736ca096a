/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Hardware queues: few for each priority of a device, shared by streams in turn, and
 * each does one piece of work after the other, whatever stream it is of.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>

#define HIPCPU_NUM_PRIORITIES 3
#define HIPCPU_MAX_QUEUES 64
#define HIPCPU_DEFAULT_QUEUES 4

static pthread_mutex_t hipcpu_hwq_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned hipcpu_hwq_next[HIPCPU_MAX_DEVICES][HIPCPU_NUM_PRIORITIES];
static hipcpu_wait_t hipcpu_hwq_last[HIPCPU_MAX_DEVICES][HIPCPU_NUM_PRIORITIES]
                                    [HIPCPU_MAX_QUEUES];


unsigned hipcpu_hwq_choose(int device, int priority)
{
    const char *text = getenv("GPU_MAX_HW_QUEUES");
    unsigned count = (text == NULL) ? HIPCPU_DEFAULT_QUEUES : (unsigned)atoi(text);

    if ((count == 0) || (count > HIPCPU_MAX_QUEUES)) {
        count = HIPCPU_DEFAULT_QUEUES;
    }
    return hipcpu_hwq_next[device][priority + 1]++ % count;
}

uint64_t hipcpu_hwq_submit(hipcpu_line_t *line, int priority, unsigned queue,
                           hipcpu_op_t *op)
{
    hipcpu_wait_t *last = &hipcpu_hwq_last[op->device][priority + 1][queue];
    uint64_t seq;

    if (!hipcpu_rule(HIPCPU_RULE_FEW_QUEUES)) {
        return hipcpu_line_submit(line, op);
    }

    pthread_mutex_lock(&hipcpu_hwq_lock);
    if ((last->line != NULL) && (last->line != line)) {
        op->waits = realloc(op->waits, (op->num_waits + 1) * sizeof(*op->waits));
        if (op->waits == NULL) {
            hipcpu_misuse("no memory for a hardware queue");
        }
        op->waits[op->num_waits++] = *last;
        last->line = NULL; /* the wait has its reference now */
    }
    seq = hipcpu_line_submit(line, op);
    if (last->line == NULL) {
        last->line = hipcpu_line_get(line);
    }
    last->seq = seq;
    pthread_mutex_unlock(&hipcpu_hwq_lock);
    return seq;
}

static void __attribute__((destructor)) hipcpu_hwq_end(void)
{
    hipcpu_wait_t *last = &hipcpu_hwq_last[0][0][0];
    size_t i;

    for (i = 0; i < sizeof(hipcpu_hwq_last) / sizeof(*last); ++i) {
        if (last[i].line != NULL) {
            hipcpu_line_put(last[i].line);
            last[i].line = NULL;
        }
    }
}
