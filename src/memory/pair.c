/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The layers of a slab adjoin in each block. Their pairs are linked in address order,
 * so that a post of several layers has one piece per block.
 */

#include "memory/pair.h"

#include <stdlib.h>

void mkv_pair_finish(mkv_pair_t *pair)
{
    const mkv_grid_t *grid = &pair->grid;

    pair->unit_bytes = grid->length * grid->rows * grid->cols;
    pair->is_dense = (grid->rows * grid->cols == 1) && (pair->here.split == 1) &&
                     (pair->there.split == 1) && (pair->here.stride == grid->length) &&
                     (pair->there.stride == grid->length);
    pair->prev = pair->next = MKV_NO_PAIR;
}

static int mkv_u64_compare(uint64_t a, uint64_t b)
{
    return (a < b) ? -1 : (a > b);
}

/* Order by component, then by address, so that adjoining pairs are neighbours */
static int mkv_pair_compare_place(const void *a, const void *b)
{
    const mkv_pair_t *pa = *(const mkv_pair_t *const *)a;
    const mkv_pair_t *pb = *(const mkv_pair_t *const *)b;
    int order = mkv_u64_compare(pa->component, pb->component);

    return (order != 0) ? order : mkv_u64_compare(pa->there.base, pb->there.base);
}

static bool mkv_place_is_linear(const mkv_place_t *a, const mkv_place_t *b)
{
    return (a->split == 1) && (b->split == 1) && (a->stride == b->stride);
}

/* Whether b is the next piece after a, in every unit */
static bool mkv_pair_adjoins(const mkv_pair_t *a, const mkv_pair_t *b)
{
    return (a->component == b->component) && (a->mem == b->mem) &&
           (a->rmem == b->rmem) && (a->grid.rows * a->grid.cols == 1) &&
           (b->grid.rows * b->grid.cols == 1) &&
           mkv_place_is_linear(&a->here, &b->here) &&
           mkv_place_is_linear(&a->there, &b->there) &&
           (b->here.base - a->here.base == a->grid.length) &&
           (b->there.base - a->there.base == a->grid.length);
}

mkv_status_t mkv_pairs_join(mkv_pair_t *pairs, uint32_t num)
{
    mkv_pair_t **sorted = malloc((num + 1) * sizeof(*sorted));
    uint32_t i;

    if (sorted == NULL) {
        return MKV_ERR_NOMEM;
    }
    for (i = 0; i < num; ++i) {
        sorted[i] = &pairs[i];
    }
    qsort(sorted, num, sizeof(*sorted), mkv_pair_compare_place);
    for (i = 1; i < num; ++i) {
        if (mkv_pair_adjoins(sorted[i - 1], sorted[i])) {
            sorted[i - 1]->next = (uint32_t)(sorted[i] - pairs);
            sorted[i]->prev = (uint32_t)(sorted[i - 1] - pairs);
        }
    }
    free(sorted);
    return MKV_OK;
}
