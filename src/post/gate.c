/* SPDX-License-Identifier: BSD-3-Clause */

#include "post/gate.h"

#include <stdlib.h>

/** A signalled gate, with its id and value. */
typedef struct mkv_signal {
    struct mkv_signal *next;
    uint64_t id, value;
} mkv_signal_t;

static mkv_signal_t **mkv_gate_bucket(mkv_ctx_t *ctx, uint64_t id)
{
    return &ctx->gates[((id * 0x9e3779b97f4a7c15ull) >> 40) % MKV_GATE_BUCKETS];
}

static mkv_signal_t **mkv_gate_find(mkv_ctx_t *ctx, uint64_t id)
{
    mkv_signal_t **at = mkv_gate_bucket(ctx, id);

    while ((*at != NULL) && ((*at)->id != id)) {
        at = &(*at)->next;
    }
    return at;
}

uint64_t mkv_gate_value(const mkv_ctx_t *ctx, uint64_t id)
{
    const mkv_signal_t *signal = *mkv_gate_find((mkv_ctx_t *)(uintptr_t)ctx, id);

    return (signal == NULL) ? 0 : signal->value;
}

static void mkv_gate_take(mkv_ctx_t *ctx, mkv_signal_t *signal)
{
    mkv_signal_t **at = mkv_gate_find(ctx, signal->id);

    if (*at == NULL) {
        signal->next = NULL;
        *at = signal;
        return;
    }
    (*at)->value = (signal->value > (*at)->value) ? signal->value : (*at)->value;
    free(signal);
}

unsigned mkv_gates_take(mkv_ctx_t *ctx)
{
    mkv_signal_t *signal, *next;
    unsigned count = 0;

    if (__atomic_load_n(&ctx->signals, __ATOMIC_RELAXED) == NULL) {
        return 0;
    }
    signal = __atomic_exchange_n(&ctx->signals, NULL, __ATOMIC_ACQUIRE);
    for (; signal != NULL; signal = next) {
        next = signal->next;
        mkv_gate_take(ctx, signal);
        ++count;
    }
    return count;
}

/* Takes no lock, because a runtime's thread may call this and must not wait for a copy
 * that another thread posts. */
mkv_status_t mkv_gate_signal(mkv_ctx_t *ctx, uint64_t id, uint64_t value)
{
    mkv_signal_t *signal;

    MKV_HOLD(ctx, "gate_signal", return MKV_ERR_INVALID);
    signal = malloc(sizeof(*signal));
    if (signal == NULL) {
        return mkv_error(NULL, MKV_ERR_NOMEM, "no memory for a signal of gate %llu",
                         (unsigned long long)id);
    }
    signal->id = id;
    signal->value = value;
    signal->next = __atomic_load_n(&ctx->signals, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&ctx->signals, &signal->next, signal, 1,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    mkv_ctx_wake_all(ctx);
    return MKV_OK;
}

mkv_status_t mkv_gate_forget(mkv_ctx_t *ctx, uint64_t id)
{
    mkv_signal_t **at, *signal;

    MKV_HOLD(ctx, "gate_forget", return MKV_ERR_INVALID);
    mkv_enter(ctx);
    (void)mkv_gates_take(ctx);
    at = mkv_gate_find(ctx, id);
    signal = *at;
    if (signal != NULL) {
        *at = signal->next;
        free(signal);
    }
    mkv_leave(ctx);
    return MKV_OK;
}

void mkv_gates_cleanup(mkv_ctx_t *ctx)
{
    mkv_signal_t *signal;
    unsigned i;

    (void)mkv_gates_take(ctx);
    for (i = 0; i < MKV_GATE_BUCKETS; ++i) {
        while ((signal = ctx->gates[i]) != NULL) {
            ctx->gates[i] = signal->next;
            free(signal);
        }
    }
}
