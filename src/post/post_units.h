/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_UNITS_H
#define MKV_POST_UNITS_H

/**
 * @file
 * Checks that a post moves only blocks that the peer exposed to this transfer. The
 * caller holds the context's lock.
 */

#include "post/post.h"

/**
 * Whether a selection of a plan lies in what was exposed to the leg.
 *
 * A plan that was exposed as a whole is checked once for all its posts.
 *
 * @return MKV_OK
 * @return MKV_ERR_BOUNDS     A block was not exposed.
 * @return MKV_ERR_DUPLICATE  WRITE: a block occurs twice in the plan.
 * @return MKV_ERR_NOMEM
 */
mkv_status_t mkv_post_check_units(mkv_leg_t *leg, mkv_plan_t *plan,
                                  const mkv_sel_t *sel);

/** Add the post's blocks to what the leg has posted, for the check at the seal. */
void mkv_post_sum_units(const mkv_post_t *post);

/**
 * Check that the peer has sent the keys of the selected memory. The peer sends them
 * when it creates its map.
 *
 * @return MKV_OK, MKV_ERR_PAIRING.
 */
mkv_status_t mkv_post_check_keys(const mkv_leg_t *leg, const mkv_plan_t *plan,
                                 const mkv_sel_t *sel);

/**
 * Digest of the selected pairs of regions and the units of each, which both sides must
 * agree on.
 *
 * @param [out] bytes_p  Bytes of the whole post.
 *
 * @return A digest that does not depend on the order of pairs.
 */
uint64_t mkv_post_digest(const mkv_post_t *post, uint64_t *bytes_p);

#endif
