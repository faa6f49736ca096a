/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/memory/block_moves.h"
#include "perf/base/error.h"
#include "perf/memory/engine_side.h"

#include <stdlib.h>
#include <string.h>


enum { PERF_DECODE, PERF_PREFILL, PERF_NUM_SIDES };


static int perf_move_init(perf_move_t *move, const perf_list_t *prefill,
                          const perf_list_t *decode)
{
    uint32_t start = decode->num_shared;
    size_t size;

    move->num_blocks = decode->num - start;
    size = move->num_blocks * sizeof(*move->src);
    move->src = malloc(size + 1); /* decode may have all blocks already */
    move->dst = malloc(size + 1);
    if ((move->src == NULL) || (move->dst == NULL)) {
        perf_error("no memory for the %u blocks of a request", move->num_blocks);
        return -1;
    }

    memcpy(move->src, prefill->blocks + start, size);
    memcpy(move->dst, decode->blocks + start, size);
    return 0;
}

/* Admit, move and finish a request on both sides. */
static int perf_block_moves_next(perf_block_moves_t *moves, perf_engine_side_t *sides)
{
    perf_admitted_t admitted[PERF_NUM_SIDES] = {{0}};
    int i, ret = 1, num = 0;

    for (i = 0; (i < PERF_NUM_SIDES) && (ret > 0); ++i) {
        ret = perf_engine_side_admit(&sides[i], &admitted[i]);
        num += (ret > 0);
        if (ret == 0) {
            perf_error("no room for request %u alone in %u blocks", moves->num_moves,
                       sides[i].shapes[0].num_blocks);
        }
    }
    if (ret > 0) {
        ret = perf_move_init(&moves->moves[moves->num_moves++],
                             &admitted[PERF_PREFILL].lists[0],
                             &admitted[PERF_DECODE].lists[0]);
    } else {
        ret = -1;
    }

    for (i = 0; i < num; ++i) {
        perf_engine_side_finish(&sides[i], &admitted[i]);
    }
    return ret;
}

static int perf_block_moves_fill(perf_block_moves_t *moves,
                                 const perf_options_t *options,
                                 perf_engine_side_t *sides)
{
    int i, ret = 0;

    for (i = 0; (i < PERF_NUM_SIDES) && (ret == 0); ++i) {
        ret = perf_engine_side_open(options, i == PERF_PREFILL, 0, &sides[i]);
    }
    if ((ret == 0) && (sides[PERF_PREFILL].geometry.model.num_components > 1)) {
        perf_error("model %s keeps %u kinds of data; expected one with a single kind",
                   options->model, sides[PERF_PREFILL].geometry.model.num_components);
        ret = -1;
    }
    while ((ret == 0) && (moves->num_moves < options->num_requests)) {
        ret = perf_block_moves_next(moves, sides);
    }
    moves->shape = sides[PERF_PREFILL].shapes[0];
    return ret;
}

int perf_block_moves_create(const perf_options_t *options, perf_block_moves_t **moves_p)
{
    perf_engine_side_t sides[PERF_NUM_SIDES] = {{0}};
    perf_block_moves_t *moves;
    int i, ret;

    if ((options->pipeline_depth != 1) || (options->trace != NULL)) {
        perf_error("pipeline depth %u, %s trace; expected 1 and none: others leave the "
                   "order of requests to the clock and their number to a file",
                   options->pipeline_depth, (options->trace != NULL) ? "a" : "no");
        return -1;
    }

    moves = calloc(1, sizeof(*moves));
    if ((moves == NULL) || ((moves->moves = calloc(options->num_requests,
                                                   sizeof(*moves->moves))) == NULL)) {
        perf_error("no memory for %u requests", options->num_requests);
        free(moves);
        return -1;
    }

    moves->num_warmup = options->warmup_requests;
    ret = perf_block_moves_fill(moves, options, sides);
    for (i = 0; i < PERF_NUM_SIDES; ++i) {
        perf_engine_side_close(&sides[i]);
    }
    if (ret != 0) {
        perf_block_moves_destroy(moves);
        return -1;
    }

    *moves_p = moves;
    return 0;
}

void perf_block_moves_destroy(perf_block_moves_t *moves)
{
    uint32_t i;

    for (i = 0; i < moves->num_moves; ++i) {
        free(moves->moves[i].src);
        free(moves->moves[i].dst);
    }
    free(moves->moves);
    free(moves);
}
