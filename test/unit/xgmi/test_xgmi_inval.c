/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Invalidation between two processes, each with the built module in a real UCX. The
 * processes communicate by a socket, so that the test controls one while the other
 * waits.
 */

#include "config.h"
#include "test/support/fake_hip.h"
#include "test/support/ct_side.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <ucs/sys/stubs.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)1 << 20)
#define NUM_OTHERS 4

typedef struct comp {
    uct_completion_t uct;
    unsigned num_calls;
} comp_t;

static ct_side_t side;
static ct_mem_t local, remote;
static uct_rkey_bundle_t rkeys[2];
static uct_ep_h ep;


/* Assertion for a process that Check does not know. */
static void need(int is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "test_xgmi_inval: %s failed: %s\n", what, side.why);
        _exit(1);
    }
}

static void count_call(uct_completion_t *comp)
{
    ++ucs_container_of(comp, comp_t, uct)->num_calls;
}

static void comp_init(comp_t *comp)
{
    *comp = (comp_t){.uct = {.func = count_call, .count = 1, .status = UCS_OK}};
}

/* Description that one process sends the other of itself. */
typedef struct card {
    ct_addr_t addr;
    uint8_t keys[2][256]; /* of the memory that is invalidated, and of the other */
    uint64_t addresses[2];
} card_t;

static void exchange(int fd, const card_t *mine, card_t *theirs)
{
    need(write(fd, mine, sizeof(*mine)) == (ssize_t)sizeof(*mine), "write");
    need(recv(fd, theirs, sizeof(*theirs), MSG_WAITALL) == (ssize_t)sizeof(*theirs),
         "recv");
}

/* Two memories, and the other process reaches the second one. */
static void open_side(int fd, card_t *theirs)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};
    card_t mine = {.addresses = {0, 0}};

    need(ct_side_open(&side, &name) == UCS_OK, "open");
    need(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &local) == UCS_OK, "local");
    need(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &remote) == UCS_OK,
         "remote");
    need(ct_addr_get(&side, NULL, &mine.addr) == UCS_OK, "address");
    need(ct_mem_pack(&side, &remote, CT_PACK_INVALIDATE_RMA, mine.keys[0]) == UCS_OK,
         "key");
    need(ct_mem_pack(&side, &local, CT_PACK_INVALIDATE_RMA, mine.keys[1]) == UCS_OK,
         "key");
    mine.addresses[0] = (uintptr_t)remote.addr;
    mine.addresses[1] = (uintptr_t)local.addr;
    exchange(fd, &mine, theirs);
}

static void put_to(const card_t *theirs, unsigned which, comp_t *comp)
{
    const uct_iov_t iov = {
        .buffer = local.addr, .length = 100, .memh = local.memh, .count = 1};

    ucs_status_t status;

    comp_init(comp);
    do { /* without progress: a thread opens what it needs */
        status = uct_ep_put_zcopy(ep, &iov, 1, theirs->addresses[which],
                                  rkeys[which].rkey, &comp->uct);
    } while (status == UCS_ERR_NO_RESOURCE);
    need(status == UCS_INPROGRESS, "put");
}

static void connect_to(const card_t *theirs)
{
    unsigned i;

    need(ct_ep_create(&side, &theirs->addr, &ep) == UCS_OK, "endpoint");
    for (i = 0; i < 2; ++i) {
        need(uct_rkey_unpack(side.component, theirs->keys[i], &rkeys[i]) == UCS_OK,
             "unpack");
    }
}

static void invalidate(comp_t *ended)
{
    uct_md_mem_dereg_params_t dereg = {
        .field_mask = CT_DEREG_FIELD_MEMH | CT_DEREG_FIELD_FLAGS | CT_DEREG_FIELD_COMP,
        .flags = CT_DEREG_INVALIDATE,
        .memh = remote.memh,
        .comp = &ended->uct};

    need(uct_md_mem_dereg_v2(side.md, &dereg) == UCS_OK, "invalidate");
    remote.memh = UCT_MEM_HANDLE_NULL;
}

static void progress_until_called(const comp_t *comp)
{
    while (comp->num_calls == 0) {
        uct_iface_progress(side.iface);
    }
}

/* Check, like UCP's ucp_memh_dereg(), that it may be called, and count the operations
 * that the call has ended. */
static void invalidate_as_ucp(void)
{
    comp_t ended = {
        .uct = {.func = (uct_completion_callback_t)ucs_empty_function_do_assert_void,
                .count = 2,
                .status = UCS_OK}};

    invalidate(&ended);
    need(ended.uct.count == 1, "an invalidation that is over with the call");
    need(ended.uct.status == UCS_OK, "the end of the other's copies");
}

/*
 * Put to the other process, and invalidate the memory that the other process writes to,
 * without progress in between. If a wait ended by its clock, the test would reach its
 * limit.
 */
static void write_and_invalidate(int fd, int is_started, int is_ucp)
{
    comp_t comp, ended = {.num_calls = 0};
    card_t theirs, mine = {.addresses = {0, 0}};

    open_side(fd, &theirs);
    connect_to(&theirs);
    put_to(&theirs, 0, &comp);
    if (is_started) {
        fake_hip_hold("hipcpu_hold",
                      NULL); /* so that this progress does not see the end */
        uct_iface_progress(side.iface);
        fake_hip_hold("hipcpu_release", NULL);
    }
    exchange(fd, &mine, &theirs); /* both have put */

    if (is_ucp) {
        invalidate_as_ucp();
    } else {
        comp_init(&ended);
        invalidate(&ended);
        need(ended.num_calls == 0, "a caller that goes on");
        exchange(fd, &mine, &theirs); /* both are invalidating */
        progress_until_called(&ended);
        need(ended.uct.status == UCS_OK, "the end of the other's copies");
    }
    need(is_ucp ? comp.num_calls == 0 : 1, "a completion that comes from progress");
    progress_until_called(&comp);
    need(comp.uct.status == UCS_OK, "put's end");
    if (!is_ucp) {
        exchange(fd, &mine, &theirs); /* both are over */
    }
    _exit(0);
}

/* Each with a socket to the other one. */
static void run_two(void (*run)(int fd, int index, int variant), int variant)
{
    int fds[2], status, i;
    pid_t pids[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (i = 0; i < 2; ++i) {
        pids[i] = fork();
        ck_assert_int_ge(pids[i], 0);
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(fds[1 - i]);
            run(fds[i], i, variant);
        }
    }
    close(fds[0]);
    close(fds[1]);
    for (i = 0; i < 2; ++i) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
}

static void invalidate_at_once(int fd, int index, int variant)
{
    (void)index;
    write_and_invalidate(fd, variant & 1, variant & 2);
}

START_TEST(processes_that_invalidate_at_once_wait_for_copies_alone)
{
    setenv("UCX_MORI_XGMI_INVALIDATE_TIMEOUT", "1000000s", 1);
    run_two(invalidate_at_once, _i);
}
END_TEST

/* Post, and continue when the owner of the memory has given up waiting. */
static void put_too_late(int fd, const card_t *theirs, unsigned num_others)
{
    comp_t comp, flush, others[NUM_OTHERS];
    card_t mine = {.addresses = {0, 0}};
    unsigned i;

    connect_to(theirs);
    put_to(theirs, 0, &comp);
    for (i = 0; i < num_others; ++i) {
        put_to(theirs, 1, &others[i]);
    }
    exchange(fd, &mine, &mine); /* has put, and stands still */
    exchange(fd, &mine, &mine); /* it is over there */
    progress_until_called(&comp);
    need(comp.uct.status == UCS_ERR_IO_ERROR, "a copy that comes too late");
    for (i = 0; i < num_others; ++i) {
        progress_until_called(&others[i]);
        need(others[i].uct.status == UCS_OK, "copies of other memory");
    }
    comp_init(&flush);
    need(uct_ep_flush(ep, 0, &flush.uct) == UCS_OK, "an endpoint that lives");
    exchange(fd, &mine, &mine);
    _exit(0);
}

/*
 * The clock ends the invalidation, and the owner's memory has a new use soon after
 * that. So posts of the other process that start later must not be copied: by calls, by
 * the copy engines, or as part of a list.
 */
static void stand_still(int fd, int index, int variant)
{
    const uint8_t zeros[100] = {0};
    uint8_t bytes[100];
    card_t theirs, mine = {.addresses = {0, 0}};
    comp_t ended;

    if (variant == 1) {
        setenv("UCX_MORI_XGMI_MIN_RUN", "100", 1);
    }
    open_side(fd, &theirs);
    need(ct_mem_write(&remote, 0, zeros, sizeof(zeros)), "write");
    need(ct_mem_fill(&local, 0, LENGTH, 1, 0), "fill");
    exchange(fd, &mine, &mine);
    if (index == 0) {
        put_too_late(fd, &theirs, (variant == 2) ? NUM_OTHERS : 0);
    }

    exchange(fd, &mine, &mine);
    comp_init(&ended);
    invalidate(&ended);
    need(ended.num_calls == 0, "a caller that goes on");
    progress_until_called(&ended);
    need(ended.uct.status == UCS_ERR_TIMED_OUT, "the clock");
    exchange(fd, &mine, &mine);
    exchange(fd, &mine, &mine);
    need(ct_mem_read(&remote, 0, bytes, sizeof(bytes)), "read");
    need(memcmp(bytes, zeros, sizeof(bytes)) == 0, "memory that nobody writes to");
    _exit(0);
}

START_TEST(invalidation_beside_a_peer_that_stands_still_ends_by_the_clock)
{
    setenv("UCX_MORI_XGMI_INVALIDATE_TIMEOUT", "20ms", 1);
    run_two(stand_still, _i);
}
END_TEST

/* Sleep on the event descriptor, like an application. */
static void sleep_until_called(const comp_t *comp)
{
    struct pollfd event = {.events = POLLIN};

    need(uct_iface_event_fd_get(side.iface, &event.fd) == UCS_OK, "event descriptor");
    while (comp->num_calls == 0) {
        if (uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP | UCT_EVENT_RECV) ==
            UCS_OK) {
            (void)poll(&event, 1, -1);
        }
        uct_iface_progress(side.iface);
    }
}

static void invalidate_asleep(int fd, int index, int variant)
{
    card_t theirs, mine = {.addresses = {0, 0}};
    comp_t comp, ended;

    (void)variant;
    open_side(fd, &theirs);
    if (index == 0) {
        connect_to(&theirs);
        put_to(&theirs, 0, &comp);
        exchange(fd, &mine, &mine); /* has put */
        exchange(fd, &mine, &mine); /* the other one has looked once */
        progress_until_called(&comp);
        exchange(fd, &mine, &mine);
        _exit(0);
    }

    exchange(fd, &mine, &mine);
    comp_init(&ended);
    invalidate(&ended);
    uct_iface_progress(side.iface);
    need(ended.num_calls == 0, "an invalidation that is not over");
    exchange(fd, &mine, &mine);
    sleep_until_called(&ended);
    need(ended.uct.status == UCS_OK, "the end of the other's copies");
    exchange(fd, &mine, &mine);
    _exit(0);
}

START_TEST(end_of_an_invalidation_wakes_a_sleeping_thread)
{
    setenv("UCX_MORI_XGMI_INVALIDATE_TIMEOUT", "1000000s", 1);
    run_two(invalidate_asleep, 0);
}
END_TEST

/* No thread makes progress then, and the completion is called all the same. */
static void close_meanwhile(int fd, int index, int variant)
{
    card_t theirs, mine = {.addresses = {0, 0}};
    comp_t comp, ended;

    (void)variant;
    open_side(fd, &theirs);
    if (index == 0) {
        connect_to(&theirs);
        put_to(&theirs, 0, &comp);
        exchange(fd, &mine, &mine);
        exchange(fd, &mine, &mine);
        progress_until_called(&comp);
        _exit(0);
    }

    exchange(fd, &mine, &mine);
    comp_init(&ended);
    invalidate(&ended);
    need(ended.num_calls == 0, "a caller that goes on");
    exchange(fd, &mine, &mine);
    uct_iface_close(side.iface);
    need(ended.num_calls == 1, "a completion");
    need(ended.uct.status == UCS_OK, "the end of the other's copies");
    _exit(0);
}

START_TEST(interface_that_closes_ends_invalidations)
{
    setenv("UCX_MORI_XGMI_INVALIDATE_TIMEOUT", "1000000s", 1);
    run_two(close_meanwhile, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_inval");
    TCase *tcase = tcase_create("two processes");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    ct_side_find_module();
    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_loop_test(tcase, processes_that_invalidate_at_once_wait_for_copies_alone,
                        0, 4);
    tcase_add_loop_test(
        tcase, invalidation_beside_a_peer_that_stands_still_ends_by_the_clock, 0, 3);
    tcase_add_test(tcase, end_of_an_invalidation_wakes_a_sleeping_thread);
    tcase_add_test(tcase, interface_that_closes_ends_invalidations);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
