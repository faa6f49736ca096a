/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Protection domains and memory regions. A key is a slot and a generation that changes
 * with every use of the slot, so that use of a key after its region is detected. */

#define FV_REMOTE                                                                      \
    (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    fv_pd_t *pd;

    if (fv_command_fails("ibv_alloc_pd")) {
        return NULL;
    }
    if (fv_gone(context)) {
        errno = EIO;
        return NULL;
    }

    pd = calloc(1, sizeof(*pd));
    if (pd == NULL) {
        return NULL;
    }

    fv_lock();
    pd->ibv.context = context;
    pd->id = fv.wire->next_pd++;
    fv_context_of(context)->users++;
    fv.objects.pds++;
    fv_unlock();
    return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
    fv_pd_t *pd = fv_container_of(ibv, fv_pd_t, ibv);

    if (fv_command_fails("ibv_dealloc_pd")) {
        return errno;
    }

    fv_lock();
    if (pd->users != 0) {
        fv_unlock();
        return EBUSY;
    }
    if (pd->parent != NULL) {
        pd->parent->users--;
        fv_td_of(pd->td)->users--;
    }
    fv_context_put(ibv->context);
    fv.objects.pds--;
    fv_unlock();
    free(pd);
    return 0;
}

/* ---- thread domains, and protection domains with one ---- */

struct ibv_td *fv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    fv_td_t *td;

    if (fv_command_fails("ibv_alloc_td")) {
        return NULL;
    }

    if ((attr->comp_mask != 0) || !fv_device_of(context)->caps.td) {
        errno = EOPNOTSUPP;
        return NULL;
    }

    td = calloc(1, sizeof(*td));
    if (td == NULL) {
        return NULL;
    }

    fv_lock();
    td->ibv.context = context;
    fv_context_of(context)->users++;
    fv.objects.tds++;
    fv_unlock();
    return &td->ibv;
}

int fv_dealloc_td(struct ibv_td *ibv)
{
    fv_td_t *td = fv_td_of(ibv);

    fv_lock();
    if (td->users != 0) {
        fv_unlock();
        return EBUSY;
    }
    fv_context_put(ibv->context);
    fv.objects.tds--;
    fv_unlock();
    free(td);
    return 0;
}

/* Its queue pairs use memory of the domain that it is made of. */
struct ibv_pd *fv_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr)
{
    fv_pd_t *pd;

    if (fv_command_fails("ibv_alloc_parent_domain")) {
        return NULL;
    }

    pd = calloc(1, sizeof(*pd));
    if ((pd == NULL) || (attr->pd == NULL) || (attr->td == NULL) ||
        (attr->comp_mask != 0)) {
        free(pd);
        errno = EINVAL;
        return NULL;
    }

    fv_lock();
    pd->ibv.context = context;
    pd->parent = fv_container_of(attr->pd, fv_pd_t, ibv);
    pd->id = pd->parent->id;
    pd->td = attr->td;
    pd->parent->users++;
    fv_td_of(attr->td)->users++;
    fv_context_of(context)->users++;
    fv.objects.pds++;
    fv_unlock();
    return &pd->ibv;
}

const fv_wire_mr_t *fv_key_find(uint32_t key)
{
    const fv_wire_mr_t *mr;

    if ((key >> 8) >= FV_MAX_MRS) {
        return NULL;
    }

    mr = &fv.wire->mr[key >> 8];
    return (mr->used && (mr->gen == (key & 0xff))) ? mr : NULL;
}

/* Refuse the same as get_user_pages(): holes, GPU memory without a peer driver. */
static int fv_check_range(const void *addr, size_t length, unsigned access)
{
    const uintptr_t begin = (uintptr_t)addr, end = begin + length;
    const bool write = (access & ~(unsigned)IBV_ACCESS_REMOTE_READ) != 0;
    uintptr_t covered = begin, from, to;
    char line[512], perms[8];
    FILE *maps = fopen("/proc/self/maps", "re");
    int ret = EFAULT;

    if (maps == NULL) {
        return 0;
    }

    while (fgets(line, sizeof(line), maps) != NULL) {
        if ((sscanf(line, "%lx-%lx %7s", &from, &to, perms) != 3) || (to <= covered)) {
            continue;
        }
        if ((from > covered) || (perms[0] != 'r') || (write && (perms[1] != 'w')) ||
            (fv.no_peermem && (strstr(line, "/memfd:hipcpu") != NULL))) {
            break;
        }
        covered = to;
        if (covered >= end) {
            ret = 0;
            break;
        }
    }

    fclose(maps);
    return ret;
}

static int fv_mr_slot(void)
{
    unsigned i;

    for (i = 0; i < FV_MAX_MRS - 1; i++) {
        /* slot 0 is never used: no key is below 256 */
        fv.wire->next_mr = fv.wire->next_mr % (FV_MAX_MRS - 1) + 1;
        if (!fv.wire->mr[fv.wire->next_mr].used) {
            return (int)fv.wire->next_mr;
        }
    }

    return -1;
}

static int fv_mr_check(struct ibv_pd *pd, uint64_t iova, size_t length, unsigned access,
                       bool is_gpu)
{
    const fv_caps_t *caps = &fv_device_of(pd->context)->caps;

    if (fv_gone(pd->context)) {
        return EIO;
    }
    if ((length == 0) || (iova + length < iova) ||
        ((length > caps->max_mr_size) && (caps->max_entries == 0))) {
        return EINVAL;
    }
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
        !(access & IBV_ACCESS_LOCAL_WRITE)) {
        return EINVAL;
    }
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) && !caps->atomics) {
        return EOPNOTSUPP;
    }
    if ((access & IBV_ACCESS_REMOTE_ATOMIC) && caps->no_gpu_atomics && is_gpu) {
        return EINVAL;
    }
    if (access & (IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND)) {
        return EOPNOTSUPP;
    }
    if ((int)fv.objects.mrs >= caps->max_mr) {
        return ENOMEM;
    }

    return 0;
}

static struct ibv_mr *fv_mr_create(struct ibv_pd *pd, void *host, size_t length,
                                   uint64_t iova, unsigned access, uint32_t entries)
{
    fv_wire_mr_t *wire;
    fv_mr_t *mr;
    int slot, error;

    mr = calloc(1, sizeof(*mr));
    if (mr == NULL) {
        return NULL;
    }

    fv_lock();
    error = fv_entries_check(fv_device_of(pd->context)->index, entries);
    slot = fv_mr_slot();
    if ((slot < 0) || (error != 0)) {
        fv_unlock();
        free(mr);
        errno = (error != 0) ? error : ENOMEM;
        return NULL;
    }

    wire = &fv.wire->mr[slot];
    wire->used = true;
    wire->gen++;
    wire->pid = fv.pid;
    wire->device = fv_device_of(pd->context)->index;
    wire->pd = fv_container_of(pd, fv_pd_t, ibv)->id;
    wire->access = access;
    wire->iova = iova;
    wire->length = length;
    wire->host = (uintptr_t)host;
    wire->entries = entries;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.addr = (void *)(uintptr_t)iova;
    mr->ibv.length = length;
    mr->ibv.handle = (uint32_t)slot;
    mr->ibv.lkey = mr->ibv.rkey = ((uint32_t)slot << 8) | wire->gen;
    fv_container_of(pd, fv_pd_t, ibv)->users++;
    fv_context_of(pd->context)->users++;
    fv.objects.mrs++;
    fv.objects.mr_bytes += length;
    fv_unlock();
    return &mr->ibv;
}

/* Peer memory pins the pages that are there: ib_umem_get() with amdgpu's
 * amd_get_pages() (drivers/gpu/drm/amd/amdkfd/kfd_peerdirect.c), which is not called
 * again when the addresses get other memory. */
static struct ibv_mr *fv_mr_create_gpu(struct ibv_pd *pd, void *addr, size_t length,
                                       uint64_t iova, unsigned access, uint32_t entries)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct ibv_mr *mr;
    size_t size;
    char *place = fv_pages_pin(addr, length, &size);

    if (place == NULL) {
        errno = ENOMEM;
        return NULL;
    }

    mr = fv_mr_create(pd, place + ((uintptr_t)addr & (page - 1)), length, iova, access,
                      entries);
    if (mr == NULL) {
        munmap(place, size);
        return NULL;
    }

    fv_container_of(mr, fv_mr_t, ibv)->mapping = place;
    fv_container_of(mr, fv_mr_t, ibv)->mapping_size = size;
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                uint64_t iova, unsigned int access)
{
    const fv_caps_t *caps = &fv_device_of(pd->context)->caps;
    const bool is_gpu = fv_is_gpu(addr);
    struct ibv_mr *mr;
    uint32_t entries;

    if (fv_command_fails("ibv_reg_mr")) {
        return NULL;
    }

    access &= ~(unsigned)IBV_ACCESS_OPTIONAL_RANGE; /* relaxed ordering: no effect */
    errno = fv_mr_check(pd, iova, length, access, is_gpu);
    if ((errno == 0) && caps->no_peermem && is_gpu) {
        errno = EINVAL;
    }
    if (errno == 0) {
        errno = fv_check_range(addr, length, access);
    }
    if (errno != 0) {
        return NULL;
    }

    entries = fv_entries(caps, addr, length, false);
    mr = is_gpu ? fv_mr_create_gpu(pd, addr, length, iova, access, entries)
                : fv_mr_create(pd, addr, length, iova, access, entries);
    if (mr != NULL) {
        mr->addr = addr;
    }

    return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

#undef ibv_reg_mr_iova
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
                               uint64_t iova, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* A dma-buf is a file here (libhipcpu exports memfds): mapping it stands for the real
 * device's page tables. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                 uint64_t iova, int fd, int access)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t start = offset & ~(page - 1);
    struct ibv_mr *mr;
    struct stat st;
    size_t size;
    void *map;

    if (fv_command_fails("ibv_reg_dmabuf_mr")) {
        return NULL;
    }
    if (!fv_device_of(pd->context)->caps.dmabuf) {
        errno = EOPNOTSUPP;
        return NULL;
    }

    access &= (int)~(unsigned)IBV_ACCESS_OPTIONAL_RANGE;
    errno = fv_mr_check(pd, iova, length, (unsigned)access, true);
    if (errno != 0) {
        return NULL;
    }
    if (((iova ^ offset) & (page - 1)) != 0) {
        errno = EINVAL; /* as ib_umem_dmabuf: both have the same place in a page */
        return NULL;
    }
    if (fstat(fd, &st) != 0) {
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || (offset + length < offset) ||
        (offset + length > (uint64_t)st.st_size)) {
        errno = EINVAL;
        return NULL;
    }

    size = (size_t)(offset - start) + length;
    map = fv.has_other_pages
              ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0)
              : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
    if (map == MAP_FAILED) {
        return NULL;
    }

    mr =
        fv_mr_create(pd, (char *)map + (offset - start), length, iova, (unsigned)access,
                     fv_entries(&fv_device_of(pd->context)->caps, NULL, length, true));
    if (mr == NULL) {
        munmap(map, size);
        return NULL;
    }

    fv_container_of(mr, fv_mr_t, ibv)->mapping = map;
    fv_container_of(mr, fv_mr_t, ibv)->mapping_size = size;
    fv_container_of(mr, fv_mr_t, ibv)->is_dmabuf = true;
    fv_lock();
    fv.objects.dmabuf_mrs++;
    fv_unlock();
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
    fv_mr_t *mr = fv_container_of(ibv, fv_mr_t, ibv);
    fv_wire_mr_t *wire;

    if (fv_command_fails("ibv_dereg_mr")) {
        return errno;
    }

    fv_lock();
    wire = &fv.wire->mr[ibv->handle % FV_MAX_MRS];
    if (!wire->used || (wire->gen != (ibv->lkey & 0xff))) {
        fv_abort("ibv_dereg_mr(lkey 0x%x) of a region that is not registered",
                 ibv->lkey);
    }
    wire->used = false;
    fv_container_of(ibv->pd, fv_pd_t, ibv)->users--;
    fv_context_put(ibv->context);
    fv.objects.mrs--;
    fv.objects.mr_bytes -= ibv->length;
    fv.objects.dmabuf_mrs -= mr->is_dmabuf;
    fv_unlock();

    if (mr->mapping != NULL) {
        munmap(mr->mapping, mr->mapping_size);
    }
    free(mr);
    return 0;
}
