/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_hip.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A shared mapping, which a transport may reach by its file. With MKV_TEST_PRIVATE it
 * is a private one. */
static void *ct_mem_alloc_host(ct_mem_t *mem)
{
    void *addr;

    if (getenv("MKV_TEST_PRIVATE") != NULL) {
        mem->fd = -1;
        addr = mmap(NULL, mem->length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return (addr == MAP_FAILED) ? NULL : addr;
    }

    mem->fd = memfd_create("conformance", MFD_CLOEXEC);
    if ((mem->fd < 0) || (ftruncate(mem->fd, (off_t)mem->length) != 0)) {
        return NULL;
    }

    addr = mmap(NULL, mem->length, PROT_READ | PROT_WRITE, MAP_SHARED, mem->fd, 0);
    return (addr == MAP_FAILED) ? NULL : addr;
}

static void *ct_mem_alloc_raw(ct_mem_t *mem)
{
    return (mem->type == UCS_MEMORY_TYPE_ROCM) ? mkv_hip_alloc(mem->length)
                                               : ct_mem_alloc_host(mem);
}

static void ct_mem_free_raw(ct_mem_t *mem)
{
    if (mem->type == UCS_MEMORY_TYPE_ROCM) {
        mkv_hip_free(mem->addr);
    } else {
        munmap(mem->addr, mem->length);
        if (mem->fd >= 0) {
            close(mem->fd);
        }
    }
}

ucs_status_t ct_mem_register(ct_side_t *side, ct_mem_t *mem)
{
    uct_md_mem_reg_params_t params = {
        .field_mask = CT_REG_FIELD_FLAGS | CT_REG_FIELD_MEM_TYPE,
        .flags = UCT_MD_MEM_ACCESS_ALL,
        .mem_type = mem->type,
    };
    ucs_status_t status;

    if (!(side->md_attr.cap.flags & UCT_MD_FLAG_REG) ||
        !(side->md_attr.cap.reg_mem_types & UCS_BIT(mem->type))) {
        mem->memh = UCT_MEM_HANDLE_NULL;
        return UCS_OK;
    }

    status = uct_md_mem_reg_v2(side->md, mem->addr, mem->length, &params, &mem->memh);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_md_mem_reg_v2(%zu bytes): %s",
                 mem->length, ucs_status_string(status));
    }
    return status;
}

static ucs_status_t ct_mem_alloc_from_md(ct_side_t *side, ct_mem_t *mem)
{
    uct_alloc_method_t method = UCT_ALLOC_METHOD_MD;
    uct_mem_alloc_params_t params = {
        .field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS |
                      UCT_MEM_ALLOC_PARAM_FIELD_MEM_TYPE |
                      UCT_MEM_ALLOC_PARAM_FIELD_MDS | UCT_MEM_ALLOC_PARAM_FIELD_NAME,
        .flags = UCT_MD_MEM_ACCESS_ALL,
        .mem_type = mem->type,
        .mds = {.mds = &side->md, .count = 1},
        .name = "conformance",
    };
    ucs_status_t status;

    status = uct_mem_alloc(mem->length, &method, 1, &params, &mem->from_md);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_mem_alloc(%zu bytes): %s",
                 mem->length, ucs_status_string(status));
        return status;
    }

    mem->addr = mem->from_md.address;
    mem->memh = mem->from_md.memh;
    mem->how = CT_MEM_FROM_MD;
    return UCS_OK;
}

ucs_status_t ct_mem_create(ct_side_t *side, size_t length, ucs_memory_type_t type,
                           ct_mem_t *mem)
{
    const uint64_t flags = side->md_attr.cap.flags;
    ucs_status_t status;

    memset(mem, 0, sizeof(*mem));
    mem->length = length;
    mem->type = type;

    if (!(flags & UCT_MD_FLAG_REG) && (flags & UCT_MD_FLAG_ALLOC) &&
        (flags & UCT_MD_FLAG_NEED_RKEY)) {
        return ct_mem_alloc_from_md(side, mem);
    }

    mem->addr = ct_mem_alloc_raw(mem);
    if (mem->addr == NULL) {
        snprintf(side->why, sizeof(side->why), "no memory for %zu bytes", length);
        return UCS_ERR_NO_MEMORY;
    }

    status = ct_mem_register(side, mem);
    if (status != UCS_OK) {
        ct_mem_free_raw(mem);
        return status;
    }

    mem->how = CT_MEM_REGISTERED;
    return UCS_OK;
}

void ct_mem_destroy(ct_side_t *side, ct_mem_t *mem)
{
    if (mem->how == CT_MEM_FROM_MD) {
        uct_mem_free(&mem->from_md);
    } else if (mem->how == CT_MEM_REGISTERED) {
        if (mem->memh != UCT_MEM_HANDLE_NULL) {
            uct_md_mem_dereg(side->md, mem->memh);
        }
        ct_mem_free_raw(mem);
    }

    mem->how = CT_MEM_NONE;
}

ucs_status_t ct_mem_pack(ct_side_t *side, const ct_mem_t *mem, unsigned pack_flags,
                         void *key)
{
    uct_md_mkey_pack_params_t params = {.field_mask = CT_PACK_FIELD_FLAGS,
                                        .flags = pack_flags};

    if (!(side->md_attr.cap.flags & UCT_MD_FLAG_NEED_RKEY)) {
        return UCS_OK;
    }

    return uct_md_mkey_pack_v2(side->md, mem->memh, mem->addr, mem->length, &params,
                               key);
}

int ct_mem_write(const ct_mem_t *mem, size_t offset, const void *from, size_t length)
{
    char *to = (char *)mem->addr + offset;

    if (mem->type == UCS_MEMORY_TYPE_ROCM) {
        return mkv_hip_copy(to, from, length);
    }

    memcpy(to, from, length);
    return 1;
}

int ct_mem_read(const ct_mem_t *mem, size_t offset, void *to, size_t length)
{
    const char *from = (const char *)mem->addr + offset;

    if (mem->type == UCS_MEMORY_TYPE_ROCM) {
        return mkv_hip_copy(to, from, length);
    }

    memcpy(to, from, length);
    return 1;
}

int ct_mem_fill(const ct_mem_t *mem, size_t offset, size_t length, uint64_t seed,
                uint64_t pattern_offset)
{
    void *buffer = malloc(length + 1);
    int is_ok;

    mkv_pattern_fill(buffer, length, seed, pattern_offset);
    is_ok = ct_mem_write(mem, offset, buffer, length);
    free(buffer);
    return is_ok;
}

size_t ct_mem_check(const ct_mem_t *mem, size_t offset, size_t length, uint64_t seed,
                    uint64_t pattern_offset)
{
    void *buffer = malloc(length + 1);
    size_t same = 0;

    if (ct_mem_read(mem, offset, buffer, length)) {
        same = mkv_pattern_check(buffer, length, seed, pattern_offset);
    }

    free(buffer);
    return same;
}

/* FNV-1a: any changed, moved or missing byte changes it. */
uint64_t ct_hash(const void *buffer, size_t length)
{
    const uint8_t *p = buffer;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t i;

    for (i = 0; i < length; ++i) {
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    }

    return hash;
}

uint64_t ct_mem_hash(const ct_mem_t *mem, size_t offset, size_t length)
{
    void *buffer = malloc(length + 1);
    uint64_t hash = 0;

    if (ct_mem_read(mem, offset, buffer, length)) {
        hash = ct_hash(buffer, length);
    }

    free(buffer);
    return hash;
}
