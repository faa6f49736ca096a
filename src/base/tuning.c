/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/tuning.h"

mkv_tuning_t mkv_tuning = MKV_TUNING_DEFAULT;
