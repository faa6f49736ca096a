/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_CHECK_H
#define MKV_CHECK_H

/**
 * @file
 * What Check lacks for code that runs inside and outside of its tests.
 */

#include <check.h>

/** Like ck_assert_msg(), and silent when it holds: usable outside a test too. */
#define MKV_REQUIRE(_cond, ...)                                                        \
    do {                                                                               \
        if (!(_cond)) {                                                                \
            ck_abort_msg(__VA_ARGS__);                                                 \
        }                                                                              \
    } while (0)

#endif
