/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_TL_H
#define MUCT_XGMI_TL_H

/**
 * @file
 * Registration of mori_xgmi: options, attributes and operation tables.
 */

#include "base/muct_transport.h"


extern const muct_transport_t muct_xgmi_transport;

#endif
