/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TEST_MODELS_HERE_H
#define TEST_MODELS_HERE_H

/**
 * @file
 * The models are those of the sources, wherever the test runs.
 */

#include <stdlib.h>

#ifndef TEST_MODELS
#define TEST_MODELS "perf/models"
#endif


__attribute__((constructor)) static void test_models_here(void)
{
    setenv("MORI_KV_PERF_MODELS", TEST_MODELS, 1);
}

#endif
