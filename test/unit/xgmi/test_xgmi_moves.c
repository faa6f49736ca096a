/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Puts to and gets from private host memory, by the built module in a real UCX: to the
 * process itself, so that the test controls both ends. The conformance suite has them
 * between two processes.
 */

#include "config.h"
#include "test/support/ct_side.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LENGTH ((size_t)16 << 20)
#define PAGE ((size_t)4096)

/* That a thread copies at a time */
#define SEGMENT ((size_t)256 << 10)

/* More than an interface takes at a time */
#define MANY 5000

typedef struct comp {
    uct_completion_t uct;
    unsigned num_calls;
} comp_t;

static ct_side_t side;
static ct_mem_t local, remote;
static uint8_t key[256];
static uct_rkey_bundle_t rkey;
static uct_ep_h ep;


static ucs_status_t unpack(const ct_mem_t *mem, unsigned flags, uct_rkey_bundle_t *to)
{
    ck_assert_uint_le(side.md_attr.rkey_packed_size, sizeof(key));
    ck_assert_int_eq(ct_mem_pack(&side, mem, flags, key), UCS_OK);
    return uct_rkey_unpack(side.component, key, to);
}

static void open_side(void)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};

    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_HOST, &remote),
                     UCS_OK);
    ck_assert(ct_mem_fill(&local, 0, LENGTH, 1, 0));
    ck_assert(ct_mem_fill(&remote, 0, LENGTH, 2, 0));
}

static void connect_to_self(void)
{
    ct_addr_t addr;

    ck_assert_int_eq(unpack(&remote, CT_PACK_INVALIDATE_RMA, &rkey), UCS_OK);
    ck_assert_int_eq(ct_addr_get(&side, NULL, &addr), UCS_OK);
    ck_assert_int_eq(ct_ep_create(&side, &addr, &ep), UCS_OK);
}

static void setup(void)
{
    open_side();
    connect_to_self();
}

static void teardown(void)
{
    if (ep != NULL) {
        uct_ep_destroy(ep);
        ep = NULL;
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

static ucs_status_t put(size_t offset, size_t length, comp_t *comp)
{
    const uct_iov_t iov = {.buffer = (char *)local.addr + offset,
                           .length = length,
                           .memh = local.memh,
                           .count = 1};

    *comp = (comp_t){.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
    return uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)remote.addr + offset, rkey.rkey,
                            &comp->uct);
}

/* From other memory than the fixture's */
static ucs_status_t get(const ct_mem_t *from, uct_rkey_t from_rkey, size_t length,
                        comp_t *comp)
{
    const uct_iov_t iov = {
        .buffer = local.addr, .length = length, .memh = local.memh, .count = 1};

    *comp = (comp_t){.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
    return uct_ep_get_zcopy(ep, &iov, 1, (uintptr_t)from->addr, from_rkey, &comp->uct);
}

static void wait_for(const comp_t *comp)
{
    while (comp->num_calls == 0) {
        uct_iface_progress(side.iface);
    }
    ck_assert_uint_eq(comp->num_calls, 1);
}

static bool is_put(size_t offset, size_t length)
{
    return ct_mem_check(&remote, offset, length, 1, offset) == length;
}

/* A short put to private memory is a call of the kernel: it is over when it returns. */
static ucs_status_t put_short(size_t offset, const char *text)
{
    return uct_ep_put_short(ep, text, (unsigned)strlen(text),
                            (uintptr_t)remote.addr + offset, rkey.rkey);
}

START_TEST(unmapped_memory_fails_its_own_operation)
{
    const size_t hole = 64 * PAGE;
    comp_t before, in, after;

    ck_assert_int_eq(munmap((char *)remote.addr + hole, PAGE), 0);
    ck_assert_int_eq(put(0, hole, &before), UCS_INPROGRESS);
    ck_assert_int_eq(put(hole - 5, 2 * PAGE, &in), UCS_INPROGRESS);
    ck_assert_int_eq(put(hole + PAGE, 100, &after), UCS_INPROGRESS);
    wait_for(&in);
    wait_for(&before);
    wait_for(&after);
    ck_assert_int_eq(before.uct.status, UCS_OK);
    ck_assert_int_eq(in.uct.status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(after.uct.status, UCS_OK);
    ck_assert(is_put(0, hole) && is_put(hole + PAGE, 100));
    ck_assert_int_eq(put(0, 10, &after), UCS_INPROGRESS); /* the endpoint lives */
    wait_for(&after);
    ck_assert_int_eq(after.uct.status, UCS_OK);
}
END_TEST

START_TEST(fence_orders_what_the_kernel_and_devices_copy)
{
    uct_iov_t iov = {.length = 64, .count = 1};
    uct_rkey_bundle_t gpu;
    comp_t comp, second;

    ck_assert_int_eq(unpack(&local, 0, &gpu), UCS_OK);
    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    ck_assert_int_eq(uct_iface_fence(side.iface, 0), UCS_OK);

    /* neither a short put, nor another, nor a copy of the GPU goes first */
    ck_assert_int_eq(put_short(LENGTH - 9, "overtakes"), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(put(5, 10, &second), UCS_ERR_NO_RESOURCE);
    iov.buffer = local.addr;
    iov.memh = local.memh;
    ck_assert_int_eq(uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)local.addr + LENGTH - 64,
                                      gpu.rkey, NULL),
                     UCS_ERR_NO_RESOURCE);
    wait_for(&comp);
    ck_assert(is_put(0, LENGTH));
    while (put_short(LENGTH - 9, "overtakes") == UCS_ERR_NO_RESOURCE) {
        uct_iface_progress(side.iface);
    }
    ck_assert_int_eq(memcmp((char *)remote.addr + LENGTH - 9, "overtakes", 9), 0);
    uct_rkey_release(side.component, &gpu);
}
END_TEST

START_TEST(moves_do_not_overtake_copies_before_a_fence)
{
    uct_iov_t iov = {
        .buffer = local.addr, .length = LENGTH, .memh = local.memh, .count = 1};
    comp_t copy = {.uct = {.func = count_call, .count = 1, .status = UCS_OK}}, move;
    uct_rkey_bundle_t gpu;
    ct_mem_t other;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &other),
                     UCS_OK);
    ck_assert_int_eq(unpack(&other, 0, &gpu), UCS_OK);
    while (uct_ep_put_zcopy(ep, &iov, 1, (uintptr_t)other.addr, gpu.rkey, &copy.uct) !=
           UCS_INPROGRESS) {
        uct_iface_progress(side.iface);
    }
    ck_assert_int_eq(uct_iface_fence(side.iface, 0), UCS_OK);
    ck_assert_int_eq(put_short(0, "overtakes"), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(put(0, 10, &move), UCS_ERR_NO_RESOURCE);
    wait_for(&copy);
    while (put(0, 10, &move) == UCS_ERR_NO_RESOURCE) {
        uct_iface_progress(side.iface);
    }
    wait_for(&move);
    ck_assert(is_put(0, 10));
    uct_rkey_release(side.component, &gpu);
    ct_mem_destroy(&side, &other);
}
END_TEST

START_TEST(flush_waits_for_moves)
{
    comp_t comp, flush = {.uct = {.func = count_call, .count = 1, .status = UCS_OK}};

    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    ck_assert_int_eq(uct_iface_flush(side.iface, 0, NULL), UCS_INPROGRESS);
    ck_assert_int_eq(uct_ep_flush(ep, 0, &flush.uct), UCS_INPROGRESS);
    while (flush.num_calls == 0) {
        uct_iface_progress(side.iface);
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    ck_assert(is_put(0, LENGTH));
    ck_assert_int_eq(uct_iface_flush(side.iface, 0, NULL), UCS_OK);
}
END_TEST

/* Without an endpoint no look at peers ends a sleep, and host memory needs no GPU. */
START_TEST(sleeping_thread_is_woken_by_the_end_of_a_copy)
{
    struct pollfd event = {.events = POLLIN};
    ct_mem_t gpu = local;
    comp_t comp;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_HOST, &local),
                     UCS_OK);
    ck_assert_int_eq(uct_iface_event_fd_get(side.iface, &event.fd), UCS_OK);
    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    uct_iface_progress(side.iface);
    uct_ep_destroy(ep);
    ep = NULL;
    while (comp.num_calls == 0) {
        if ((uct_iface_progress(side.iface) == 0) && (comp.num_calls == 0) &&
            (uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP) == UCS_OK)) {
            ck_assert_int_eq(poll(&event, 1, -1), 1);
        }
    }

    /* nothing wakes it from here on */
    while (uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP) != UCS_OK) {
        uct_iface_progress(side.iface);
    }
    ck_assert_int_eq(poll(&event, 1, 100), 0);
    ct_mem_destroy(&side, &local);
    local = gpu;
}
END_TEST

START_TEST(destroyed_endpoint_cancels_what_has_not_begun)
{
    comp_t comp;

    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    uct_iface_progress(side.iface);
    uct_ep_destroy(ep);
    ep = NULL;
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_ERR_CANCELED);
    ck_assert(!is_put(0, LENGTH));
}
END_TEST

START_TEST(closed_interface_ends_its_moves)
{
    comp_t comp;

    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    uct_iface_progress(side.iface);
    teardown();
    ck_assert_uint_eq(comp.num_calls, 1);
    ck_assert_int_eq(comp.uct.status, UCS_ERR_CANCELED);
    setup();
}
END_TEST

static void on_invalidated(uct_completion_t *comp)
{
    (void)comp;
}

/* The part being copied ends, and no other begins. The owner waits for the parts of
 * other processes alone, so the bytes after the invalidation are no matter of this
 * test. */
START_TEST(invalidated_key_ends_a_move_in_its_middle)
{
    uct_completion_t over = {.func = on_invalidated, .count = 1, .status = UCS_OK};
    uct_md_mem_dereg_params_t params = {
        .field_mask = CT_DEREG_FIELD_MEMH | CT_DEREG_FIELD_FLAGS | CT_DEREG_FIELD_COMP,
        .memh = remote.memh,
        .flags = CT_DEREG_INVALIDATE,
        .comp = &over};
    comp_t comp, late;

    ck_assert_int_eq(put(0, LENGTH, &comp), UCS_INPROGRESS);
    uct_iface_progress(side.iface);
    ck_assert_int_eq(uct_md_mem_dereg_v2(side.md, &params), UCS_OK);
    remote.memh = UCT_MEM_HANDLE_NULL;
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_ERR_REJECTED);
    ck_assert(!is_put(0, LENGTH));
    ck_assert_int_eq(put(0, 10, &late), UCS_ERR_REJECTED);
    ck_assert_int_eq(put_short(0, "late"), UCS_ERR_REJECTED);
}
END_TEST

/* Private memory with a key that is void when the get begins */
static void create_void(ct_mem_t *mem, uct_rkey_bundle_t *to, size_t length,
                        comp_t *comp)
{
    ck_assert_int_eq(ct_mem_create(&side, length, UCS_MEMORY_TYPE_HOST, mem), UCS_OK);
    ck_assert_int_eq(unpack(mem, 0, to), UCS_OK);
    ck_assert_int_eq(get(mem, to->rkey, length, comp), UCS_INPROGRESS);
    ck_assert_int_eq(uct_md_mem_dereg(side.md, mem->memh), UCS_OK);
    mem->memh = UCT_MEM_HANDLE_NULL;
}

/* There is nothing to copy to the GPU, whatever the GPU does. */
START_TEST(get_with_a_void_key_waits_for_no_other_copy)
{
    uct_rkey_bundle_t void_rkey;
    comp_t good, bad;
    ct_mem_t mem;

    fake_hip_hold("hipcpu_hold", NULL);
    ck_assert_int_eq(get(&remote, rkey.rkey, SEGMENT, &good), UCS_INPROGRESS);
    while (fake_hip_calls("hipMemcpyAsync") == 0) {
        uct_iface_progress(side.iface);
    }
    create_void(&mem, &void_rkey, 100, &bad);
    wait_for(&bad);
    ck_assert_int_eq(bad.uct.status, UCS_ERR_REJECTED);
    ck_assert_uint_eq(good.num_calls, 0);
    fake_hip_hold("hipcpu_release", NULL);
    wait_for(&good);
    ck_assert_int_eq(good.uct.status, UCS_OK);
    uct_rkey_release(side.component, &void_rkey);
    ct_mem_destroy(&side, &mem);
}
END_TEST

/* They share a segment, and one of them has failed before. */
START_TEST(refused_copy_changes_no_earlier_status)
{
    uct_rkey_bundle_t void_rkey;
    comp_t good, bad;
    ct_mem_t mem;

    ck_assert_int_eq(get(&remote, rkey.rkey, 100, &good), UCS_INPROGRESS);
    create_void(&mem, &void_rkey, 100, &bad);
    fake_hip_fail("hipMemcpyAsync", 0, 1);
    wait_for(&good);
    wait_for(&bad);
    ck_assert_int_eq(good.uct.status, UCS_ERR_IO_ERROR);
    ck_assert_int_eq(bad.uct.status, UCS_ERR_REJECTED);
    uct_rkey_release(side.component, &void_rkey);
    ct_mem_destroy(&side, &mem);
}
END_TEST

/* UCX would emulate the put otherwise, and the owner write to memory it has unmapped.
 */
START_TEST(void_key_of_unmapped_memory_is_unpacked)
{
    uct_rkey_bundle_t again;

    ck_assert_int_eq(uct_md_mem_dereg(side.md, remote.memh), UCS_OK);
    remote.memh = UCT_MEM_HANDLE_NULL;
    ck_assert_int_eq(mprotect(remote.addr, LENGTH, PROT_NONE), 0);
    ck_assert_int_eq(uct_rkey_unpack(side.component, key, &again), UCS_OK);
    uct_rkey_release(side.component, &again);
    ck_assert_int_eq(put_short(0, "late"), UCS_ERR_REJECTED);
}
END_TEST

START_TEST(list_of_private_and_gpu_memory_has_one_end)
{
    enum { COUNT = 6 };
    comp_t comp = {.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
    void *buffers[COUNT];
    size_t lengths[COUNT], i;
    uct_mem_h memhs[COUNT];
    uint64_t raddrs[COUNT];
    uct_rkey_t rkeys[COUNT];
    uct_rkey_bundle_t gpu;
    ct_mem_t other;
    ucs_status_t status;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &other),
                     UCS_OK);
    ck_assert(ct_mem_fill(&other, 0, LENGTH, 3, 0));
    ck_assert_int_eq(unpack(&other, 0, &gpu), UCS_OK);
    for (i = 0; i < COUNT; ++i) {
        bool is_gpu = ((i & 1) != 0);

        buffers[i] = (char *)local.addr + (i * 100001);
        lengths[i] = 100000 + i;
        memhs[i] = local.memh;
        raddrs[i] = (uintptr_t)(is_gpu ? other.addr : remote.addr) + (i * 100001);
        rkeys[i] = is_gpu ? gpu.rkey : rkey.rkey;
    }
    lengths[4] = 0;
    do {
        status = uct_ep_put_sgl_zcopy(ep, buffers, lengths, memhs, raddrs, rkeys, NULL,
                                      NULL, COUNT, &comp.uct);
        uct_iface_progress(side.iface);
    } while (status == UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(status, UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_OK);
    for (i = 0; i < COUNT; ++i) {
        ck_assert_uint_eq(ct_mem_check(((i & 1) != 0) ? &other : &remote, i * 100001,
                                       lengths[i], 1, i * 100001),
                          lengths[i]);
    }
    ck_assert_uint_eq(ct_mem_check(&remote, 4 * 100001, 1, 2, 4 * 100001), 1);
    uct_rkey_release(side.component, &gpu);
    ct_mem_destroy(&side, &other);
}
END_TEST

/* There is a limit, and what is beyond it has room again. */
START_TEST(many_small_moves_share_segments)
{
    comp_t *comps = calloc(MANY, sizeof(*comps));
    unsigned i, num_waits = 0;

    for (i = 0; i < MANY; ++i) {
        while (put((size_t)i * 97, 97, &comps[i]) == UCS_ERR_NO_RESOURCE) {
            ++num_waits;
            uct_iface_progress(side.iface);
        }
    }
    for (i = 0; i < MANY; ++i) {
        wait_for(&comps[i]);
        ck_assert_int_eq(comps[i].uct.status, UCS_OK);
    }
    ck_assert_uint_gt(num_waits, 0);
    ck_assert(is_put(0, (size_t)MANY * 97));
    ck_assert_uint_eq(
        ct_mem_check(&remote, (size_t)MANY * 97, PAGE, 2, (size_t)MANY * 97), PAGE);
    free(comps);
}
END_TEST

/* Host memory needs no device, and there may be none that works. */
START_TEST(list_of_private_memory_alone_needs_no_queue)
{
    const size_t length = 100;
    comp_t comp = {.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
    uint64_t raddr;
    ct_mem_t from;

    open_side();
    fake_hip_fail("hipStreamCreateWithPriority", 0, 2);
    connect_to_self();
    ck_assert_int_eq(ct_mem_create(&side, length, UCS_MEMORY_TYPE_HOST, &from), UCS_OK);
    ck_assert(ct_mem_fill(&from, 0, length, 1, 0));
    raddr = (uintptr_t)remote.addr;
    ck_assert_int_eq(uct_ep_put_sgl_zcopy(ep, &from.addr, &length, &from.memh, &raddr,
                                          &rkey.rkey, NULL, NULL, 1, &comp.uct),
                     UCS_INPROGRESS);
    wait_for(&comp);
    ck_assert_int_eq(comp.uct.status, UCS_OK);
    ck_assert(is_put(0, length));
    ct_mem_destroy(&side, &from);
    teardown();
}
END_TEST

/* The kernel's answer to a process that may not trace the owner */
static void refuse_process_vm(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {.len = 4, .filter = code};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(memory_is_unreachable_where_the_kernel_or_an_option_refuses)
{
    if (_i == 1) {
        setenv("UCX_MORI_XGMI_PRIVATE", "n", 1);
    }
    open_side();
    if (_i == 0) {
        refuse_process_vm();
    } else if (_i == 2) { /* as pages of a driver: they cannot be copied */
        ck_assert_int_eq(munmap((char *)remote.addr + LENGTH - PAGE, PAGE), 0);
    }
    ck_assert_int_eq(unpack(&remote, 0, &rkey), UCS_ERR_UNREACHABLE);
    ct_mem_destroy(&side, &remote);
    ct_mem_destroy(&side, &local);
    ct_side_close(&side);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_moves");
    TCase *tcase = tcase_create("moves");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    setenv("UCX_TLS", "mori_xgmi,mori_copy,tcp",
           1); /* beside cma it has no host memory */
    setenv("MKV_TEST_PRIVATE", "1", 1);
    ct_side_find_module();
    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, unmapped_memory_fails_its_own_operation);
    tcase_add_test(tcase, fence_orders_what_the_kernel_and_devices_copy);
    tcase_add_test(tcase, moves_do_not_overtake_copies_before_a_fence);
    tcase_add_test(tcase, flush_waits_for_moves);
    tcase_add_test(tcase, sleeping_thread_is_woken_by_the_end_of_a_copy);
    tcase_add_test(tcase, destroyed_endpoint_cancels_what_has_not_begun);
    tcase_add_test(tcase, closed_interface_ends_its_moves);
    tcase_add_test(tcase, invalidated_key_ends_a_move_in_its_middle);
    tcase_add_test(tcase, get_with_a_void_key_waits_for_no_other_copy);
    tcase_add_test(tcase, refused_copy_changes_no_earlier_status);
    tcase_add_test(tcase, void_key_of_unmapped_memory_is_unpacked);
    tcase_add_test(tcase, list_of_private_and_gpu_memory_has_one_end);
    tcase_add_test(tcase, many_small_moves_share_segments);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("unreachable");
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_loop_test(
        tcase, memory_is_unreachable_where_the_kernel_or_an_option_refuses, 0, 3);
    tcase_add_test(tcase, list_of_private_memory_alone_needs_no_queue);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
