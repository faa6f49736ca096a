/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Configuration, armed faults and the names of errors. Faults are few and rare: the
 * list is searched only if a flag is set.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIPCPU_MAX_FAULTS 32
#define HIPCPU_QUARANTINE_SIZE 1024

typedef struct hipcpu_fault {
    char function[64];
    unsigned left; /* calls until it happens; 0: each one fails */
    int error;
} hipcpu_fault_t;

hipcpu_config_t hipcpu_config;
atomic_long hipcpu_counts[HIPCPU_COMMANDS + 1];

static pthread_once_t hipcpu_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t hipcpu_core_lock = PTHREAD_MUTEX_INITIALIZER;
static hipcpu_call_t *hipcpu_call_list;
static hipcpu_fault_t hipcpu_faults[HIPCPU_MAX_FAULTS];
static unsigned hipcpu_num_faults;
static atomic_bool hipcpu_has_faults;
static void *hipcpu_dead[HIPCPU_QUARANTINE_SIZE];
static unsigned hipcpu_dead_next;
static _Thread_local int hipcpu_last_error;


static void hipcpu_core_in_child(void)
{
    pthread_mutex_init(&hipcpu_core_lock, NULL);
}

static void __attribute__((constructor)) hipcpu_core_watch_fork(void)
{
    pthread_atfork(NULL, NULL, hipcpu_core_in_child);
}

void hipcpu_misuse(const char *format, ...)
{
    va_list args;

    flockfile(stderr);
    fprintf(stderr, "libhipcpu[%d]: misuse: ", (int)getpid());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stderr);
    abort();
}

static size_t hipcpu_env_number(const char *name, size_t missing)
{
    const char *text = getenv(name);
    char *end;
    size_t value;

    if ((text == NULL) || (*text == '\0')) {
        return missing;
    }

    value = strtoull(text, &end, 0);
    if (*end != '\0') {
        hipcpu_misuse("%s=%s: expected a number", name, text);
    }
    return value;
}

static void hipcpu_read_version(void)
{
    const char *text = getenv("HIPCPU_VERSION");

    if ((text == NULL) || (*text == '\0')) {
        text = "6.4";
    }
    if (sscanf(text, "%d.%d", &hipcpu_config.major, &hipcpu_config.minor) != 2) {
        hipcpu_misuse("HIPCPU_VERSION=%s: expected major.minor, such as 6.4", text);
    }
}

/* Take those of the first num devices that a list of numbers names, up to the
 * first wrong number, as AMD's runtime does. */
static int hipcpu_filter_devices(const char *list, int *devices, int num)
{
    int chosen[HIPCPU_MAX_DEVICES];
    int count = 0;
    char *end;
    long number;

    while ((*list != '\0') && (count < HIPCPU_MAX_DEVICES)) {
        number = strtol(list, &end, 10);
        if ((end == list) || (number < 0) || (number >= num)) {
            break;
        }
        chosen[count++] = devices[number];
        list = end + (*end == ',');
    }
    memcpy(devices, chosen, (size_t)count * sizeof(*devices));
    return count;
}

static void hipcpu_read_devices(void)
{
    static const char *const names[] = {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"};
    size_t num = hipcpu_env_number("HIPCPU_DEVICES", 2);
    const char *list;
    int i;

    if (num > HIPCPU_MAX_DEVICES) {
        hipcpu_misuse("HIPCPU_DEVICES=%zu: expected 0 to %d", num, HIPCPU_MAX_DEVICES);
    }

    hipcpu_config.num_devices = (int)num;
    for (i = 0; i < hipcpu_config.num_devices; ++i) {
        hipcpu_config.devices[i] = i;
    }
    for (i = 0; i < 2; ++i) {
        list = getenv(names[i]);
        if (list != NULL) {
            hipcpu_config.num_devices = hipcpu_filter_devices(
                list, hipcpu_config.devices, hipcpu_config.num_devices);
        }
    }
}

static void hipcpu_read_faults(void)
{
    const char *list = getenv("HIPCPU_FAIL");
    char function[64];
    unsigned nth;
    int error, length;

    while ((list != NULL) && (*list != '\0')) {
        if (sscanf(list, "%63[^:]:%u:%d%n", function, &nth, &error, &length) != 3) {
            hipcpu_misuse("HIPCPU_FAIL: '%s': expected function:call:error", list);
        }
        hipcpu_fail(function, nth, error);
        list += length;
        list += (*list == ',');
    }
}

static void hipcpu_configure(void)
{
    hipcpu_read_version();
    hipcpu_read_devices();
    hipcpu_rules_read();
    hipcpu_config.arch = getenv("HIPCPU_ARCH");
    if (hipcpu_config.arch == NULL) {
        hipcpu_config.arch = "gfx942";
    }
    hipcpu_config.memory = hipcpu_env_number("HIPCPU_MEMORY", (size_t)192 << 30);
    hipcpu_config.partitions = (int)hipcpu_env_number("HIPCPU_PARTITIONS", 1);
    if (hipcpu_config.partitions < 1) {
        hipcpu_misuse("HIPCPU_PARTITIONS=0: expected 1 or more");
    }
    hipcpu_config.is_copy_on = hipcpu_env_number("HIPCPU_COPY", 1) != 0;
    hipcpu_config.is_inline = hipcpu_env_number("HIPCPU_INLINE", 0) != 0;
    hipcpu_config.is_guarded = hipcpu_env_number("HIPCPU_GUARD", 0) != 0;
    hipcpu_config.delay_us = (unsigned)hipcpu_env_number("HIPCPU_DELAY", 0);
    hipcpu_config.ipc_timeout_ms =
        (unsigned)hipcpu_env_number("HIPCPU_IPC_TIMEOUT", 10000);
    hipcpu_config.ipc_delay_ms = (unsigned)hipcpu_env_number("HIPCPU_IPC_DELAY", 0);
    hipcpu_config.hold_file = getenv("HIPCPU_HOLD");
    hipcpu_read_faults();
}

/* The error of the fault that is due, if any. */
static int hipcpu_take_fault(const char *name)
{
    int error = hipSuccess;
    hipcpu_fault_t *fault;
    unsigned i;

    pthread_mutex_lock(&hipcpu_core_lock);
    for (i = 0; (i < hipcpu_num_faults) && (error == hipSuccess); ++i) {
        fault = &hipcpu_faults[i];
        if (strcmp(fault->function, name) != 0) {
            continue;
        }
        if (fault->left == 0) {
            error = fault->error;
        } else if (--fault->left == 0) {
            error = fault->error;
            if (hipcpu_rule(HIPCPU_RULE_REFUSAL_STICKS)) {
                break; /* with nothing left it is for all calls */
            }
            *fault = hipcpu_faults[--hipcpu_num_faults];
        }
    }
    hipcpu_has_faults = (hipcpu_num_faults > 0);
    pthread_mutex_unlock(&hipcpu_core_lock);
    return error;
}

static void hipcpu_register_call(hipcpu_call_t *call)
{
    hipcpu_call_t *other;

    pthread_mutex_lock(&hipcpu_core_lock);
    for (other = hipcpu_call_list; (other != NULL) && (other != call);
         other = other->next) {
    }
    if (other == NULL) {
        call->next = hipcpu_call_list;
        hipcpu_call_list = call;
    }
    pthread_mutex_unlock(&hipcpu_core_lock);
}

int hipcpu_enter(hipcpu_call_t *call)
{
    int error;

    pthread_once(&hipcpu_once, hipcpu_configure);
    if (atomic_fetch_add_explicit(&call->count, 1, memory_order_relaxed) == 0) {
        hipcpu_register_call(call);
    }
    (void)hipcpu_result(hipSuccess);
    hipcpu_close_wait(call->name);
    if (!atomic_load_explicit(&hipcpu_has_faults, memory_order_relaxed)) {
        return hipSuccess;
    }

    error = hipcpu_take_fault(call->name);
    return (error == hipSuccess) ? hipSuccess : hipcpu_result(error);
}

/* Up to ROCm 6 the last error is the last result, whatever it is; from 7.0 on it is
 * kept until it is queried, and unfinished work is no error. */
hipError_t hipcpu_result(hipError_t error)
{
    if ((hipcpu_config.major < 7) || hipcpu_rule(HIPCPU_RULE_ERRORS_OVERWRITTEN) ||
        ((error != hipSuccess) && (error != hipErrorNotReady))) {
        hipcpu_last_error = error;
    }
    return error;
}

void hipcpu_quarantine(void *handle)
{
    void *oldest;

    pthread_mutex_lock(&hipcpu_core_lock);
    oldest = hipcpu_dead[hipcpu_dead_next];
    hipcpu_dead[hipcpu_dead_next] = handle;
    hipcpu_dead_next = (hipcpu_dead_next + 1) % HIPCPU_QUARANTINE_SIZE;
    pthread_mutex_unlock(&hipcpu_core_lock);
    free(oldest);
}

void hipcpu_fail(const char *function, unsigned nth, int error)
{
    hipcpu_fault_t *fault;

    pthread_mutex_lock(&hipcpu_core_lock);
    if (hipcpu_num_faults == HIPCPU_MAX_FAULTS) {
        hipcpu_misuse("more than %d faults armed", HIPCPU_MAX_FAULTS);
    }
    fault = &hipcpu_faults[hipcpu_num_faults++];
    snprintf(fault->function, sizeof(fault->function), "%s", function);
    fault->left = nth;
    fault->error = error;
    hipcpu_has_faults = true;
    pthread_mutex_unlock(&hipcpu_core_lock);
}

void hipcpu_reset(void)
{
    pthread_mutex_lock(&hipcpu_core_lock);
    hipcpu_num_faults = 0;
    hipcpu_has_faults = false;
    pthread_mutex_unlock(&hipcpu_core_lock);
    hipcpu_lines_hold(false);
}

unsigned long hipcpu_calls(const char *function)
{
    unsigned long count = 0;
    hipcpu_call_t *call;

    pthread_mutex_lock(&hipcpu_core_lock);
    for (call = hipcpu_call_list; call != NULL; call = call->next) {
        if (strcmp(call->name, function) == 0) {
            count += call->count;
        }
    }
    pthread_mutex_unlock(&hipcpu_core_lock);
    return count;
}

size_t hipcpu_live(hipcpu_object_t object)
{
    return (size_t)hipcpu_counts[object];
}

void hipcpu_set_version(int major, int minor)
{
    pthread_once(&hipcpu_once, hipcpu_configure);
    hipcpu_config.major = major;
    hipcpu_config.minor = minor;
}

void hipcpu_set_copy(bool on)
{
    pthread_once(&hipcpu_once, hipcpu_configure);
    hipcpu_config.is_copy_on = on;
}

hipError_t hipGetLastError(void)
{
    int error = hipcpu_last_error;

    hipcpu_last_error = hipSuccess;
    return error;
}

hipError_t hipPeekAtLastError(void)
{
    return hipcpu_last_error;
}

const char *hipGetErrorName(hipError_t error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {hipSuccess, "hipSuccess"},
        {hipErrorInvalidValue, "hipErrorInvalidValue"},
        {hipErrorOutOfMemory, "hipErrorOutOfMemory"},
        {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration"},
        {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer"},
        {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection"},
        {hipErrorInvalidDeviceFunction, "hipErrorInvalidDeviceFunction"},
        {hipErrorNoDevice, "hipErrorNoDevice"},
        {hipErrorInvalidDevice, "hipErrorInvalidDevice"},
        {hipErrorInvalidImage, "hipErrorInvalidImage"},
        {hipErrorInvalidContext, "hipErrorInvalidContext"},
        {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu"},
        {hipErrorAlreadyMapped, "hipErrorAlreadyMapped"},
        {hipErrorPeerAccessUnsupported, "hipErrorPeerAccessUnsupported"},
        {hipErrorInvalidHandle, "hipErrorInvalidHandle"},
        {hipErrorIllegalState, "hipErrorIllegalState"},
        {hipErrorNotFound, "hipErrorNotFound"},
        {hipErrorNotReady, "hipErrorNotReady"},
        {hipErrorIllegalAddress, "hipErrorIllegalAddress"},
        {hipErrorPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled"},
        {hipErrorPeerAccessNotEnabled, "hipErrorPeerAccessNotEnabled"},
        {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered"},
        {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered"},
        {hipErrorLaunchFailure, "hipErrorLaunchFailure"},
        {hipErrorNotSupported, "hipErrorNotSupported"},
        {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported"},
        {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated"},
    };
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "hipErrorUnknown";
}

const char *hipGetErrorString(hipError_t error)
{
    return hipGetErrorName(error);
}
