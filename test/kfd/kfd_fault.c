/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Faults by environment.
 *
 * KFDCPU_FAIL=NAME:CALL:ERRNO[,...]  The CALL-th ioctl of this name (amdkfd's, without
 *                                    AMDKFD_IOC_) fails; 0: each.
 * KFDCPU_STALL=aql|sdma:PACKETS      Queues of this kind stop after so many packets.
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

static void kfd_fault_read(void)
{
    const char *list = getenv("KFDCPU_FAIL");
    kfd_fault_t *fault;
    int length;

    while ((list != NULL) && (*list != '\0') && (kfd_num_faults < KFD_MAX_FAULTS)) {
        fault = &kfd_faults[kfd_num_faults++];
        if (sscanf(list, "%31[^:]:%u:%d%n", fault->name, &fault->call, &fault->error,
                   &length) != 3) {
            kfd_die("KFDCPU_FAIL: '%s': expected ioctl:call:errno", list);
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

int64_t kfd_fault_stall(const char *kind)
{
    const char *text = getenv("KFDCPU_STALL");
    size_t length = strlen(kind);
    char *end;
    long long packets;

    if ((text == NULL) || (strncmp(text, kind, length) != 0)) {
        return -1;
    }
    packets = strtoll(text + length + 1, &end, 10);
    if ((text[length] != ':') || (*end != '\0') || (packets < 0)) {
        kfd_die("KFDCPU_STALL=%s: expected %s:packets", text, kind);
    }
    return packets;
}
