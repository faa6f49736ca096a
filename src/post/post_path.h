/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_POST_PATH_H
#define MKV_POST_PATH_H

/**
 * @file
 * UCX paths of a post's calls. The first call between two memory types is queried.
 */

#include "peer/path.h"
#include "post/post_calls.h"

/** Key of the path that calls of a pair take. */
static inline mkv_path_key_t mkv_post_path(const mkv_post_t *post,
                                           const mkv_pair_t *pair, bool is_list)
{
    mkv_path_key_t key = {.kind = is_list                              ? MKV_CALL_LIST
                                  : (post->leg->xfer->role == MKV_SRC) ? MKV_CALL_PUT
                                                                       : MKV_CALL_GET,
                          .local = pair->mem->type,
                          .remote = pair->rmem->type};

    return key;
}

/** Query this request of the group for its path. */
void mkv_calls_note(const mkv_calls_t *calls, void *request);

/**
 * Whether strict mode refuses the path of these calls. The transfer has failed then.
 */
bool mkv_post_is_refused(mkv_post_t *post, const mkv_path_key_t *key);

#endif
