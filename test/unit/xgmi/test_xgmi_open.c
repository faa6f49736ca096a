/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory whose owner does not answer: the built module in a real UCX, and a process
 * that is stopped. By the rule ipc-server the runtime waits for it
 * (docs/dev/hipcpu.md).
 */

#include "config.h"
#include "test/fake/hip/hipcpu.h"
#include "test/support/ct_side.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/unit/xgmi/xgmi_lists.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH 8192
#define NUM_MEMORIES 3
#define LIMIT_MS 60000

/* Description that a process sends of itself. */
typedef struct card {
    ct_addr_t addr;
    uint8_t keys[NUM_MEMORIES][256];
    uint64_t addresses[NUM_MEMORIES];
} card_t;

/* A put that waits to be posted, and its end. */
typedef struct request {
    uct_pending_req_t uct;
    uct_completion_t comp;
    uct_ep_h ep;
    uct_rkey_t rkey;
    uint64_t address;
    ucs_status_t status; /* of posting */
    unsigned num_tries, num_ends;
} request_t;

static ct_side_t side;
static ct_mem_t local;
static card_t theirs, ours;
static uct_rkey_bundle_t rkeys[NUM_MEMORIES], own_rkey;
static uct_ep_h peer_ep, self_ep;
static pid_t peer;


static void fill_card(ct_mem_t *memories, unsigned count, card_t *card)
{
    unsigned i;

    ck_assert_int_eq(ct_addr_get(&side, NULL, &card->addr), UCS_OK);
    for (i = 0; i < count; ++i) {
        ck_assert_int_eq(
            ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_ROCM, &memories[i]), UCS_OK);
        ck_assert_int_eq(ct_mem_pack(&side, &memories[i], 0, card->keys[i]), UCS_OK);
        card->addresses[i] = (uintptr_t)memories[i].addr;
    }
}

static void open_side(void)
{
    const ct_target_name_t name = {.tl_name = "mori_xgmi"};

    ck_assert_msg(ct_side_open(&side, &name) == UCS_OK, "%s", side.why);
    xgmi_lists_set_count(side.iface, 2);
}

/* The process that has the memory; it is stopped, and killed in the end. */
static void be_peer(int fd)
{
    ct_mem_t memories[NUM_MEMORIES];
    card_t card;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(&card, 0, sizeof(card));
    open_side();
    fill_card(memories, NUM_MEMORIES, &card);
    ck_assert_int_eq(write(fd, &card, sizeof(card)), sizeof(card));
    for (;;) {
        pause();
    }
}

static uct_ep_h connect_to(const card_t *card)
{
    uct_ep_h ep;

    ck_assert_int_eq(ct_ep_create(&side, &card->addr, &ep), UCS_OK);
    return ep;
}

static void unpack(unsigned which)
{
    ck_assert_int_eq(uct_rkey_unpack(side.component, theirs.keys[which], &rkeys[which]),
                     UCS_OK);
}

static void setup(void)
{
    int fds[2];

    /* the runtime does not return while the owner is stopped */
    setenv("HIPCPU_IPC_TIMEOUT", "3600000", 0);
    setenv("UCX_MORI_XGMI_OPEN_TIMEOUT", "50ms", 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    peer = fork();
    if (peer == 0) {
        be_peer(fds[1]);
    }
    ck_assert_int_eq(recv(fds[0], &theirs, sizeof(theirs), MSG_WAITALL),
                     sizeof(theirs));
    close(fds[0]);
    close(fds[1]);

    open_side();
    fake_hip_set_rule("ipc-server", true);
    fill_card(&local, 1, &ours);
    peer_ep = connect_to(&theirs);
    self_ep = connect_to(&ours);
    ck_assert_int_eq(uct_rkey_unpack(side.component, ours.keys[0], &own_rkey), UCS_OK);
}

/* Beside cma there is no host memory, and no unused mapping is kept. */
static void private_setup(void)
{
    setenv("UCX_TLS", "mori_xgmi,mori_copy,tcp", 1);
    setenv("UCX_MORI_XGMI_MAX_IDLE_REGIONS", "0", 1);
    setenv("MKV_TEST_PRIVATE", "1", 1);
    setup();
}

/* The runtime gives up later than the unpacking thread. */
static void late_setup(void)
{
    setenv("HIPCPU_IPC_TIMEOUT", "100", 1);
    setenv("UCX_MORI_XGMI_OPEN_TIMEOUT", "1ms", 1);
    setup();
}

static void release(uct_rkey_bundle_t *bundle)
{
    if (bundle->rkey != 0) {
        uct_rkey_release(side.component, bundle);
    }
}

static void teardown(void)
{
    unsigned i;

    for (i = 0; i < NUM_MEMORIES; ++i) {
        release(&rkeys[i]);
    }
    release(&own_rkey);
    uct_ep_destroy(peer_ep);
    uct_ep_destroy(self_ep);
    ct_mem_destroy(&side, &local);
    ct_side_close(&side);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
}

static void stop_peer(void)
{
    kill(peer, SIGSTOP);
    ck_assert_int_eq(waitpid(peer, NULL, WUNTRACED), peer);
}

static void count_end(uct_completion_t *comp)
{
    ++ucs_container_of(comp, request_t, comp)->num_ends;
}

static ucs_status_t post(request_t *request)
{
    const uct_iov_t iov = {
        .buffer = local.addr, .length = 100, .memh = local.memh, .count = 1};

    ++request->num_tries;
    request->status = uct_ep_put_zcopy(request->ep, &iov, 1, request->address,
                                       request->rkey, &request->comp);
    return request->status;
}

/* Like UCP's callback: a failed request is over, too. */
static ucs_status_t post_again(uct_pending_req_t *uct)
{
    ucs_status_t status = post(ucs_container_of(uct, request_t, uct));

    return (status == UCS_ERR_NO_RESOURCE) ? status : UCS_OK;
}

static void post_until_taken(request_t *request)
{
    while (post(request) == UCS_ERR_NO_RESOURCE) {
        uct_iface_progress(side.iface);
    }
}

static request_t request_to(uct_ep_h ep, uint64_t address, uct_rkey_t rkey)
{
    return (request_t){
        .uct = {.func = post_again},
        .comp = {.func = count_end, .count = 1, .status = UCS_OK},
        .ep = ep,
        .rkey = rkey,
        .address = address,
    };
}

static request_t request_to_peer(unsigned which)
{
    return request_to(peer_ep, theirs.addresses[which], rkeys[which].rkey);
}

static void progress_until_ended(const request_t *request)
{
    while (request->num_ends == 0) {
        uct_iface_progress(side.iface);
    }
    ck_assert_uint_eq(request->num_ends, 1);
    ck_assert_int_eq(request->comp.status, UCS_OK);
}

/* So that it is known that there is a way. */
static void open_first(void)
{
    request_t request;

    unpack(0);
    request = request_to_peer(0);
    post_until_taken(&request);
    progress_until_ended(&request);
}

/* A put to memory that does not open waits as a pending request. */
static request_t *wait_for_stopped_peer(unsigned which, request_t *request)
{
    unpack(which);
    *request = request_to_peer(which);
    ck_assert_int_eq(post(request), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(peer_ep, &request->uct, 0), UCS_OK);
    return request;
}

/* The thread sleeps until there is something to do. */
static void sleep_once(void)
{
    struct pollfd pfd = {.events = POLLIN};

    if (uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP) == UCS_OK) {
        ck_assert_int_eq(uct_iface_event_fd_get(side.iface, &pfd.fd), UCS_OK);
        ck_assert_int_eq(poll(&pfd, 1, LIMIT_MS), 1);
    }
    uct_iface_progress(side.iface);
}

START_TEST(only_a_put_waits_for_its_memory)
{
    request_t request;

    open_first();
    stop_peer();
    wait_for_stopped_peer(1, &request);
    uct_iface_progress(side.iface);
    ck_assert_uint_eq(request.num_tries, 1); /* nothing has changed */
    kill(peer, SIGCONT);
    while (request.num_ends == 0) {
        sleep_once();
    }
    ck_assert_int_eq(request.status, UCS_INPROGRESS);
    ck_assert_int_eq(request.comp.status, UCS_OK);
}
END_TEST

/* Room goes to requests that wait for room. */
START_TEST(endpoint_that_waits_for_memory_stops_no_other)
{
    static request_t requests[1 << 16];
    request_t slow;
    unsigned i = 0;

    open_first();
    stop_peer();
    wait_for_stopped_peer(1, &slow);
    fake_hip_hold("hipcpu_hold", NULL);
    do {
        requests[i] = request_to(self_ep, ours.addresses[0], own_rkey.rkey);
        if (post(&requests[i]) == UCS_ERR_NO_RESOURCE) {
            break;
        }
        uct_iface_progress(side.iface); /* a list each */
    } while (++i < sizeof(requests) / sizeof(*requests));
    ck_assert_int_eq(uct_ep_pending_add(self_ep, &requests[i].uct, 0), UCS_OK);
    fake_hip_hold("hipcpu_release", NULL);
    progress_until_ended(&requests[i]);
    ck_assert_uint_eq(slow.num_ends, 0);
    kill(peer, SIGCONT);
    progress_until_ended(&slow);
}
END_TEST

/* Calls, by whatever thread, of those that the module makes and that may wait. */
static unsigned long count_calls_that_wait(void)
{
    static const char *const names[] = {"hipDeviceEnablePeerAccess",
                                        "hipEventCreateWithFlags",
                                        "hipEventDestroy",
                                        "hipFree",
                                        "hipHostFree",
                                        "hipHostMalloc",
                                        "hipHostRegister",
                                        "hipHostUnregister",
                                        "hipIpcCloseMemHandle",
                                        "hipIpcGetMemHandle",
                                        "hipIpcOpenMemHandle",
                                        "hipMalloc",
                                        "hipModuleLoadData",
                                        "hipModuleUnload",
                                        "hipStreamCreateWithPriority",
                                        "hipStreamDestroy",
                                        "hipStreamSynchronize"};
    unsigned long count = 0;
    unsigned i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        count += fake_hip_calls(names[i]);
    }
    return count;
}

static void copy_within(unsigned num_copies)
{
    request_t request;

    while (num_copies-- > 0) {
        request = request_to(self_ep, ours.addresses[0], own_rkey.rkey);
        post_until_taken(&request);
        progress_until_ended(&request);
    }
}

/* The one call that waits is the opener's, and it was made before. */
START_TEST(progress_calls_nothing_that_waits_while_memory_opens)
{
    unsigned long num_calls;
    request_t slow;

    open_first();
    copy_within(1); /* objects that are made once exist */
    stop_peer();
    wait_for_stopped_peer(1, &slow);
    while (fake_hip_calls("hipIpcOpenMemHandle") < 2) {
        usleep(100);
    }
    num_calls = count_calls_that_wait();
    copy_within(200);
    ck_assert_uint_eq(count_calls_that_wait(), num_calls);
    ck_assert_uint_eq(slow.num_ends, 0);
    kill(peer, SIGCONT);
    progress_until_ended(&slow);
}
END_TEST

/* A list to GPU memory, private memory of this process, and memory of the peer */
typedef struct list {
    request_t request;
    size_t first, count; /* of these entries */
    uint64_t addresses[3];
    uct_rkey_t rkeys[3];
} list_t;

static ucs_status_t post_list(uct_pending_req_t *uct)
{
    request_t *request = ucs_container_of(uct, request_t, uct);
    list_t *list = ucs_container_of(request, list_t, request);
    void *const buffers[] = {local.addr, local.addr, local.addr};
    const uct_mem_h memhs[] = {local.memh, local.memh, local.memh};
    const size_t lengths[] = {100, 100, 100};

    ++request->num_tries;
    request->status = uct_ep_put_sgl_zcopy(
        request->ep, buffers, lengths, memhs, list->addresses + list->first,
        list->rkeys + list->first, NULL, NULL, list->count, &request->comp);
    return (request->status == UCS_ERR_NO_RESOURCE) ? UCS_ERR_NO_RESOURCE : UCS_OK;
}

/* The list is tried again when its memory is open, and nothing else keeps that. */
START_TEST(list_with_private_memory_waits_for_memory_behind_it)
{
    uct_rkey_bundle_t private_rkey;
    uint8_t key[256];
    ct_mem_t private;
    list_t list;
    unsigned i;

    ck_assert_int_eq(ct_mem_create(&side, LENGTH, UCS_MEMORY_TYPE_HOST, &private),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_pack(&side, &private, 0, key), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(side.component, key, &private_rkey), UCS_OK);
    open_first();
    stop_peer();
    unpack(1);
    list = (list_t){
        .request = request_to_peer(1),
        .first = (_i == 0) ? 1 : 0,
        .count = (_i == 0) ? 2 : 3,
        .addresses = {ours.addresses[0] + 4096, (uintptr_t)private.addr,
                      theirs.addresses[1]},
        .rkeys = {own_rkey.rkey, private_rkey.rkey, rkeys[1].rkey},
    };
    list.request.uct.func = post_list;
    ck_assert_int_eq(post_list(&list.request.uct), UCS_ERR_NO_RESOURCE);
    ck_assert_int_eq(uct_ep_pending_add(peer_ep, &list.request.uct, 0), UCS_OK);
    for (i = 0; i < 100; ++i) {
        uct_iface_progress(side.iface);
    }
    if (_i == 0) { /* own memory opens by itself */
        ck_assert_uint_eq(list.request.num_tries, 1);
    }
    while (uct_iface_event_arm(side.iface, UCT_EVENT_SEND_COMP) != UCS_OK) {
        uct_iface_progress(side.iface);
    }
    kill(peer, SIGCONT);
    while (list.request.num_ends == 0) {
        sleep_once();
    }
    ck_assert_int_eq(list.request.status, UCS_INPROGRESS);
    ck_assert_int_eq(list.request.comp.status, UCS_OK);
    ck_assert_uint_eq(list.request.num_ends, 1);
    ck_assert_int_eq(memcmp(local.addr, private.addr, 100), 0);
    uct_rkey_release(side.component, &private_rkey);
    ct_mem_destroy(&side, &private);
}
END_TEST

/* Unpacking waits a while for the mapping of a peer's first memory; then copies wait.
 */
START_TEST(key_of_a_stopped_peer_is_unpacked_all_the_same)
{
    request_t request;

    stop_peer();
    wait_for_stopped_peer(0, &request);
    unpack(1);
    kill(peer, SIGCONT);
    progress_until_ended(&request);
}
END_TEST

/* If there were no key, UCP would send the bytes by messages to a dead peer. */
START_TEST(key_of_a_peer_that_died_is_unpacked_and_its_puts_fail)
{
    request_t request;

    kill(peer, SIGKILL);
    ck_assert_int_eq(waitpid(peer, NULL, 0), peer);
    unpack(0);
    request = request_to_peer(0);
    post_until_taken(&request);
    ck_assert_int_eq(request.status, UCS_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 0);
}
END_TEST

static void forget_request(uct_pending_req_t *uct, void *arg)
{
    (void)uct;
    ++*(unsigned *)arg;
}

START_TEST(endpoint_may_go_while_it_waits_for_memory)
{
    unsigned num_forgotten = 0;
    request_t request;

    open_first();
    stop_peer();
    wait_for_stopped_peer(1, &request);
    uct_ep_pending_purge(peer_ep, forget_request, &num_forgotten);
    ck_assert_uint_eq(num_forgotten, 1);
    uct_ep_destroy(peer_ep);
    kill(peer, SIGCONT);
    peer_ep = connect_to(&theirs);
    request = request_to_peer(1);
    post_until_taken(&request);
    progress_until_ended(&request);
}
END_TEST

/* The put fails after other memory of the same peer has opened, so that there is a way.
 */
START_TEST(memory_that_does_not_open_fails_the_put_that_waits)
{
    request_t request;

    open_first();
    fake_hip_fail("hipIpcOpenMemHandle", 2, 17); /* the second from here: of memory 2 */
    stop_peer();
    unpack(1);
    while (fake_hip_calls("hipIpcOpenMemHandle") < 2) {
        usleep(100);
    }
    wait_for_stopped_peer(2, &request);
    kill(peer, SIGCONT);
    while (request.status == UCS_ERR_NO_RESOURCE) {
        sleep_once();
    }
    ck_assert_int_eq(request.status, UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 3);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);
}
END_TEST

/* The operation ends by it, and the next key has another lane. */
START_TEST(first_memory_that_fails_late_is_the_last)
{
    ucs_status_t status;
    request_t request;

    stop_peer();
    status = uct_rkey_unpack(side.component, theirs.keys[0], &rkeys[0]);
    if (status == UCS_OK) { /* else this process was as late as the runtime */
        request = request_to_peer(0);
        post_until_taken(&request);
        status = (request.status == UCS_ERR_UNSUPPORTED) ? UCS_ERR_UNREACHABLE
                                                         : request.status;
    }
    ck_assert_int_eq(status, UCS_ERR_UNREACHABLE);
    ck_assert_int_eq(uct_rkey_unpack(side.component, theirs.keys[1], &rkeys[1]),
                     UCS_ERR_UNREACHABLE);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
}
END_TEST

/* The second request waits behind the opening that does not return. */
START_TEST(put_to_memory_that_never_opens_fails)
{
    request_t requests[2];

    open_first();
    stop_peer();
    wait_for_stopped_peer(1, &requests[0]);
    while (fake_hip_calls("hipIpcOpenMemHandle") < 2) {
        usleep(100);
    }
    xgmi_lists_set_open_limit(side.iface, 100);
    while (requests[0].status == UCS_ERR_NO_RESOURCE) {
        sleep_once();
    }
    ck_assert_int_eq(requests[0].status, UCS_ERR_TIMED_OUT);
    wait_for_stopped_peer(2, &requests[1]);
    while (requests[1].status == UCS_ERR_NO_RESOURCE) {
        uct_iface_progress(side.iface);
    }
    ck_assert_int_eq(requests[1].status, UCS_ERR_TIMED_OUT);
    copy_within(1);
    ck_assert_uint_eq(side.events.num_ep_errors, 0);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 2);

    kill(peer, SIGCONT);
    do { /* until the late mapping is closed */
        requests[0] = request_to_peer(1);
        post_until_taken(&requests[0]);
    } while (requests[0].status == UCS_ERR_TIMED_OUT);
    progress_until_ended(&requests[0]);
    while (fake_hip_live(HIPCPU_MAPPINGS) > 2) {
        usleep(100);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_open");
    TCase *tcase = tcase_create("stopped peer");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    ct_side_find_module();
    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, only_a_put_waits_for_its_memory);
    tcase_add_test(tcase, endpoint_that_waits_for_memory_stops_no_other);
    tcase_add_test(tcase, progress_calls_nothing_that_waits_while_memory_opens);
    tcase_add_test(tcase, key_of_a_stopped_peer_is_unpacked_all_the_same);
    tcase_add_test(tcase, key_of_a_peer_that_died_is_unpacked_and_its_puts_fail);
    tcase_add_test(tcase, endpoint_may_go_while_it_waits_for_memory);
    tcase_add_test(tcase, memory_that_does_not_open_fails_the_put_that_waits);
    tcase_add_test(tcase, put_to_memory_that_never_opens_fails);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("private memory");
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, private_setup, teardown);
    tcase_add_loop_test(tcase, list_with_private_memory_waits_for_memory_behind_it, 0,
                        2);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("late failure");
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, late_setup, teardown);
    tcase_add_test(tcase, first_memory_that_fails_late_is_the_last);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
