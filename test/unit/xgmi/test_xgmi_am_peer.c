/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Endpoints to peers that are processes of their own, which end, are killed, or are not
 * to be reached.
 */

#include "config.h"

#include "test/fake/hip/hipcpu.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"
#include "test/unit/xgmi/xgmi_inside.h"
#include "test/unit/xgmi/xgmi_sides.h"
#include "xgmi/peer/xgmi_page.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

/* Description that a process sends of itself */
typedef struct words {
    ct_addr_t addr;
    uint8_t key[256]; /* of its memory */
    uint64_t memory;
} words_t;

/* Child process, which ends on command. */
typedef struct peer {
    pid_t pid;
    int fds[2]; /* to it, from it */
    words_t words;
} peer_t;

/* A separate process that is forked before UCX starts, in the given folder */
static void peer_main(int in, int out)
{
    static words_t words;
    ct_mem_t memory;
    char byte;

    if ((ct_side_open(&am_side, &am_name) != UCS_OK) ||
        (ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &memory) != UCS_OK) ||
        (ct_mem_pack(&am_side, &memory, 0, words.key) != UCS_OK)) {
        _exit(1);
    }
    am_get_addr(&am_side, &words.addr);
    words.memory = (uintptr_t)memory.addr;
    if (write(out, &words, sizeof(words)) != (ssize_t)sizeof(words)) {
        _exit(1);
    }
    (void)read(in, &byte, 1); /* until it is closed, or killed */
    ct_mem_destroy(&am_side, &memory);
    ct_side_close(&am_side);
    _exit(0);
}

static void peer_start(peer_t *peer)
{
    int in[2], out[2];

    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    peer->pid = fork();
    ck_assert_int_ge(peer->pid, 0);
    if (peer->pid == 0) {
        close(in[1]);
        close(out[0]);
        peer_main(in[0], out[1]);
    }
    close(in[0]);
    close(out[1]);
    peer->fds[0] = in[1];
    peer->fds[1] = out[0];
    ck_assert_int_eq(read(peer->fds[1], &peer->words, sizeof(peer->words)),
                     (ssize_t)sizeof(peer->words));
}

static void peer_end(peer_t *peer, bool is_killed)
{
    int status;

    if (is_killed) {
        ck_assert_int_eq(kill(peer->pid, SIGKILL), 0);
    }
    close(peer->fds[0]);
    close(peer->fds[1]);
    ck_assert_int_eq(waitpid(peer->pid, &status, 0), peer->pid);
    ck_assert(is_killed || (WIFEXITED(status) && (WEXITSTATUS(status) == 0)));
}

/* The peer ended or was killed; check at once, and after everything was tried */
START_TEST(endpoint_to_a_dead_process_fails)
{
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    peer_end(&peer, _i & 1);
    am_expect_reachable(&peer.words.addr);
    am_ep = am_connect_to(&peer.words.addr);
    if (_i & 2) {
        am_try_all();
    }
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

START_TEST(endpoint_to_the_dead_is_destroyed_untold)
{
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    peer_end(&peer, true);
    am_ep = am_connect_to(&peer.words.addr);
    uct_ep_destroy(am_ep);
    am_ep = NULL;
    am_progress(&am_side, 10);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 0);
}
END_TEST

/* A process that starts later removes the dead one's files; the dead one's page here is
 * still marked open. */
START_TEST(a_removed_box_of_a_dead_process_is_reported_as_death)
{
    size_t length = 8;
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    am_ep = am_connect_to(&peer.words.addr);
    peer_end(&peer, true);
    muct_xgmi_page_sweep(am_dir);
    ck_assert_int_eq(uct_ep_am_bcopy(am_ep, AM_ID, am_pack_length, &length,
                                     UCT_SEND_FLAG_PEER_CHECK),
                     UCS_ERR_CONNECTION_RESET);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

static unsigned num_warnings;

/* Copy once to it, so that its memory is mapped here */
static void put_to(const peer_t *peer)
{
    uct_rkey_bundle_t rkey;
    ct_mem_t local;
    unsigned i;
    am_comp_t comp;

    ck_assert_int_eq(ct_mem_create(&am_side, AM_LENGTH, UCS_MEMORY_TYPE_ROCM, &local),
                     UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(am_side.component, peer->words.key, &rkey),
                     UCS_OK);
    am_put_all(&local, peer->words.memory, rkey.rkey, &comp);
    for (i = 0; (comp.num_calls == 0) && (i < 1000 * AM_MANY); ++i) {
        am_progress(&am_side, 1);
    }
    ck_assert_uint_eq(comp.num_calls, 1);
    uct_rkey_release(am_side.component, &rkey);
    ct_mem_destroy(&am_side, &local);
}

static void expect_closed(void)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();
    unsigned empty = 0;

    while (fake_hip_live(HIPCPU_MAPPINGS) > 0) {
        ck_assert_msg(mkv_test_now_ms() < deadline, "its memory is mapped still");
        mkv_test_pause(&empty);
    }
}

/* Any caller may detect the death, not only progress; it must release the peer's
 * memory. */
/* XM-05 */
START_TEST(memory_of_the_dead_goes_with_the_endpoint)
{
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    am_ep = am_connect_to(&peer.words.addr);
    put_to(&peer);
    ck_assert_int_eq(am_send_one(am_ep, 0), UCS_OK);
    peer_end(&peer, _i & 1);
    if (_i & 2) {
        ck_assert_int_eq(uct_ep_flush(am_ep, 0, NULL), UCS_ERR_CONNECTION_RESET);
    } else {
        ck_assert_int_eq(uct_ep_check(am_ep, 0, NULL), UCS_OK);
    }
    if (_i & 4) {
        am_expect_failed(UCS_ERR_CONNECTION_RESET);
        ck_assert(am_sleeps(&am_side)); /* a sleeping thread is not woken */
    } else {
        am_progress(&am_side, 1); /* as UCP does, which destroys failed endpoints */
        ck_assert_uint_eq(am_side.events.num_ep_errors, 1);
    }
    uct_ep_destroy(am_ep);
    am_ep = NULL;
    expect_closed();
}
END_TEST

/* Memory kept longer would stay mapped if the peer dies later, which no endpoint here
 * would detect. */
/* XM-05 */
START_TEST(memory_goes_with_the_last_endpoint)
{
    uct_ep_h first;
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    first = am_connect_to(&peer.words.addr);
    am_ep = am_connect_to(&peer.words.addr);
    put_to(&peer);
    uct_ep_destroy(first);
    put_to(&peer);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
    uct_ep_destroy(am_ep);
    expect_closed();
    am_ep = am_connect_to(&peer.words.addr);
    put_to(&peer);
    peer_end(&peer, false);
}
END_TEST

/* Parent and child share one set of files to watch. */
/* XM-06 */
START_TEST(endpoint_that_a_forked_child_destroys_is_watched_on)
{
    peer_t peer;
    pid_t pid;
    int status;

    peer_start(&peer);
    am_open_side();
    am_ep = am_connect_to(&peer.words.addr);
    pid = fork();
    if (pid == 0) {
        uct_ep_destroy(am_ep);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert(am_sleeps(&am_side));
    peer_end(&peer, true);
    ck_assert(am_is_readable(&am_side));
    am_arm(&am_side);
    am_progress(&am_side, 1);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

/* A process dies while its ring is full, and purge returns the pending requests. */
START_TEST(death_of_a_full_receiver_is_reported)
{
    unsigned num_purged = 0, i;
    am_request_t request;
    uint64_t number;
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    am_ep = am_connect_to(&peer.words.addr);
    number = am_fill(am_ep, 0);
    am_request_init(&request, am_ep, number);
    ck_assert_int_eq(uct_ep_pending_add(am_ep, &request.req, 0), UCS_OK);
    ck_assert(am_sleeps(&am_side));
    peer_end(&peer, true);
    ck_assert(am_is_readable(&am_side));
    for (i = 0; (i < AM_MANY) && (am_side.events.num_ep_errors == 0); ++i) {
        am_progress(&am_side, 1);
    }
    uct_ep_pending_purge(am_ep, am_count_purged, &num_purged);
    ck_assert_uint_le(num_purged, 1);
    ck_assert_uint_eq(num_purged + (request.num_calls > 0), 1);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST

START_TEST(peer_of_another_folder_is_not_reached)
{
    char elsewhere[] = "/tmp/test_xgmi_am_2.XXXXXX", command[64];
    peer_t peer;

    ck_assert_ptr_nonnull(mkdtemp(elsewhere));
    setenv("UCX_MORI_XGMI_SHM_DIR", elsewhere, 1);
    peer_start(&peer);
    setenv("UCX_MORI_XGMI_SHM_DIR", am_dir, 1);
    am_open_side();
    am_expect_unreachable(&peer.words.addr, "different shared memory folder");
    peer_end(&peer, false);
    snprintf(command, sizeof(command), "rm -rf %s", elsewhere);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* Root does not reach it either: it could use the owner's box, but the owner could not
 * use root's. */
START_TEST(peer_of_another_user_is_not_reached)
{
    char path[512];
    peer_t peer;

    if (geteuid() != 0) {
        mkv_test_skip("root", "peer_of_another_user_is_not_reached",
                      "who is not root cannot give a page away");
        am_setup_dir();
        am_open_side();
        return;
    }

    peer_start(&peer);
    am_open_side();
    snprintf(path, sizeof(path), "%s/ucx-mori.%016llx", am_dir,
             (unsigned long long)am_iface_of(&peer.words.addr).owner);
    ck_assert_int_eq(chown(path, 12345, 12345), 0);
    am_expect_unreachable(&peer.words.addr, "cannot be used; see its warning");
    peer_end(&peer, false);
}
END_TEST

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_warnings(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component, (void)format, (void)args;
    num_warnings += (level <= UCS_LOG_LEVEL_WARN);
    return UCS_LOG_FUNC_RC_STOP;
}

/* Each place belongs to a process that lives. UCP takes another lane for a key that is
 * not reachable. */
START_TEST(key_of_a_process_with_all_users_is_not_reachable)
{
    uct_rkey_bundle_t rkey;
    muct_xgmi_page_t *page;
    ucs_status_t status;
    uint64_t owner;
    unsigned i;
    peer_t peer;
    int fd;

    peer_start(&peer);
    am_open_side();
    am_ep = am_connect_to(&peer.words.addr);
    owner = am_iface_of(&peer.words.addr).owner;
    ck_assert_int_eq(muct_xgmi_page_map(am_dir, owner, &fd, &page), UCS_OK);
    for (i = 0; i < MUCT_XGMI_MAX_USERS; ++i) {
        atomic_store(&page->users[i], owner);
    }
    ucs_log_push_handler(count_warnings);
    for (i = 0; i < 70; ++i) {
        ck_assert_int_eq(uct_rkey_unpack(am_side.component, peer.words.key, &rkey),
                         UCS_ERR_UNREACHABLE);
    }
    ck_assert_uint_eq(num_warnings, 1);
    ucs_log_pop_handler();

    atomic_store(&page->users[MUCT_XGMI_MAX_USERS - 1], 0);
    do {
        status = uct_rkey_unpack(am_side.component, peer.words.key, &rkey);
    } while ((status == UCS_ERR_UNREACHABLE) && (++i < 140));
    ck_assert_int_eq(status, UCS_OK);
    uct_rkey_release(am_side.component, &rkey);
    put_to(&peer);
    munmap(page, sizeof(*page));
    close(fd);
    peer_end(&peer, false);
}
END_TEST

static bool is_reachable(const ct_addr_t *addr)
{
    return uct_iface_is_reachable(
        am_side.iface, (const uct_device_addr_t *)addr->bytes,
        (const uct_iface_addr_t *)(addr->bytes + addr->dev_length));
}

/* Such a process could not answer: UCP may offer it no other transport. */
START_TEST(process_without_places_reaches_none_but_its_senders)
{
    muct_xgmi_iface_addr_t addr;
    peer_t sender, other, silent;
    unsigned empty = 0, i;
    muct_xgmi_box_t *box;

    peer_start(&sender);
    peer_start(&other);
    setenv("UCX_MORI_XGMI_MESSAGES", "n", 1);
    peer_start(&silent);
    unsetenv("UCX_MORI_XGMI_MESSAGES");
    am_open_side();
    box = xgmi_inside_inbox(am_side.iface)->box;
    addr = am_iface_of(&sender.words.addr);
    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&box->places[i].owner, addr.owner);
        atomic_store(&box->places[i].bell_slot, addr.id.slot);
        atomic_store(&box->places[i].bell_generation, addr.id.generation);
    }
    /* the places look in use without a sender */
    am_expect_reachable(&other.words.addr);
    atomic_store(&box->num_used, MUCT_XGMI_BOX_RINGS);
    am_expect_reachable(&sender.words.addr);
    am_expect_reachable(&silent.words.addr); /* it will send nothing */
    ucs_log_push_handler(count_warnings);
    num_warnings = 0;
    am_expect_unreachable(&other.words.addr, "1024 senders");
    am_expect_unreachable(&other.words.addr, "1024 senders");
    ck_assert_uint_eq(num_warnings, 1);
    ucs_log_pop_handler();
    peer_end(&sender, true);
    while (!is_reachable(&other.words.addr)) { /* as the places of the dead are free */
        mkv_test_pause(&empty);
    }
    peer_end(&silent, false); /* it has the pipes of the others */
    peer_end(&other, false);
}
END_TEST

/* All senders are examined for a peer without a place, but not with each call. A thread
 * may be stopped for longer than a refusal is valid, but not each time. */
START_TEST(refusal_is_remembered_for_a_while)
{
    bool is_remembered = false;
    muct_xgmi_iface_addr_t addr;
    muct_xgmi_box_place_t *place;
    muct_xgmi_box_t *box;
    unsigned i;
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    box = xgmi_inside_inbox(am_side.iface)->box;
    addr = am_iface_of(&peer.words.addr);
    place = &box->places[0];
    for (i = 0; i < MUCT_XGMI_BOX_RINGS; ++i) {
        atomic_store(&box->places[i].ring.is_broken, 1);
    }
    atomic_store(&place->bell_slot, addr.id.slot);
    atomic_store(&place->bell_generation, addr.id.generation);
    for (i = 0; (i < 20) && !is_remembered; ++i) {
        atomic_store(&box->num_used, MUCT_XGMI_BOX_RINGS);
        ck_assert(!is_reachable(&peer.words.addr));
        atomic_store(&place->owner, addr.owner); /* a sender is reachable at once */
        atomic_store(&place->ring.is_broken, 0);
        ck_assert(is_reachable(&peer.words.addr));
        atomic_store(&place->ring.is_broken, 1);
        atomic_store(&box->num_used, 0);
        is_remembered = !is_reachable(&peer.words.addr);
    }
    ck_assert(is_remembered);
    i = 0;
    while (!is_reachable(&peer.words.addr)) {
        mkv_test_pause(&i);
    }
    peer_end(&peer, false);
}
END_TEST

static unsigned num_boxes_mapped(void)
{
    return mkv_test_num_mapped(MUCT_XGMI_BOX_SUFFIX);
}

/* XM-05 */
START_TEST(held_place_goes_with_the_endpoint_to_the_dead)
{
    unsigned count;
    peer_t peer;

    peer_start(&peer);
    am_open_side();
    count = num_boxes_mapped();
    am_expect_reachable(&peer.words.addr);
    ck_assert_uint_gt(num_boxes_mapped(), count);
    peer_end(&peer, true);
    am_ep = am_connect_to(&peer.words.addr);
    ck_assert_uint_eq(num_boxes_mapped(), count);
    am_expect_failed(UCS_ERR_CONNECTION_RESET);
}
END_TEST


/* ---- many ---- */

#define MANY_LENGTH 64 /* bytes from each */
#define MAX_MANY 256

/* Memory of all processes */
typedef struct many {
    unsigned num;
    atomic_uint num_ready, num_done, num_over;
    words_t words[MAX_MANY];
} many_t;

static ucs_status_t count_message(void *arg, void *data, size_t length, unsigned flags)
{
    (void)data, (void)length, (void)flags;
    ++*(unsigned *)arg;
    return UCS_OK;
}

/* All of them come here before one goes on. */
static void meet_many(const many_t *many, atomic_uint *count)
{
    atomic_fetch_add(count, 1);
    while (atomic_load(count) < many->num) {
        (void)ct_side_progress(&am_side);
    }
}

static void count_put(uct_completion_t *comp)
{
    ++ucs_container_of(comp, am_comp_t, uct)->num_calls;
}

static uct_ep_h send_and_put(const words_t *to, unsigned index, const ct_mem_t *from)
{
    const uct_iov_t iov = {
        .buffer = from->addr, .length = MANY_LENGTH, .memh = from->memh, .count = 1};
    am_comp_t comp = {.uct = {.func = count_put, .count = 1}};
    uint64_t place = to->memory + ((uint64_t)index * MANY_LENGTH);
    uct_ep_h ep = am_connect_to(&to->addr);
    uct_rkey_bundle_t rkey;
    ucs_status_t status;

    ck_assert_int_eq(am_send_one(ep, index), UCS_OK);
    ck_assert_int_eq(uct_rkey_unpack(am_side.component, to->key, &rkey), UCS_OK);
    while ((status = uct_ep_put_zcopy(ep, &iov, 1, place, rkey.rkey, &comp.uct)) ==
           UCS_ERR_NO_RESOURCE) {
        (void)ct_side_progress(&am_side);
    }
    ck_assert_int_eq(status, UCS_INPROGRESS);
    while (comp.num_calls == 0) {
        (void)ct_side_progress(&am_side);
    }
    ck_assert_int_eq(comp.uct.status, UCS_OK);
    uct_rkey_release(am_side.component, &rkey);
    return ep;
}

static void be_one_of_many(many_t *many, unsigned index)
{
    uct_ep_h eps[MAX_MANY];
    ct_mem_t memory, from;
    unsigned i, k, num_come = 0;

    am_open_side();
    ck_assert_int_eq(
        uct_iface_set_am_handler(am_side.iface, AM_ID, count_message, &num_come, 0),
        UCS_OK);
    ck_assert_int_eq(ct_mem_create(&am_side, (size_t)many->num * MANY_LENGTH,
                                   UCS_MEMORY_TYPE_ROCM, &memory),
                     UCS_OK);
    ck_assert_int_eq(ct_mem_create(&am_side, MANY_LENGTH, UCS_MEMORY_TYPE_ROCM, &from),
                     UCS_OK);
    ck_assert(ct_mem_fill(&from, 0, MANY_LENGTH, index, 0));
    ck_assert_int_eq(ct_mem_pack(&am_side, &memory, 0, many->words[index].key), UCS_OK);
    am_get_addr(&am_side, &many->words[index].addr);
    many->words[index].memory = (uintptr_t)memory.addr;
    meet_many(many, &many->num_ready);

    for (i = 0; i < many->num; ++i) { /* not all at one of them */
        k = (index + i) % many->num;
        eps[k] = send_and_put(&many->words[k], index, &from);
    }
    while (num_come < many->num) {
        (void)ct_side_progress(&am_side);
    }
    meet_many(many, &many->num_done);
    for (i = 0; i < many->num; ++i) {
        ck_assert_uint_eq(
            ct_mem_check(&memory, (size_t)i * MANY_LENGTH, MANY_LENGTH, i, 0),
            MANY_LENGTH);
        uct_ep_destroy(eps[i]);
    }
    meet_many(many, &many->num_over);
    ck_assert_uint_eq(am_side.events.num_ep_errors, 0);
    ct_mem_destroy(&am_side, &from);
    ct_mem_destroy(&am_side, &memory);
    ct_side_close(&am_side);
    _exit(0);
}

/* Nightly more than the 64 bits of a word, as a mask of users has; else a few. */
START_TEST(processes_that_all_send_and_put_to_each_other)
{
    many_t *many = mmap(NULL, sizeof(*many), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *num = getenv("MKV_TEST_MANY");
    int status, failed = 0;
    pid_t pids[MAX_MANY];
    unsigned i;

    ck_assert_ptr_ne(many, MAP_FAILED);
    many->num = (num != NULL) ? (unsigned)atoi(num)
                              : ((getenv("MKV_TEST_NIGHTLY") != NULL) ? 70 : 6);
    for (i = 0; i < many->num; ++i) {
        pids[i] = fork();
        if (pids[i] == 0) {
            be_one_of_many(many, i);
        }
        ck_assert_int_gt(pids[i], 0);
    }
    for (i = 0; i < many->num; ++i) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        failed += (status != 0);
    }
    ck_assert_int_eq(failed, 0);
    am_open_side();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_am_peer");
    TCase *tcase = tcase_create("peers");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    xgmi_inside_register();
    mkv_test_init();
    tcase_set_timeout(tcase, mkv_test_limit_ms() / 1000.0);
    tcase_add_checked_fixture(tcase, am_setup_dir, am_teardown);
    tcase_add_loop_test(tcase, endpoint_to_a_dead_process_fails, 0, 4);
    tcase_add_test(tcase, endpoint_to_the_dead_is_destroyed_untold);
    tcase_add_test(tcase, a_removed_box_of_a_dead_process_is_reported_as_death);
    tcase_add_loop_test(tcase, memory_of_the_dead_goes_with_the_endpoint, 0, 8);
    tcase_add_test(tcase, memory_goes_with_the_last_endpoint);
    tcase_add_test(tcase, endpoint_that_a_forked_child_destroys_is_watched_on);
    tcase_add_test(tcase, death_of_a_full_receiver_is_reported);
    tcase_add_test(tcase, peer_of_another_folder_is_not_reached);
    tcase_add_test(tcase, key_of_a_process_with_all_users_is_not_reachable);
    tcase_add_test(tcase, process_without_places_reaches_none_but_its_senders);
    tcase_add_test(tcase, refusal_is_remembered_for_a_while);
    tcase_add_test(tcase, held_place_goes_with_the_endpoint_to_the_dead);
    tcase_add_test(tcase, processes_that_all_send_and_put_to_each_other);
    tcase_add_test(tcase, peer_of_another_user_is_not_reached);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
