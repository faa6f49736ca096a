/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/geometry.h"
#include "perf/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>


enum { PERF_MAX_BLOCK_TOKENS = 8192, PERF_MAX_TP = 1024 };

static const struct {
    const char *name;
    unsigned bytes;
} perf_dtypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp8", 1}, {"fp32", 4}};


static unsigned perf_dtype_find(const char *dtype)
{
    unsigned i;

    for (i = 0; (i < sizeof(perf_dtypes) / sizeof(perf_dtypes[0])) &&
                (strcasecmp(perf_dtypes[i].name, dtype) != 0);
         ++i) {
    }
    if (i == sizeof(perf_dtypes) / sizeof(perf_dtypes[0])) {
        perf_error("dtype '%s' is not known; expected bf16, fp16, fp8 or fp32", dtype);
    }
    return i;
}

const char *perf_dtype_name(const char *dtype)
{
    unsigned i = perf_dtype_find(dtype);

    return (i < sizeof(perf_dtypes) / sizeof(perf_dtypes[0])) ? perf_dtypes[i].name
                                                              : NULL;
}

static unsigned perf_dtype_bytes(const char *dtype)
{
    unsigned i = perf_dtype_find(dtype);

    return (i < sizeof(perf_dtypes) / sizeof(perf_dtypes[0])) ? perf_dtypes[i].bytes
                                                              : 0;
}

/* Elements of all groups on one rank, 0 when they cannot be shared out evenly. */
static unsigned perf_component_elements(const perf_component_t *component, unsigned tp)
{
    unsigned i, elements = 0;

    for (i = 0; i < component->num_groups; ++i) {
        if ((component->groups[i] % tp == 0) || (tp % component->groups[i] == 0)) {
            elements += (component->groups[i] > tp) ? component->groups[i] / tp : 1;
        } else {
            perf_error("tp %u does not divide the %u %s of %s, nor is it a multiple",
                       tp, component->groups[i],
                       (component->num_groups == 1) ? "heads" : "channels",
                       component->name);
            return 0;
        }
    }
    return (component->num_groups == 0) ? 1 : elements;
}

static size_t perf_component_inner(const perf_component_t *component, const char *dtype)
{
    const char *own = (component->dtype[0] != '\0') ? component->dtype : dtype;

    if ((component->fp8_bytes != 0) && (strcasecmp(own, "fp8") == 0)) {
        return component->fp8_bytes;
    }
    return (component->bytes != 0) ? component->bytes
                                   : (size_t)component->dim * perf_dtype_bytes(own);
}

static unsigned perf_component_block(const perf_component_t *component,
                                     unsigned block_tokens)
{
    if (component->keep == PERF_KEEP_STATE) {
        return 1;
    }
    return (component->block_tokens != 0) ? component->block_tokens : block_tokens;
}

static int perf_share_init(const perf_component_t *component, unsigned tp,
                           unsigned block_tokens, const char *dtype,
                           perf_share_t *share)
{
    unsigned elements = perf_component_elements(component, tp);

    share->block_tokens = perf_component_block(component, block_tokens);
    share->inner_bytes = perf_component_inner(component, dtype);
    if ((elements == 0) || (share->inner_bytes == 0)) {
        return -1;
    }
    if ((share->block_tokens % component->compress) != 0) {
        perf_error("block of %u tokens; expected a multiple of the %u that %s merges "
                   "into one",
                   share->block_tokens, component->compress, component->name);
        return -1;
    }

    share->entries = share->block_tokens / component->compress;
    share->piece_bytes =
        (size_t)component->outer * share->entries * elements * share->inner_bytes;
    share->piece_bytes =
        (share->piece_bytes + component->pad - 1) / component->pad * component->pad;
    return 0;
}

static int perf_geometry_shares(perf_geometry_t *geometry, const char *dtype)
{
    const perf_component_t *component;
    perf_share_t *share;
    unsigned i;

    for (i = 0; i < geometry->model.num_components; ++i) {
        component = &geometry->model.components[i];
        share = &geometry->shares[i];
        if (perf_share_init(component, geometry->tp, geometry->block_tokens, dtype,
                            share) != 0) {
            return -1;
        }
        if (component->keep == PERF_KEEP_ALL) {
            geometry->block_bytes +=
                share->piece_bytes * component->parts * component->num_layers;
        }
    }
    return 0;
}

static int perf_geometry_fill(unsigned tp, unsigned block_tokens, const char *dtype,
                              perf_geometry_t *geometry)
{
    const perf_model_t *model = &geometry->model;

    geometry->tp = (tp != 0) ? tp : model->tp;
    geometry->block_tokens = (block_tokens != 0) ? block_tokens : model->block_tokens;
    geometry->key_tokens = geometry->block_tokens;
    geometry->num_layers = model->num_layers;
    dtype = (dtype != NULL) ? dtype : model->dtype;
    if (perf_dtype_bytes(dtype) == 0) {
        return -1;
    }
    if (geometry->tp > PERF_MAX_TP) {
        perf_error("tp %u is out of range; expected 1 to %u", tp, PERF_MAX_TP);
        return -1;
    }
    if (geometry->block_tokens > PERF_MAX_BLOCK_TOKENS) {
        perf_error("block of %u tokens; expected 1 to %u", block_tokens,
                   PERF_MAX_BLOCK_TOKENS);
        return -1;
    }
    if (perf_geometry_shares(geometry, dtype) != 0) {
        return -1;
    }
    geometry->num_parts = model->components[0].parts;
    geometry->piece_bytes = geometry->shares[0].piece_bytes;
    return 0;
}

int perf_geometry_init(const char *model, unsigned tp, unsigned block_tokens,
                       const char *dtype, perf_geometry_t *geometry_p)
{
    perf_geometry_t *geometry = calloc(1, sizeof(*geometry));
    int ret = -1;

    if (geometry == NULL) {
        perf_error("no memory for the model '%s'", model);
        return -1;
    }
    if ((perf_model_read(model, &geometry->model) == 0) &&
        (perf_geometry_fill(tp, block_tokens, dtype, geometry) == 0)) {
        *geometry_p = *geometry;
        ret = 0;
    }
    free(geometry);
    return ret;
}

unsigned perf_geometry_units(const perf_geometry_t *geometry, unsigned component,
                             unsigned tokens, unsigned *first_p)
{
    const perf_component_t *what = &geometry->model.components[component];
    const unsigned block = geometry->shares[component].block_tokens;
    unsigned from = 0;

    if (what->keep == PERF_KEEP_STATE) {
        *first_p = 0;
        return 1;
    }
    if (what->keep == PERF_KEEP_WINDOW) {
        from = (tokens > what->window) ? tokens - what->window : 0;
    } else if (what->keep == PERF_KEEP_CHUNK) {
        from = (tokens - 1) / what->window * what->window;
    }
    *first_p = from / block;
    return (tokens - 1) / block + 1 - *first_p;
}

unsigned perf_geometry_max_units(const perf_geometry_t *geometry, unsigned component)
{
    const perf_component_t *what = &geometry->model.components[component];
    const unsigned block = geometry->shares[component].block_tokens;

    if (what->keep == PERF_KEEP_ALL) {
        return 0;
    }
    /* one more where a window begins inside a block */
    return (what->keep == PERF_KEEP_STATE) ? 1 : (what->window - 1) / block + 2;
}

void perf_geometry_prompt(const perf_geometry_t *geometry, unsigned tokens,
                          uint64_t *pieces_p, uint64_t *bytes_p)
{
    const perf_component_t *component;
    uint64_t pieces;
    unsigned i, first;

    *pieces_p = *bytes_p = 0;
    for (i = 0; i < geometry->model.num_components; ++i) {
        component = &geometry->model.components[i];
        pieces = (uint64_t)perf_geometry_units(geometry, i, tokens, &first) *
                 component->parts * component->num_layers;
        *pieces_p += pieces;
        *bytes_p += pieces * geometry->shares[i].piece_bytes;
    }
}
