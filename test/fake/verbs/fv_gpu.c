/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <stdlib.h>
#include <string.h>

/*
 * Memory of GPUs, behind PCIe. A device acknowledges a write when it has posted it, and
 * gives no guarantee of its arrival. In the fake the write arrives when a later read
 * from the same GPU on the same queue pair pushes it. (On a real machine a read of a
 * different queue pair may do so as well, or luck.) The device that wrote also pushes
 * it when it reads from the GPU what it sends: PCI Express lets no read pass a posted
 * write (Base Specification, table of ordering rules), and RCCL flushes by another
 * queue pair of the device that received (net_ib.cc, ncclIbIflush()).
 */

#define FV_MAX_RANGES 64

typedef struct fv_range {
    uint64_t begin;
    uint64_t length;
    unsigned gpu;
} fv_range_t;

static fv_range_t fv_ranges[FV_MAX_RANGES];
static unsigned fv_num_ranges;
static int (*fv_gpu_lookup)(const void *address);

void fake_verbs_gpu_memory(const void *address, size_t length, unsigned gpu)
{
    fv_init();
    fv_lock();
    if (fv_num_ranges == FV_MAX_RANGES) {
        fv_abort("fake_verbs_gpu_memory() of more than %d ranges", FV_MAX_RANGES);
    }
    fv_ranges[fv_num_ranges].begin = (uintptr_t)address;
    fv_ranges[fv_num_ranges].length = length;
    fv_ranges[fv_num_ranges].gpu = gpu;
    fv_num_ranges++;
    fv_unlock();
}

void fake_verbs_gpu_lookup(int (*gpu_of)(const void *address))
{
    fv_init();
    fv_lock();
    fv_gpu_lookup = gpu_of;
    fv_unlock();
}

void fv_gpu_forget(void)
{
    fv_num_ranges = 0;
    fv_gpu_lookup = NULL;
}

static bool fv_gpu_of_address(uint64_t address, unsigned *gpu)
{
    unsigned i;
    int found;

    for (i = 0; i < fv_num_ranges; i++) {
        if (address - fv_ranges[i].begin < fv_ranges[i].length) {
            *gpu = fv_ranges[i].gpu;
            return true;
        }
    }

    found =
        (fv_gpu_lookup != NULL) ? fv_gpu_lookup((const void *)(uintptr_t)address) : -1;
    *gpu = (unsigned)found;
    return found >= 0;
}

/* Find the GPU of a region's byte; false when it is host memory. */
static bool fv_gpu_of(const fv_wire_mr_t *mr, uint64_t address, unsigned *gpu)
{
    return (mr->pid == fv.pid) && fv_gpu_of_address(address, gpu);
}

/* Land one posted write; it is dropped when the region is not registered any more. */
static void fv_gpu_land(const fv_posted_t *posted)
{
    const struct ibv_sge data = {.addr = (uintptr_t)posted->data,
                                 .length = posted->length};
    const fv_wire_mr_t *mr = fv_key_find(posted->rkey);

    if (mr != NULL) {
        (void)fv_memory_write_late(mr->pid, mr->host + (posted->address - mr->iova),
                                   &data, 1);
    }
}

static void fv_gpu_land_some(fv_qp_t *qp, bool all, unsigned gpu)
{
    fv_posted_t *posted, **link = &qp->posted;

    while (*link != NULL) {
        posted = *link;
        if (!all && (posted->gpu != gpu)) {
            link = &posted->next;
            continue;
        }
        *link = posted->next;
        fv_gpu_land(posted);
        free(posted);
    }
}

void fv_gpu_push(fv_qp_t *qp, const fv_wire_mr_t *mr, const fv_send_t *send)
{
    unsigned gpu;

    if ((qp->posted != NULL) && fv_gpu_of(mr, send->remote_addr, &gpu)) {
        fv_gpu_land_some(qp, false, gpu);
    }
}

static bool fv_gpu_is_written_by(const fv_qp_t *qp, unsigned device)
{
    const fv_wire_qp_t *peer =
        (qp->posted != NULL) ? fv_wire_qp_find(qp->wire->dest_qp_num) : NULL;

    return (peer != NULL) && (peer->device == device);
}

void fv_gpu_push_by_send(const fv_qp_t *qp, const fv_send_t *send)
{
    unsigned i, gpu;
    fv_qp_t *other;

    if (send->flags & IBV_SEND_INLINE) {
        return; /* read by the processor when it was posted */
    }

    for (other = fv.qps; other != NULL; other = other->next) {
        for (i = 0;
             fv_gpu_is_written_by(other, qp->wire->device) && (i < send->num_sge);
             i++) {
            if ((send->sge[i].length > 0) &&
                fv_gpu_of_address(send->sge[i].addr, &gpu)) {
                fv_gpu_land_some(other, false, gpu);
            }
        }
    }
}

/* Atomics are so towards those of other queue pairs, too. */
void fv_gpu_push_for_all(const fv_wire_mr_t *mr, const fv_send_t *send)
{
    fv_qp_t *qp;

    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        fv_gpu_push(qp, mr, send);
    }
}

void fv_gpu_push_all(fv_qp_t *qp)
{
    fv_gpu_land_some(qp, true, 0);
}

int fv_gpu_write(fv_qp_t *qp, const fv_wire_mr_t *mr, const fv_send_t *send,
                 const struct ibv_sge *local, unsigned count)
{
    fv_posted_t *posted, **link = &qp->posted;
    unsigned gpu;

    if (fv.has_late_writes && (mr->pid == fv.pid) && (send->length >= FV_WRONG_FROM)) {
        fv_gpu_push_all(qp); /* no read did */
        gpu = 0;
    } else if (!fv_gpu_of(mr, send->remote_addr, &gpu)) {
        return fv_memory_write(mr->pid, mr->host + (send->remote_addr - mr->iova),
                               local, count);
    }

    posted = calloc(1, sizeof(*posted) + send->length);
    if (posted == NULL) {
        fv_abort("no memory for a write of %u bytes", send->length);
    }
    posted->gpu = gpu;
    posted->rkey = send->rkey;
    posted->address = send->remote_addr;
    posted->length = send->length;
    (void)fv_memory_write(fv.pid, (uintptr_t)posted->data, local, count);
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = posted;
    return 0;
}
