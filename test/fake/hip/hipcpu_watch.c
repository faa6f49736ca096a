/* SPDX-License-Identifier: BSD-3-Clause */

/* The kernel of gpu_risks written in C: it waits for a flag, then compares. */

#include "hipcpu_watch.h"

#include <sched.h>
#include <string.h>

static void hipcpu_watch_run(hipcpu_op_t *op)
{
    const risks_watch_args_t *args = &op->u.watch;
    uint32_t *flag =
        (void *)hipcpu_resolve("kernel flag", op->device, args->flag, 4, NULL);
    uint32_t *started =
        (void *)hipcpu_resolve("kernel start", op->device, args->started, 4, NULL);
    uint64_t *bad =
        (void *)hipcpu_resolve("kernel count", op->device, args->bad, 8, NULL);
    const uint32_t *memory = (void *)hipcpu_resolve(
        "kernel source", op->device, args->memory, args->num_words * 4, NULL);
    uint64_t i;

    __atomic_store_n(started, args->sequence, __ATOMIC_RELEASE);
    while ((int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - args->sequence) < 0) {
        sched_yield();
    }
    for (i = 0; i < args->num_words; ++i) {
        *bad += (__atomic_load_n(&memory[i], __ATOMIC_RELAXED) !=
                 risks_word(i, args->seed));
    }
}

static bool hipcpu_watch_uses(const hipcpu_op_t *op, uintptr_t base, size_t size)
{
    const risks_watch_args_t *args = &op->u.watch;

    return ((args->memory < base + size) &&
            (base < args->memory + (args->num_words * 4))) ||
           ((args->flag >= base) && (args->flag < base + size));
}

void hipcpu_watch_launch(hipStream_t stream, void **params)
{
    hipcpu_op_t op = {.run = hipcpu_watch_run, .uses = hipcpu_watch_uses};

    memcpy(&op.u.watch, params[0], sizeof(op.u.watch));
    hipcpu_stream_submit(stream, "hipModuleLaunchKernel", &op);
}
