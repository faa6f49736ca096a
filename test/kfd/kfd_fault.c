/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Faults by environment.
 *
 * KFDCPU_FAIL=NAME:CALL:ERRNO[,...]  The CALL-th ioctl of this name (amdkfd's, without
 *                                    AMDKFD_IOC_) fails; 0: each.
 * KFDCPU_STALL=sdma:PACKETS          SDMA queues stop after so many packets.
 * KFDCPU_STALL=KERNEL.kd:DISPATCHES  A queue stops in front of a dispatch of this
 * kernel when the process has run so many of it.
 */

#include "kfd_impl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KFD_MAX_FAULTS 16

typedef struct kfd_fault {
    char name[32];
    unsigned call;
    int error;
    unsigned seen;
} kfd_fault_t;

static kfd_fault_t kfd_faults[KFD_MAX_FAULTS];
static unsigned kfd_num_faults;
static pthread_once_t kfd_fault_once = PTHREAD_ONCE_INIT;

/* Read NAME:CALL:ERRNO. @return its length, 0: it is none. */
static int kfd_fault_parse(const char *text, kfd_fault_t *fault)
{
    char call[10], error[10];
    int length = 0;

    if ((sscanf(text, "%31[A-Z_]:%9[0-9]:%9[0-9]%n", fault->name, call, error,
                &length) != 3) ||
        !kfd_ioctl_exists(fault->name)) {
        return 0;
    }
    fault->call = (unsigned)atoi(call);
    fault->error = atoi(error);
    return (fault->error != 0) ? length : 0;
}

static void kfd_fault_read(void)
{
    const char *list = getenv("KFDCPU_FAIL");
    int length;

    while ((list != NULL) && (*list != '\0')) {
        if (kfd_num_faults == KFD_MAX_FAULTS) {
            kfd_die("KFDCPU_FAIL: '%s': expected at most %u faults", list,
                    KFD_MAX_FAULTS);
        }
        length = kfd_fault_parse(list, &kfd_faults[kfd_num_faults++]);
        if ((length == 0) || ((list[length] != '\0') && (list[length] != ','))) {
            kfd_die("KFDCPU_FAIL: '%s': expected ioctl:call:errno, such as "
                    "EXPORT_DMABUF:0:22",
                    list);
        }
        list += length;
        list += (*list == ',');
    }
}

int kfd_fault_take(const char *name)
{
    kfd_fault_t *fault;
    unsigned i, seen;

    pthread_once(&kfd_fault_once, kfd_fault_read);
    for (i = 0; i < kfd_num_faults; ++i) {
        fault = &kfd_faults[i];
        if (strcmp(fault->name, name) != 0) {
            continue;
        }
        seen = __atomic_add_fetch(&fault->seen, 1, __ATOMIC_RELAXED);
        if ((fault->call == 0) || (fault->call == seen)) {
            kfd_log(1, "%s fails with %d by KFDCPU_FAIL", name, fault->error);
            return fault->error;
        }
    }
    return 0;
}

int64_t kfd_fault_stall(const char *what)
{
    const char *text = getenv("KFDCPU_STALL"), *suffix;
    char of[64], count[10];
    int end = 0;

    if (text == NULL) {
        return -1;
    }
    if ((sscanf(text, "%63[a-zA-Z0-9_.]:%9[0-9]%n", of, count, &end) != 2) ||
        (text[end] != '\0') ||
        ((strcmp(of, "sdma") != 0) &&
         (((suffix = strrchr(of, '.')) == NULL) || (strcmp(suffix, ".kd") != 0)))) {
        kfd_die("KFDCPU_STALL=%s: expected sdma:packets or kernel.kd:dispatches", text);
    }
    return (strcmp(of, what) == 0) ? atoi(count) : -1;
}
