/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints of the built module in a real UCX: two of one interface, both to the
 * process itself, so that the test controls the copies.
 */

#include "config.h"
#include "test/support/fake_hip.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"
#include "test/fake/hip/hipcpu_abi.h"
#include "test/unit/xgmi/xgmi_lists.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH ((size_t)1 << 20)
#define NUM_EPS 2

typedef struct comp {
    uct_completion_t uct;
    unsigned num_calls;
} comp_t;

static ct_side_t side;
static ct_mem_t local, remote;
static uct_rkey_bundle_t rkey;
static uct_ep_h eps[NUM_EPS];


static uct_ep_h connect_sides(const ct_side_t *from, const ct_side_t *to)
{
    uct_ep_h ep = NULL;
    ct_addr_t addr;

    ck_assert_int_eq(ct_addr_get(to, NULL, &addr), UCS_OK);
    ck_assert_int_eq(ct_ep_create(from, &addr, &ep), UCS_OK);
    return ep;
}

static void create_eps(void)
{
    unsigned i;

    for (i = 0; i < NUM_EPS; ++i) {
        eps[i] = connect_sides(&side, &side);
    }
}

static void setup(void)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    uint8_t key[256];

    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    xgmi_lists_set_max_started(side.iface, 1);
    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &remote),
                     UCS_OK);
    ck_assert(ct_mem_fill(&local, 0, LENGTH, 1, 0));
    ck_assert(ct_mem_fill(&remote, 0, LENGTH, 2, 0));
    ck_assert_uint_le(side.md_attr.rkey_packed_size, sizeof(key));
    ck_assert_int_eq(ct_mem_pack(&side, &remote, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side.component, key, &rkey), UCS_OK);
    create_eps();
}

static void teardown(void)
{
    unsigned i;

    for (i = 0; i < NUM_EPS; ++i) {
        uct_ep_destroy(eps[i]);
    }
    uct_rkey_release(side.component, &rkey);
    ct_mem_destroy(&side, &remote);
    ct_mem_destroy(&side, &local);
    ct_side_close(&side);
}

static void count_call(uct_completion_t *comp)
{
    ++ucs_container_of(comp, comp_t, uct)->num_calls;
}

static void comp_init(comp_t *comp)
{
    *comp = (comp_t){.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
}

static ucs_status_t put(unsigned ep, size_t offset, size_t length, comp_t *comp)
{
    const uct_iov_t iov = {.buffer = (char *)local.addr + offset,
                           .length = length,
                           .memh = local.memh,
                           .count = 1};

    comp_init(comp);
    return uct_ep_put_zcopy(eps[ep], &iov, 1, (uintptr_t)remote.addr + offset,
                            rkey.rkey, &comp->uct);
}

static void wait_for(const comp_t *comp)
{
    while (comp->num_calls == 0) {
        uct_iface_progress(side.iface);
    }
    ck_assert_uint_eq(comp->num_calls, 1);
}

/* The two operations belong to one batch. */
START_TEST(refused_copy_is_one_operations_failure)
{
    comp_t first, second, again;

    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS);
    ck_assert_int_eq(put(1, 4096, 100, &second), UCS_INPROGRESS);
    fake_hip_fail("hipMemcpyAsync", 1, 1);
    wait_for(&first);
    wait_for(&second);
    ck_assert_int_eq(first.uct.status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(second.uct.status, UCS_OK);
    ck_assert_int_eq(put(0, 0, 100, &again), UCS_INPROGRESS);
    wait_for(&again);
    ck_assert_int_eq(again.uct.status, UCS_OK);
    uct_iface_progress(side.iface);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);
}
END_TEST

static size_t pack_some(void *dest, void *arg)
{
    (void)arg;
    memset(dest, 7, 100);
    return 100;
}

START_TEST(refused_copy_that_has_no_completion_fails_its_endpoint)
{
    comp_t other;

    ck_assert_int_eq(put(1, 4096, 100, &other), UCS_INPROGRESS);
    ck_assert_int_eq(
        uct_ep_put_bcopy(eps[0], pack_some, NULL, (uintptr_t)remote.addr, rkey.rkey),
        100);
    fake_hip_fail("hipMemcpyAsync", 2, 1);
    wait_for(&other);
    ck_assert_int_eq(other.uct.status, UCS_OK);
    while (side.events.num_ep_errors == 0) {
        uct_iface_progress(side.iface);
    }
    ck_assert_ptr_eq(side.events.ep, eps[0]);
    ck_assert_int_eq(side.events.ep_status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(put(0, 0, 100, &other), UCS_ERR_IO_ERROR);
    ck_assert_int_eq(put(1, 0, 100, &other), UCS_INPROGRESS);
    wait_for(&other);
    ck_assert_int_eq(other.uct.status, UCS_OK);
}
END_TEST

/* Resources of copies exist before the first copy, when memory was registered before
 * that. */
/* CC-06 */
START_TEST(first_copy_allocates_nothing)
{
    static const char *const functions[] = {"hipMalloc", "hipHostMalloc",
                                            "hipModuleLoadData",
                                            "hipStreamCreateWithPriority"};
    unsigned long before[4];
    comp_t comps[4];
    unsigned i;

    for (i = 0; i < 4; ++i) {
        before[i] = fake_hip_calls(functions[i]);
    }
    for (i = 0; i < 4; ++i) {
        ck_assert_int_eq(put(0, i * 4096, 100, &comps[i]), UCS_INPROGRESS);
    }
    for (i = 0; i < 4; ++i) {
        wait_for(&comps[i]);
    }
    for (i = 0; i < 4; ++i) {
        ck_assert_uint_eq(fake_hip_calls(functions[i]), before[i]);
    }
}
END_TEST

/* RG-02 */
START_TEST(closed_interfaces_leave_nothing)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    unsigned i, num_files = 0;
    size_t bytes = 0;
    ct_side_t again;

    for (i = 0; i < 40; ++i) {
        ck_assert_msg(ct_side_open(&again, &name) == UCS_OK, "%s", again.why);
        ct_side_close(&again);
        if (i == 8) {
            num_files = mkv_test_num_files("/proc/self/fd");
            bytes = mallinfo2().uordblks;
        }
    }
    ck_assert_uint_eq(mkv_test_num_files("/proc/self/fd"), num_files);
    ck_assert_uint_le(mallinfo2().uordblks, bytes + 16384);
}
END_TEST

static void expect_device(int device, const char *call)
{
    ck_assert_msg(mkv_hip_current_device() == device, "%s left device %d, not %d", call,
                  mkv_hip_current_device(), device);
}

/* Arm until the interface adds a callback to the stream of a long copy. */
static void sleep_from_another_device(const ct_side_t *fresh, uct_ep_h ep,
                                      const uct_iov_t *iov)
{
    const unsigned long before = fake_hip_calls("hipStreamAddCallback");
    comp_t comp;

    fake_hip_hold("hipcpu_hold", NULL);
    comp_init(&comp);
    ck_assert_int_eq(
        uct_ep_put_zcopy(ep, iov, 1, (uintptr_t)remote.addr, rkey.rkey, &comp.uct),
        UCS_INPROGRESS);
    while (fake_hip_calls("hipStreamAddCallback") == before) {
        uct_iface_progress(fresh->iface);
        (void)uct_iface_event_arm(fresh->iface, UCT_EVENT_SEND_COMP);
        expect_device(1, "uct_iface_event_arm");
    }
    fake_hip_hold("hipcpu_release", NULL);
    while (comp.num_calls == 0) {
        uct_iface_progress(fresh->iface);
    }
}

/* The copies of a fresh interface on device 0, whose queues do not exist yet. */
static void copy_from_another_device(void)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    uct_iov_t iov = {.length = 100, .count = 1};
    ct_side_t fresh;
    comp_t comp;
    uct_ep_h ep;

    ck_assert_msg(ct_side_open(&fresh, &name) == UCS_OK, "%s", fresh.why);
    expect_device(1, "uct_iface_open");
    ep = connect_sides(&fresh, &side);
    expect_device(1, "uct_ep_create");
    iov.buffer = local.addr;
    iov.memh = local.memh;
    comp_init(&comp);
    ck_assert_int_eq(
        uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)remote.addr, rkey.rkey, &comp.uct),
        UCS_INPROGRESS);
    expect_device(1, "uct_ep_put_zcopy");
    ck_assert_int_eq(
        uct_ep_put_short(ep, "bytes", 5, (uintptr_t)remote.addr + 4096, rkey.rkey),
        UCS_OK);
    expect_device(1, "uct_ep_put_short");
    while (comp.num_calls == 0) {
        (void)uct_iface_event_arm(fresh.iface, UCT_EVENT_SEND_COMP);
        expect_device(1, "uct_iface_event_arm");
        uct_iface_progress(fresh.iface);
        expect_device(1, "uct_iface_progress");
    }
    sleep_from_another_device(&fresh, ep, &iov);
    while (uct_iface_flush(fresh.iface, 0, NULL) != UCS_OK) {
        uct_iface_progress(fresh.iface);
    }
    expect_device(1, "uct_iface_flush");
    uct_ep_destroy(ep);
    expect_device(1, "uct_ep_destroy");
    ct_side_close(&fresh);
    expect_device(1, "uct_iface_close");
}

/* TR-12 */
START_TEST(current_device_of_the_caller_stays)
{
    uint8_t key[256];

    ck_assert(mkv_hip_set_device(1));
    copy_from_another_device();
    ck_assert_int_eq(uct_md_mem_dereg(side.md, local.memh), UCS_OK);
    expect_device(1, "uct_md_mem_dereg");
    ck_assert_int_eq(ct_mem_register(&side, &local), UCS_OK);
    expect_device(1, "uct_md_mem_reg_v2");
    ck_assert_int_eq(ct_mem_pack(&side, &local, 0, key), UCS_OK);
    expect_device(1, "uct_md_mkey_pack_v2");
    ck_assert(mkv_hip_set_device(0)); /* for the next case, where tests do not fork */
}
END_TEST

/* The second endpoint's copy starts after the first one's: one list is started at a
 * time. */
START_TEST(flush_waits_for_its_own_endpoints_copies)
{
    comp_t first, second, flush;

    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS); /* makes the queue */
    wait_for(&first);
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS);
    uct_iface_progress(side.iface);
    ck_assert_int_eq(put(1, 4096, 100, &second), UCS_INPROGRESS);
    comp_init(&flush);
    ck_assert_int_eq(uct_ep_flush(eps[0], 0, &flush.uct), UCS_INPROGRESS);
    fake_hip_hold("hipcpu_release", NULL);
    wait_for(&first);
    ck_assert_uint_eq(flush.num_calls, 1);
    ck_assert_uint_eq(second.num_calls, 0);
    wait_for(&second);
    ck_assert_int_eq(uct_ep_flush(eps[1], 0, NULL), UCS_OK);
}
END_TEST

typedef struct first {
    comp_t comp;
    comp_t flush;
    ucs_status_t flushed;
} first_t;

static void destroy_ep(uct_completion_t *comp)
{
    count_call(comp);
    uct_ep_destroy(eps[0]);
    eps[0] = NULL;
}

static void flush_ep(uct_completion_t *comp)
{
    first_t *first = ucs_container_of(comp, first_t, comp.uct);

    count_call(comp);
    first->flushed = uct_ep_flush(eps[0], 0, &first->flush.uct);
}

/* Both operations belong to one batch. Its end completes them one after the other. */
START_TEST(endpoint_destroyed_by_its_first_operation_cancels_the_second)
{
    comp_t first, second;

    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS);
    ck_assert_int_eq(put(0, 4096, 100, &second), UCS_INPROGRESS);
    first.uct.func = destroy_ep;
    wait_for(&first);
    wait_for(&second);
    ck_assert_int_eq(first.uct.status, UCS_OK);
    ck_assert_int_eq(second.uct.status, UCS_ERR_CANCELED);
    eps[0] = connect_sides(&side, &side);
}
END_TEST

START_TEST(flush_by_the_first_operation_waits_for_the_second)
{
    comp_t second;
    first_t first;

    ck_assert_int_eq(put(0, 0, 100, &first.comp), UCS_INPROGRESS);
    ck_assert_int_eq(put(0, 4096, 100, &second), UCS_INPROGRESS);
    first.comp.uct.func = flush_ep;
    comp_init(&first.flush);
    wait_for(&first.comp);
    ck_assert_int_eq(first.flushed, UCS_INPROGRESS);
    wait_for(&first.flush);
    ck_assert_uint_eq(second.num_calls, 1);
    ck_assert_int_eq(uct_ep_flush(eps[0], 0, NULL), UCS_OK);
}
END_TEST

/* Only the query may have failed, while the copy still runs. */
/* XP-04 */
START_TEST(copy_with_a_failed_query_is_waited_for)
{
    unsigned long waits;
    comp_t comp;

    ck_assert_int_eq(put(0, 0, 100, &comp), UCS_INPROGRESS); /* makes the queue */
    wait_for(&comp);
    waits = fake_hip_calls("hipStreamSynchronize");
    fake_hip_fail("hipEventQuery", 1, 999);
    ck_assert_int_eq(put(0, 0, 100, &comp), UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_ERR_IO_ERROR);
    ck_assert_uint_eq(fake_hip_calls("hipStreamSynchronize"), waits + 1);
}
END_TEST

#define PROGRESS (UCT_PROGRESS_SEND | UCT_PROGRESS_RECV)

/* Progress goes through the worker, as each interface registers its own kind of
 * progress */
static bool ends_by_worker(const comp_t *comp)
{
    unsigned i;

    for (i = 0; (i < 1000) && (comp->num_calls == 0); ++i) {
        uct_worker_progress(side.worker);
    }
    return comp->num_calls > 0;
}

/* UCP disables it with the last endpoint that it closes, by force as well. Loop index:
 * another one comes meanwhile. */
START_TEST(disabled_progress_ends_when_all_is_over)
{
    comp_t first, second, flush;

    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS);
    wait_for(&first);
    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(put(0, 0, 100, &first), UCS_INPROGRESS);
    comp_init(&flush);
    ck_assert_int_eq(uct_ep_flush(eps[0], UCT_FLUSH_FLAG_CANCEL, &flush.uct),
                     UCS_INPROGRESS);
    uct_iface_progress_disable(side.iface, PROGRESS);
    ck_assert(!ends_by_worker(&first));
    if (_i == 1) {
        uct_iface_progress_enable(side.iface, PROGRESS);
    }
    fake_hip_hold("hipcpu_release", NULL);
    while (first.num_calls == 0) {
        uct_worker_progress(side.worker);
    }
    ck_assert_uint_eq(flush.num_calls, 1);

    ck_assert_int_eq(put(0, 0, 100, &second), UCS_INPROGRESS);
    if (_i == 0) {
        ck_assert(!ends_by_worker(&second));
        uct_iface_progress_enable(side.iface, PROGRESS);
    }
    while (second.num_calls == 0) {
        uct_worker_progress(side.worker);
    }
}
END_TEST

#define CHUNK ((size_t)2 << 20)

#define BIND(_name)                                                                    \
    __typeof__(&_name) call_##_name;                                                   \
    symbol = fake_hip_symbol(#_name);                                                  \
    memcpy(&call_##_name, &symbol, sizeof(symbol))

/* Two chunks, one behind the other. */
static char *map_chunks(void)
{
    const hipMemAllocationProp prop = {.type = 1, .location = {1, 0}};
    hipMemGenericAllocationHandle_t chunk;
    void *symbol, *memory;
    size_t i;

    BIND(hipMemAddressReserve);
    BIND(hipMemCreate);
    BIND(hipMemMap);
    BIND(hipMemRelease);
    ck_assert_int_eq(call_hipMemAddressReserve(&memory, 2 * CHUNK, 0, NULL, 0), 0);
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(call_hipMemCreate(&chunk, CHUNK, &prop, 0), 0);
        ck_assert_int_eq(
            call_hipMemMap((char *)memory + (i * CHUNK), CHUNK, 0, chunk, 0), 0);
        ck_assert_int_eq(call_hipMemRelease(chunk), 0);
    }
    return memory;
}

static void unmap_chunks(char *memory)
{
    void *symbol;
    size_t i;

    BIND(hipMemUnmap);
    BIND(hipMemAddressFree);
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(call_hipMemUnmap(memory + (i * CHUNK), CHUNK), 0);
    }
    ck_assert_int_eq(call_hipMemAddressFree(memory, 2 * CHUNK), 0);
}

/* The copies use calls, which do not go over the end of a chunk, and the kernel, which
 * does. */
START_TEST(memory_of_several_chunks_is_copied_and_has_no_remote_key)
{
    ct_mem_t allocated = local;
    unsigned count = (_i == 0) ? 1 : 8, i;
    uct_rkey_bundle_t other;
    uint8_t key[256];
    comp_t comps[8];
    char *memory = map_chunks();

    local.addr = memory;
    ck_assert_int_eq(
        uct_md_mem_reg(side.md, memory, 2 * CHUNK, UCT_MD_MEM_ACCESS_RMA, &local.memh),
        UCS_OK);
    memset(memory + CHUNK - 4096, 3, 4096);
    memset(memory + CHUNK, 5, 4096);
    local.addr = memory + CHUNK - 100;
    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(put(0, (i == 0) ? 0 : i * 256, (i == 0) ? 200 : 10, &comps[i]),
                         UCS_INPROGRESS);
    }
    for (i = 0; i < count; ++i) {
        wait_for(&comps[i]);
        ck_assert_int_eq(comps[i].uct.status, UCS_OK);
    }
    for (i = 0; i < 200; ++i) {
        ck_assert_int_eq(((char *)remote.addr)[i], (i < 100) ? 3 : 5);
    }

    ck_assert_int_eq(uct_md_mkey_pack(side.md, local.memh, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side.component, key, &other), UCS_ERR_UNREACHABLE);
    ck_assert_int_eq(uct_md_mem_dereg(side.md, local.memh), UCS_OK);
    ck_assert_int_ne(uct_md_mem_reg(side.md, memory, 2 * CHUNK + 8192,
                                    UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_FLAG_HIDE_ERRORS,
                                    &local.memh),
                     UCS_OK);
    unmap_chunks(memory);
    local = allocated;
}
END_TEST

static ucs_status_t key_status(uct_mem_h memh)
{
    uct_rkey_bundle_t other;
    ucs_status_t status;
    uint8_t key[256];

    ck_assert_int_eq(uct_md_mkey_pack(side.md, memh, key), UCS_OK);
    status = uct_rkey_unpack(side.component, key, &other);
    if (status == UCS_OK) {
        uct_rkey_release(side.component, &other);
    }
    return status;
}

/* UCX rounds the registered range up; hipMemGetAddressRange() reports the exact size.
 */
START_TEST(memory_of_an_odd_size_is_registered)
{
    static const size_t sizes[] = {1, 1000, 4095, 1000001};
    uct_mem_h memh;
    void *memory;

    fake_hip_set_rule("retain-crash", true);
    memory = mkv_hip_alloc(sizes[_i]);
    ck_assert_ptr_nonnull(memory);
    ck_assert_int_eq(uct_md_mem_reg(side.md, memory, (sizes[_i] + 15) & ~(size_t)15,
                                    UCT_MD_MEM_ACCESS_RMA, &memh),
                     UCS_OK);
    ck_assert_int_eq(key_status(memh), UCS_OK);
    ck_assert_int_eq(uct_md_mem_dereg(side.md, memh), UCS_OK);
    ck_assert(mkv_hip_free(memory));
}
END_TEST

#define MAX_NEIGHBOURS 16

/* @return The lower one of two adjacent allocations. */
static char *find_neighbours(void **memory, unsigned *num_p)
{
    unsigned i;

    for (*num_p = 0; *num_p < MAX_NEIGHBOURS; ++*num_p) {
        memory[*num_p] = mkv_hip_alloc(LENGTH);
        ck_assert_ptr_nonnull(memory[*num_p]);
        for (i = 0; i < *num_p; ++i) {
            if ((char *)memory[i] + LENGTH == memory[*num_p]) {
                ++*num_p;
                return memory[i];
            }
            if ((char *)memory[*num_p] + LENGTH == memory[i]) {
                return memory[(*num_p)++];
            }
        }
    }
    ck_abort_msg("%d allocations have no neighbour", MAX_NEIGHBOURS);
    return NULL;
}

/* An arena: one registration for copies here, and no handle for other processes. */
START_TEST(neighbouring_allocations_are_registered_together)
{
    ct_mem_t allocated = local;
    void *memory[MAX_NEIGHBOURS];
    unsigned num, i;
    comp_t comp;

    fake_hip_set_rule("retain-crash", true);
    local.addr = find_neighbours(memory, &num);
    ck_assert_int_eq(uct_md_mem_reg(side.md, local.addr, 2 * LENGTH,
                                    UCT_MD_MEM_ACCESS_RMA, &local.memh),
                     UCS_OK);
    memset((char *)local.addr + LENGTH, 5, 100);
    local.addr = (char *)local.addr + LENGTH;
    ck_assert_int_eq(put(0, 0, 100, &comp), UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_OK);
    ck_assert_int_eq(((char *)remote.addr)[99], 5);
    ck_assert_int_eq(key_status(local.memh), UCS_ERR_UNREACHABLE);
    ck_assert_int_eq(uct_md_mem_dereg(side.md, local.memh), UCS_OK);
    for (i = 0; i < num; ++i) {
        ck_assert(mkv_hip_free(memory[i]));
    }
    local = allocated;
}
END_TEST

/* The refusal is the operation's own, whatever the memory is. */
START_TEST(refused_copy_and_export_of_allocated_memory_are_errors)
{
    comp_t comp;

    fake_hip_set_rule("retain-crash", true);
    fake_hip_fail("hipMemcpyAsync", 1, hipErrorInvalidValue);
    ck_assert_int_eq(put(0, 0, 100, &comp), UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_ERR_IO_ERROR);
    fake_hip_fail("hipIpcGetMemHandle", 0, hipErrorInvalidValue);
    ck_assert_int_eq(key_status(local.memh), UCS_ERR_UNREACHABLE);
}
END_TEST

START_TEST(memory_of_a_stream_is_copied_and_exported_up_to_rocm_6)
{
    ct_mem_t allocated = local;
    unsigned long num_exports = fake_hip_calls("hipIpcGetMemHandle");
    void *symbol;
    comp_t comp;

    BIND(hipMallocAsync);
    BIND(hipFreeAsync);
    fake_hip_set_version((_i == 0) ? 6 : 7, 2);
    ck_assert_int_eq(call_hipMallocAsync(&local.addr, LENGTH, NULL), 0);
    memset(local.addr, 5, LENGTH);
    ck_assert_int_eq(
        uct_md_mem_reg(side.md, local.addr, LENGTH, UCT_MD_MEM_ACCESS_RMA, &local.memh),
        UCS_OK);
    ck_assert_int_eq(put(0, 0, 100, &comp), UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(((char *)remote.addr)[99], 5);
    ck_assert_int_eq(key_status(local.memh), (_i == 0) ? UCS_OK : UCS_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_hip_calls("hipIpcGetMemHandle"),
                      num_exports + ((_i == 0) ? 1 : 0));
    ck_assert_int_eq(uct_md_mem_dereg(side.md, local.memh), UCS_OK);
    ck_assert_int_eq(call_hipFreeAsync(local.addr, NULL), 0);
    local = allocated;
}
END_TEST

/* ROCr 7.2.4 ends the process when such memory is exported. */
START_TEST(mapped_memory_is_not_exported_and_keeps_its_chunks)
{
    char *memory;
    uct_mem_h memh;

    fake_hip_set_version((_i == 0) ? 6 : 7, 2);
    fake_hip_set_rule("retain-no-reference", true);
    fake_hip_set_rule("export-vmm-ends", true);
    memory = map_chunks();
    ck_assert_int_eq(
        uct_md_mem_reg(side.md, memory, 2 * CHUNK, UCT_MD_MEM_ACCESS_RMA, &memh),
        UCS_OK);
    ck_assert_int_eq(key_status(memh), UCS_ERR_UNREACHABLE);
    memset(memory, 1, 2 * CHUNK); /* still mapped */
    ck_assert_int_eq(uct_md_mem_dereg(side.md, memh), UCS_OK);
    unmap_chunks(memory);
}
END_TEST

/* Sending a message does not check whether the peer is there. A flush after it reports
 * whether the message was received. If there was no message, there is nothing to
 * report. */
START_TEST(flush_behind_a_message_looks_for_the_peer)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    ct_side_t other;
    uct_ep_h ep;

    ck_assert_int_eq(ct_side_open_beside(&other, &name, &side), UCS_OK);
    ep = connect_sides(&side, &other);
    ck_assert_int_eq(uct_ep_am_short(ep, 0, 0, NULL, 0), UCS_OK);
    ck_assert_int_eq(uct_ep_flush(ep, 0, NULL), UCS_OK);
    ck_assert_int_eq(uct_ep_am_short(ep, 0, 0, NULL, 0), UCS_OK);
    ct_side_close(&other);
    ck_assert_int_eq(uct_ep_flush(ep, 0, NULL), UCS_ERR_CONNECTION_RESET);
    ck_assert_uint_eq(side.events.num_ep_errors, 0); /* from progress alone */
    uct_iface_progress(side.iface);
    ck_assert_uint_eq(side.events.num_ep_errors, 1);
    uct_ep_destroy(ep);
}
END_TEST

static ucs_status_t count_message(void *arg, void *data, size_t length, unsigned flags)
{
    (void)data, (void)length, (void)flags;
    ++*(unsigned *)arg;
    return UCS_OK;
}

/* More messages than one call of progress delivers. */
START_TEST(what_a_peer_sent_before_its_end_comes_before_its_end)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    unsigned i, num_come = 0;
    uct_ep_h to_other, to_us;
    ct_side_t other;

    ck_assert_int_eq(ct_side_open_beside(&other, &name, &side), UCS_OK);
    ck_assert_int_eq(
        uct_iface_set_am_handler(side.iface, 0, count_message, &num_come, 0), UCS_OK);
    to_other = connect_sides(&side, &other);
    to_us = connect_sides(&other, &side);
    for (i = 0; i < 100; ++i) {
        ck_assert_int_eq(uct_ep_am_short(to_us, 0, i, NULL, 0), UCS_OK);
    }
    uct_ep_destroy(to_us);
    ct_side_close(&other);
    ck_assert_int_eq(uct_ep_check(to_other, 0, NULL), UCS_OK);
    uct_iface_progress(side.iface);
    ck_assert_uint_eq(side.events.num_ep_errors, 1);
    ck_assert_uint_eq(num_come, 100);
    uct_ep_destroy(to_other);
}
END_TEST

/* Bytes come with an event (rule late-mark), numbers before them. */
START_TEST(copies_are_over_when_their_bytes_are_there)
{
    unsigned count = (_i % 2 == 0) ? 1 : 10; /* calls, or a launch */
    comp_t comps[10];
    unsigned round, i;

    setenv("HIPCPU_VERSION", "7.3", 1);
    setenv("HIPCPU_RULES", "late-mark", 1);
    setenv("HIPCPU_ARCH", (_i / 2 == 0) ? "gfx942" : "gfx1100", 1);
    setup();
    for (round = 1; round <= 100; ++round) {
        memset(local.addr, (int)round, LENGTH);
        for (i = 0; i < count; ++i) {
            ck_assert_int_eq(put(0, i * 1000, 500, &comps[i]), UCS_INPROGRESS);
        }
        for (i = 0; i < count; ++i) {
            wait_for(&comps[i]);
            ck_assert_int_eq(((char *)remote.addr)[(i * 1000) + 499], (int)round);
        }
    }
    teardown();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_ep");
    TCase *tcase = tcase_create("ep");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    ct_side_find_module();
    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, refused_copy_is_one_operations_failure);
    tcase_add_test(tcase, refused_copy_that_has_no_completion_fails_its_endpoint);
    tcase_add_test(tcase, first_copy_allocates_nothing);
    tcase_add_test(tcase, closed_interfaces_leave_nothing);
    tcase_add_test(tcase, current_device_of_the_caller_stays);
    tcase_add_test(tcase, copy_with_a_failed_query_is_waited_for);
    tcase_add_test(tcase, flush_waits_for_its_own_endpoints_copies);
    tcase_add_test(tcase, endpoint_destroyed_by_its_first_operation_cancels_the_second);
    tcase_add_test(tcase, flush_by_the_first_operation_waits_for_the_second);
    tcase_add_test(tcase, flush_behind_a_message_looks_for_the_peer);
    tcase_add_test(tcase, what_a_peer_sent_before_its_end_comes_before_its_end);
    tcase_add_loop_test(tcase, disabled_progress_ends_when_all_is_over, 0, 2);
    tcase_add_loop_test(tcase, memory_of_several_chunks_is_copied_and_has_no_remote_key,
                        0, 2);
    tcase_add_loop_test(tcase, memory_of_an_odd_size_is_registered, 0, 4);
    tcase_add_loop_test(tcase, memory_of_a_stream_is_copied_and_exported_up_to_rocm_6,
                        0, 2);
    tcase_add_test(tcase, neighbouring_allocations_are_registered_together);
    tcase_add_test(tcase, refused_copy_and_export_of_allocated_memory_are_errors);
    tcase_add_loop_test(tcase, mapped_memory_is_not_exported_and_keeps_its_chunks, 0,
                        2);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("releases");
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_loop_test(tcase, copies_are_over_when_their_bytes_are_there, 0, 4);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
