/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIP_LIB_H
#define HIP_LIB_H

/**
 * @file
 * A HIP runtime for the programs of test/kfd: the one that HIP_LIBRARY names, so that
 * one program compares AMD's releases and libhipcpu.
 */

#include <hip/hip_runtime_api.h>
#include <stddef.h>

/** Address of a function of the runtime; the program ends if it has none. */
void *hip_symbol(const char *name);

/** Whether the runtime has a function. */
int hip_has(const char *name);

/** A function of the runtime. */
#define HIP(_name) ((__typeof__(&_name))hip_symbol(#_name))

/** End the program with a text about the place and the cause. */
void hip_fail(const char *file, int line, const char *what, int code)
    __attribute__((noreturn));

/** Call a function of the runtime that has to return hipSuccess. */
#define HIP_OK(_name, ...)                                                             \
    do {                                                                               \
        int hip_ok_rc = (int)HIP(_name)(__VA_ARGS__);                                  \
                                                                                       \
        if (hip_ok_rc != 0) {                                                          \
            hip_fail(__FILE__, __LINE__, #_name, hip_ok_rc);                           \
        }                                                                              \
    } while (0)

/** Fail the test when the condition is false. */
#define HIP_TRUE(_condition)                                                           \
    do {                                                                               \
        if (!(_condition)) {                                                           \
            hip_fail(__FILE__, __LINE__, #_condition, 0);                              \
        }                                                                              \
    } while (0)

/** Bytes that depend on a seed, and how many of them are as written. */
void hip_pattern(void *buffer, size_t length, unsigned seed);
size_t hip_pattern_good(const void *buffer, size_t length, unsigned seed);

#endif
