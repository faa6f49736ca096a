/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/geometry.h"
#include "perf/workload/error.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>


enum { PERF_MAX_BLOCK_TOKENS = 512, PERF_MAX_TP = 1024 };

static const struct {
    const char *name;
    unsigned bytes;
} perf_dtypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"fp32", 4}};


static const perf_model_t *perf_model_find(const char *name)
{
    char known[256] = "";
    const perf_model_t *model;
    size_t used = 0;

    for (model = perf_models; model->name != NULL; ++model) {
        if (strcasecmp(model->name, name) == 0) {
            return model;
        }
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
                                 (used > 0) ? ", " : "", model->name);
    }

    perf_error("model '%s' is not known; expected one of %s", name, known);
    return NULL;
}

static unsigned perf_dtype_bytes(const char *dtype)
{
    unsigned i;

    for (i = 0; i < sizeof(perf_dtypes) / sizeof(perf_dtypes[0]); ++i) {
        if (strcasecmp(perf_dtypes[i].name, dtype) == 0) {
            return perf_dtypes[i].bytes;
        }
    }

    perf_error("dtype '%s' is not known; expected bf16, fp16, fp8 or fp32", dtype);
    return 0;
}

/* Heads of one rank, 0 when they cannot be shared out evenly. */
static unsigned perf_model_rank_heads(const perf_model_t *model, unsigned tp)
{
    if ((model->num_kv_heads == 0) || ((tp % model->num_kv_heads) == 0)) {
        return 1;
    }
    return ((model->num_kv_heads % tp) == 0) ? (model->num_kv_heads / tp) : 0;
}

int perf_geometry_init(const char *model_name, unsigned tp, unsigned block_tokens,
                       const char *dtype, perf_geometry_t *geometry_p)
{
    const perf_model_t *model;
    unsigned element_bytes, heads;

    model = perf_model_find(model_name);
    element_bytes = perf_dtype_bytes(dtype);
    if ((model == NULL) || (element_bytes == 0)) {
        return -1;
    }

    if ((tp == 0) || (tp > PERF_MAX_TP)) {
        perf_error("tp %u is out of range; expected 1 to %u", tp, PERF_MAX_TP);
        return -1;
    }

    if ((block_tokens == 0) || (block_tokens > PERF_MAX_BLOCK_TOKENS) ||
        ((block_tokens & (block_tokens - 1)) != 0)) {
        perf_error("block of %u tokens; expected a power of two from 1 to %u",
                   block_tokens, PERF_MAX_BLOCK_TOKENS);
        return -1;
    }

    heads = perf_model_rank_heads(model, tp);
    if (heads == 0) {
        perf_error("tp %u does not divide the %u KV heads of %s, nor is it a multiple",
                   tp, model->num_kv_heads, model->name);
        return -1;
    }

    geometry_p->model = model->name;
    geometry_p->num_layers = model->num_layers;
    geometry_p->num_parts = (model->num_kv_heads == 0) ? 1 : 2;
    geometry_p->block_tokens = block_tokens;
    geometry_p->piece_bytes =
        (size_t)heads * model->head_dim * element_bytes * block_tokens;
    geometry_p->block_bytes =
        geometry_p->piece_bytes * geometry_p->num_parts * geometry_p->num_layers;
    return 0;
}

const perf_model_t perf_models[] = {
    {"Llama-3-70B", 80, 8, 128}, {"Qwen3-235B", 94, 4, 128},
    {"GPT-OSS-120B", 36, 8, 64}, /* as if no layer had a window */
    {"DeepSeek-R1", 61, 0, 576}, /* MLA: latent 512, rope 64 */
    {"Kimi-K2", 61, 0, 576},     {NULL, 0, 0, 0},
};
