/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The regions of a process and their twins with other devices, against a device that
 * registers whatever it is given. The case of two threads is for ThreadSanitizer.
 */

#include "test/support/mkv_check.h"

#include "rdma/memory/rdma_mr.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LENGTH 4096u
#define ROUNDS 2000u

static struct ibv_pd own, other; /* two devices' */
static char memory[2 * LENGTH];
static atomic_uint num_registered;

/* Build a key from the protection domain and the place. */
static uint32_t key_of(const struct ibv_pd *pd, const void *address)
{
    return ((pd == &own) ? 0x100u : 0x200u) |
           (uint32_t)(((const char *)address - memory) / LENGTH);
}

static struct ibv_mr *nic_reg_mr(struct ibv_pd *pd, void *address, size_t length,
                                 int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));

    (void)length;
    (void)access;
    ck_assert_ptr_nonnull(mr);
    mr->lkey = key_of(pd, address);
    ++num_registered;
    return mr;
}

static int nic_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    --num_registered;
    return 0;
}

static void setup(void)
{
    muct_rdma_verbs.reg_mr = nic_reg_mr;
    muct_rdma_verbs.dereg_mr = nic_dereg_mr;
}

static void teardown(void)
{
    ck_assert_uint_eq(num_registered, 0);
}

static muct_rdma_mem_t *region(struct ibv_pd *pd, char *address, size_t length)
{
    const muct_rdma_mem_params_t params = {.access = IBV_ACCESS_LOCAL_WRITE,
                                           .chunk_shift = 12,
                                           .max_chunks = 2,
                                           .dmabuf_fd = -1};
    muct_rdma_mem_t *mem;

    ck_assert_int_eq(muct_rdma_mem_create(pd, address, length, &params, &mem), UCS_OK);
    return mem;
}

static bool find(const struct ibv_pd *pd, const char *address, size_t length,
                 uint32_t *lkey)
{
    return muct_rdma_mem_find_lkey(pd, (uint64_t)(uintptr_t)address, length, lkey);
}

START_TEST(key_is_that_of_the_chunk_which_holds_all)
{
    muct_rdma_mem_t *mem = region(&own, memory, 2 * LENGTH);
    uint32_t lkey = 0;

    ck_assert(find(&own, memory + 10, LENGTH - 10, &lkey));
    ck_assert_uint_eq(lkey, 0x100);
    ck_assert(find(&own, memory + LENGTH, LENGTH, &lkey));
    ck_assert_uint_eq(lkey, 0x101);
    ck_assert(!find(&own, memory + 10, LENGTH, &lkey)); /* two keys */
    ck_assert(!find(&own, memory + LENGTH, LENGTH + 1, &lkey));
    ck_assert(!find(&other, memory, LENGTH, &lkey));
    muct_rdma_mem_destroy(mem);
    ck_assert(!find(&own, memory, LENGTH, &lkey));
}
END_TEST

START_TEST(twin_ends_with_its_region_or_its_device)
{
    muct_rdma_mem_t *mem = region(&own, memory, LENGTH);
    uint64_t address = (uint64_t)(uintptr_t)memory;
    uint32_t lkey = 0;
    unsigned i;

    for (i = 0; i < 2; ++i) {
        ck_assert(muct_rdma_mem_add_twin(&own, address, LENGTH,
                                         region(&other, memory, LENGTH)));
        ck_assert(find(&other, memory, LENGTH, &lkey));
        ck_assert_uint_eq(lkey, 0x200);
        if (i == 0) {
            muct_rdma_mem_forget(&other);
            ck_assert(!find(&other, memory, LENGTH, &lkey));
        }
    }
    muct_rdma_mem_destroy(mem);
    ck_assert(!find(&other, memory, LENGTH, &lkey));
}
END_TEST

/* Registers and deregisters the memory that the other thread looks up. */
static void *come_and_go(void *arg)
{
    unsigned i;

    for (i = 0; i < ROUNDS; ++i) {
        muct_rdma_mem_destroy(region(arg, memory, LENGTH));
    }
    return NULL;
}

static void find_key(muct_rdma_mem_t *twin)
{
    uint32_t lkey;

    (void)twin;
    if (find(&own, memory, LENGTH, &lkey)) {
        ck_assert_uint_eq(lkey, 0x100);
    }
}

static void find_extent(muct_rdma_mem_t *twin)
{
    muct_rdma_mem_extent_t extent;

    (void)twin;
    if (muct_rdma_mem_find_extent(&own, (uint64_t)(uintptr_t)memory, LENGTH, &extent)) {
        ck_assert_uint_eq(extent.length, LENGTH);
    }
}

/* No such region exists, so the memory stays the caller's own. */
static void find_region_of_twin(muct_rdma_mem_t *twin)
{
    ck_assert(!muct_rdma_mem_add_twin(&own, (uint64_t)(uintptr_t)memory + LENGTH,
                                      LENGTH, twin));
}

static void (*const looks[])(muct_rdma_mem_t *twin) = {find_key, find_extent,
                                                       find_region_of_twin};

START_TEST(region_of_another_thread_is_looked_at_while_it_is_there)
{
    muct_rdma_mem_t *twin = region(&other, memory, LENGTH);
    pthread_t thread;
    unsigned i;

    ck_assert_int_eq(pthread_create(&thread, NULL, come_and_go, &own), 0);
    for (i = 0; i < ROUNDS; ++i) {
        looks[_i](twin);
    }
    pthread_join(thread, NULL);
    muct_rdma_mem_destroy(twin);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma_mem");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, key_is_that_of_the_chunk_which_holds_all);
    tcase_add_test(tcase, twin_ends_with_its_region_or_its_device);
    tcase_add_loop_test(tcase, region_of_another_thread_is_looked_at_while_it_is_there,
                        0, sizeof(looks) / sizeof(looks[0]));
    suite_add_tcase(suite, tcase);
    return mkv_check_run(suite, CK_FORK_GETENV, CK_ENV);
}
