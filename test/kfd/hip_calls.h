/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef HIP_CALLS_H
#define HIP_CALLS_H

/**
 * @file
 * Probes of a HIP runtime: each is a few calls, and one line of their results.
 *
 * A line has no addresses and no times, so that lines of two runtimes can be compared.
 * A probe runs in a process of its own, as some end it.
 */

#include "hip_lib.h"

#include <stdio.h>

#define CALLS_SIZE ((size_t)1 << 20)

typedef struct hip_probe {
    const char *name;
    void (*run)(void);
} hip_probe_t;

/** Tables that end with a NULL name. */
extern const hip_probe_t hip_probes_memory[];
extern const hip_probe_t hip_probes_share[];
extern const hip_probe_t hip_probes_capture[];

/** Print "label=number". */
void hip_print(const char *label, long number);

/** Call a function of the runtime and print "label=result". */
#define CALL_AND_PRINT(_label, _name, ...)                                             \
    hip_print(_label, (long)HIP(_name)(__VA_ARGS__))

/** Print the results of hipPointerGetAttributes() and hipMemGetAddressRange() for an
 * address. */
void hip_print_attributes(const char *label, const void *address);
void hip_print_range(const char *label, void *address);

/** Memory of the current GPU; memory of the host from hipHostMalloc(). */
char *hip_device_memory(size_t size);
char *hip_host_memory(size_t size);

/** Two chunks of CALLS_CHUNK bytes, mapped side by side. */
#define CALLS_CHUNK ((size_t)2 << 20)
char *hip_chunk_memory(hipMemGenericAllocationHandle_t *handles);

/** A stream that does not wait for the null stream. */
hipStream_t hip_stream(void);

/** Start this program again as a probe, with bytes as its standard input. */
void hip_run_probe(const char *name, const void *input, size_t size);

#endif
