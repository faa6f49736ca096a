/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_BLOB_SHAPE_H
#define MKV_BLOB_SHAPE_H

/**
 * @file
 * Item of a blob that describes the layout of units. Pure.
 */

#include "wire/codec.h"

/**
 * Whether a library without support for the item may use these regions. If false, such
 * a library rejects the blob.
 */
bool mkv_blob_is_plain(const mkv_blob_info_t *info);

/** A record for each region. */
void mkv_blob_put_shapes(mkv_wbuf_t *wbuf, const mkv_blob_info_t *info);

/** Into the regions, which come before. Bad input sets rbuf->is_bad. */
void mkv_blob_get_shapes(mkv_rbuf_t *rbuf, mkv_blob_info_t *info);

#endif
