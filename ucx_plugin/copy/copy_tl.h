/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_COPY_TL_H
#define MUCT_COPY_TL_H

/**
 * @file
 * Registration of mori_copy: options, interface and operation tables.
 */

#include "base/muct_transport.h"


extern const muct_transport_t muct_copy_transport;

#endif
