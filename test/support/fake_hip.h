/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef FAKE_HIP_H
#define FAKE_HIP_H

/**
 * @file
 * The tests' HIP runtime from within the process that uses it: its counters and faults,
 * and a thread that captures. See test/fake/hip/hipcpu.h for each.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/** A symbol of the runtime; fails the test where there is none. */
void *fake_hip_symbol(const char *name);

/** hipcpu_fail(): calls of a function fail, the @a nth one or all of them (0). */
void fake_hip_fail(const char *function, unsigned nth, int error);

/** hipcpu_set_version() */
void fake_hip_set_version(int major, int minor);

/** hipcpu_set_rule() */
void fake_hip_set_rule(const char *name, bool is_on);

/** hipcpu_calls(): how often the function was called. */
unsigned long fake_hip_calls(const char *function);

/** hipcpu_live(): how many objects of a kind there are. */
size_t fake_hip_live(int kind);

/** hipcpu_hold() or hipcpu_release(), by name, of a stream; NULL: of all. */
void fake_hip_hold(const char *name, void *stream);

/** Do as torch.cuda.graph(): a capture in the global mode, in a thread. */
typedef struct fake_hip_capture {
    pthread_t thread;
    pthread_barrier_t barrier;
    int result;
} fake_hip_capture_t;

/** Returns when the capture has begun. */
void fake_hip_capture_start(fake_hip_capture_t *capture);

/** End the capture. @return Status of hipStreamEndCapture(). */
int fake_hip_capture_end(fake_hip_capture_t *capture);

#endif
