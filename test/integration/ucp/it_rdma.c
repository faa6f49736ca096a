/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * mori_rdma under an unmodified UCX, between two processes: on the fake libibverbs,
 * and, with MKV_RDMA_LAB set, on soft-RoCE (test/vm/jobs). Server on the even devices,
 * client on the odd ones; both are the small UCP application with host memory.
 */

#include "test/integration/ucp/it_run.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IT_TLS "mori_rdma,tcp"
#define IT_START "mem=host alloc=8388608 connect unpack "

/* A function of the laboratory; sh drops those of its environment. */
#define IT_LAB "bash -c '. \"$VM_TREE/test/vm/guest.sh\" && "

/* Short retries detect a dead peer soon. The fake and soft-RoCE lose nothing by
 * themselves, but a processor that stands still breaks a connection. */
#define IT_RETRIES                                                                     \
    "UCX_MORI_RDMA_TIMEOUT=5ms", "UCX_MORI_RDMA_RETRY_COUNT=3",                        \
        "UCX_MORI_RDMA_RECOVERY=100"
/* Short enough for a test, and longer than the pauses of an emulated or busy machine:
 * operations after an outage must not fail. */
#define IT_HASTY IT_RETRIES, "UCX_MORI_RDMA_RECOVERY_TIMEOUT=2s"

static const char *const it_no_env[] = {NULL};
static const char *const it_hasty[] = {IT_HASTY, NULL};

/* The retries are as short, but the connection is made anew for far longer. */
static const char *const it_tenacious[] = {
    IT_RETRIES, "UCX_MORI_RDMA_RECOVERY_TIMEOUT=60s",
    "UCX_MORI_RDMA_PORT_DOWN_TIMEOUT=60s", "UCX_LOG_LEVEL=info", NULL};

static const char *const it_two_tenacious[] = {"UCX_MAX_RMA_RAILS=2",
                                               "UCX_MAX_RNDV_RAILS=2",
                                               IT_RETRIES,
                                               "UCX_MORI_RDMA_RECOVERY_TIMEOUT=60s",
                                               "UCX_MORI_RDMA_PORT_DOWN_TIMEOUT=60s",
                                               "UCX_LOG_LEVEL=info",
                                               NULL};

static char it_wire[64];

static int it_is_lab(void)
{
    return getenv("MKV_RDMA_LAB") != NULL;
}

static void it_set_command(const char *name, const char *lab, const char *fake)
{
    char text[PATH_MAX + 128];

    if (it_is_lab()) {
        setenv(name, lab, 1);
        return;
    }

    snprintf(text, sizeof(text), "%s %s", it_build_path("test/fake/verbs/verbs_ctl"),
             fake);
    setenv(name, text, 1);
}

/* Commands by which the action run=NAME changes the network. */
static void it_set_commands(void)
{
    it_set_command("IT_LOSE", "tc qdisc replace dev v0 root netem loss 100%",
                   "lose fake0 on");
    it_set_command("IT_HEAL", "tc qdisc del dev v0 root", "lose fake0 off");
    it_set_command("IT_DOWN", "ip link set v0 down", "link fake0 down");
    it_set_command("IT_UP", IT_LAB "vm_link_up 0'", "link fake0 up");
    it_set_command("IT_MOVE", IT_LAB "vm_address_move 0'", "");
}

static void it_setup(void)
{
    if (!it_is_lab()) {
        snprintf(it_wire, sizeof(it_wire), "/tmp/it_rdma.%d", (int)getpid());
        setenv("FAKE_VERBS_WIRE", it_wire, 1);
    }
}

static void it_teardown(void)
{
    if (!it_is_lab()) {
        unlink(it_wire);
    } else if (system(IT_LAB "vm_restore'") != 0) { /* after a failed case, too */
        fprintf(stderr, "it_rdma: the network could not be restored\n");
    }
}

/* Run the application: one rail, or two. */
static it_pair_t it_run_rails(unsigned rails, const char *const *env,
                              const char *actions)
{
    const char *dev = it_is_lab() ? "rxe" : "fake";
    const char *list[IT_MAX_ENV], *client[2];
    char server_devices[64], client_devices[64];
    size_t count = 0;

    snprintf(server_devices, sizeof(server_devices), "UCX_NET_DEVICES=%s0:1%s%s,lo",
             dev, (rails == 2) ? "," : "",
             (rails == 2) ? (it_is_lab() ? "rxe2:1" : "fake2:1") : "");
    snprintf(client_devices, sizeof(client_devices), "UCX_NET_DEVICES=%s1:1%s%s,lo",
             dev, (rails == 2) ? "," : "",
             (rails == 2) ? (it_is_lab() ? "rxe3:1" : "fake3:1") : "");
    list[count++] = server_devices;
    for (; *env != NULL; env++) {
        list[count++] = *env;
    }
    list[count] = NULL;
    client[0] = client_devices;
    client[1] = NULL;
    return it_run_app(IT_TLS, list, client, actions);
}

static it_pair_t it_rdma(const char *const *env, const char *actions)
{
    return it_run_rails(1, env, actions);
}

static void it_expect_survived(const it_pair_t *pair)
{
    it_expect(&pair->client, "client done");
    it_expect_status(&pair->client, 0);
    it_expect_no(&pair->client, "WRONG");
    it_expect_no(&pair->client, "hang:");
    it_expect_no(&pair->client, "AddressSanitizer");
}

/* UCX's tcp closes the socket when its peer has closed the connection, and may read
 * from it once more (uct_tcp_ep_handle_io_err() in tcp_ep.c). It logs an error that is
 * harmless. */
static void it_drop_late_recv(const it_result_t *result)
{
    char *found, *begin, *end;

    while ((found = strstr(result->output, "recv(-1) failed")) != NULL) {
        for (begin = found; (begin > result->output) && (begin[-1] != '\n'); --begin) {
        }
        end = found + strcspn(found, "\n");
        end += (*end == '\n');
        memmove(begin, end, strlen(end) + 1);
    }
}

static void it_expect_clean(const it_pair_t *pair)
{
    it_drop_late_recv(&pair->client);
    it_drop_late_recv(&pair->server);
    it_expect_survived(pair);
    it_expect_status(&pair->server, 0);
    it_expect_no(&pair->client, "error ");
    it_expect_no(&pair->client, "ERROR");
    it_expect_no(&pair->server, "ERROR");
}

/* ---- without faults ---- */

START_TEST(ucp_takes_it_for_one_sided_operations)
{
    static const char *const env[] = {"UCX_PROTO_INFO=y", NULL};
    it_pair_t pair = it_rdma(env, IT_START "put=100000 get=100000 close");

    it_expect_clean(&pair);
    it_expect(&pair.client, "mori_rdma/");
    it_pair_free(&pair);
}
END_TEST

static const char *const it_lengths[] = {
    IT_START "put=1 get=1 put=8 get=8 put=100 get=100 put=4095 get=4097 close",
    IT_START "put=65536 get=65536 put=100001 get=100003 close",
    IT_START "put=8388608 get=8388608 close",
    IT_START "put=64,3000 get=64,3000 put=4096,500 get=4096,500 close",
    IT_START "connect unpack put=8 close connect unpack put=100000 get=8 close",
};

START_TEST(bytes_arrive)
{
    it_pair_t pair = it_rdma(it_no_env, it_lengths[_i]);

    it_expect_clean(&pair);
    it_pair_free(&pair);
}
END_TEST

static const char *const it_settings[][4] = {
    {"UCX_MORI_RDMA_NUM_QPS=4", NULL},
    {"UCX_MORI_RDMA_POST_BATCH=1", NULL},
    {"UCX_MORI_RDMA_TX_DEPTH=16", "UCX_MORI_RDMA_RX_DEPTH=4", NULL},
    {"UCX_MORI_RDMA_NUM_QPS=3", "UCX_MORI_RDMA_TX_DEPTH=16",
     "UCX_MORI_RDMA_STRIPE_SIZE=4k", NULL},
    {"UCX_MORI_RDMA_TX_MAX_SGE=1", "UCX_MORI_RDMA_TX_INLINE=0", NULL},
    {"UCX_MORI_RDMA_PATH_MTU=256", NULL},
    {"UCX_MORI_RDMA_TX_DEPTH=1000000", NULL}, /* clamped, with one warning */
};

/* Settings that have an effect in the kernel */
static const int it_lab_settings[] = {0, 3, 5, 6};

/* CF-06 */
START_TEST(settings_change_speed_and_not_bytes)
{
    /* more would take seconds on an emulated processor, and prove nothing more */
    const char *actions =
        it_is_lab() ? IT_START "put=64,500 get=64,500 put=1048576 get=100000 close"
                    : IT_START "put=64,2000 get=64,2000 put=8388608 get=1000000 close";
    it_pair_t pair =
        it_rdma(it_settings[it_is_lab() ? it_lab_settings[_i] : _i], actions);

    it_expect_clean(&pair);
    it_pair_free(&pair);
}
END_TEST

/* Bytes that left a device, as the device counts them. */
static uint64_t it_sent(unsigned number)
{
    char path[PATH_MAX], name[16];
    const char *argv[] = {path, "bytes", name, NULL};
    const char *const cat[] = {"cat", path, NULL};
    it_result_t result;
    uint64_t bytes;
    char *end;

    if (it_is_lab()) {
        snprintf(path, sizeof(path), "/sys/class/net/v%u/statistics/tx_bytes", number);
        result = it_run(cat, NULL);
    } else {
        snprintf(path, sizeof(path), "%s", it_build_path("test/fake/verbs/verbs_ctl"));
        snprintf(name, sizeof(name), "fake%u", number);
        result = it_run(argv, NULL);
    }
    it_expect_status(&result, 0);
    bytes = strtoull(result.output, &end, 10);
    ck_assert_msg((end != result.output) && ((*end == ' ') || (*end == '\n')),
                  "a count of bytes instead of '%s'", result.output);
    it_result_free(&result);
    return bytes;
}

START_TEST(two_rails_share_the_bytes)
{
    static const char *const env[] = {"UCX_MAX_RMA_RAILS=2", "UCX_MAX_RNDV_RAILS=2",
                                      NULL};
    const uint64_t before[2] = {it_sent(1), it_sent(3)};
    it_pair_t pair = it_run_rails(2, env, IT_START "put=8388608 close");
    const uint64_t sent[2] = {it_sent(1) - before[0], it_sent(3) - before[1]};

    it_expect_clean(&pair);
    ck_assert_msg((sent[0] > 2500000) && (sent[1] > 2500000) &&
                      (sent[0] + sent[1] >= 8388608),
                  "%" PRIu64 " and %" PRIu64 " bytes", sent[0], sent[1]);
    it_pair_free(&pair);
}
END_TEST

/* Count the bytes sent by each of four devices of the fake, where GPU memory is
 * libhipcpu's */
#define IT_NUM_NICS 4

static it_pair_t it_count_sent(const char *tls, const char *const *env,
                               const char *const *client, const char *actions,
                               uint64_t *sent)
{
    uint64_t before[IT_NUM_NICS];
    it_pair_t pair;
    unsigned i;

    for (i = 0; i < IT_NUM_NICS; ++i) {
        before[i] = it_sent(i);
    }
    pair = it_run_app(tls, env, client, actions);
    for (i = 0; i < IT_NUM_NICS; ++i) {
        sent[i] = it_sent(i) - before[i];
    }
    return pair;
}

/* Loop index: memory of the host, of a GPU */
/* CF-10 */
START_TEST(devices_that_are_not_named_carry_nothing)
{
    static const char *const server[] = {"UCX_NET_DEVICES=fake2:1,lo", NULL};
    static const char *const client[] = {"UCX_NET_DEVICES=fake3:1,lo", NULL};
    uint64_t sent[IT_NUM_NICS];
    char actions[128];
    it_pair_t pair;

    snprintf(actions, sizeof(actions),
             "mem=%s alloc=8388608 connect unpack put=8388608 close",
             (_i == 0) ? "host" : "rocm");
    pair = it_count_sent("mori_rdma,mori_copy,tcp", server, client, actions, sent);
    it_expect_clean(&pair);
    ck_assert_msg((sent[0] == 0) && (sent[1] == 0) && (sent[3] >= 8388608),
                  "%" PRIu64 ", %" PRIu64 ", %" PRIu64 " bytes", sent[0], sent[1],
                  sent[3]);
    it_pair_free(&pair);
}
END_TEST

/* UCP's wireup messages use a NIC in any case; with the NIC alone, all bytes do */
/* TR-07 */
START_TEST(gpus_of_one_host_leave_the_nics_alone)
{
    static const char *const tls[] = {"mori_xgmi,mori_rdma,mori_copy,tcp",
                                      "mori_rdma,mori_copy,tcp"};
    const uint64_t bytes = 8388608; /* a device counts its sent bytes: not the get */
    uint64_t sent[IT_NUM_NICS], sum;
    it_pair_t pair = it_count_sent(
        tls[_i], it_no_env, NULL,
        "mem=rocm alloc=8388608 connect unpack put=8388608 get=8388608 close", sent);

    it_expect_clean(&pair);
    sum = sent[0] + sent[1] + sent[2] + sent[3];
    ck_assert_msg((_i == 0) ? (sum < 65536) : (sum >= bytes), "%" PRIu64 " bytes", sum);
    it_pair_free(&pair);
}
END_TEST

/* ---- faults ---- */

static const struct {
    const char *name;
    const char *actions;
    const char *expected;
} it_deaths[] = {
    /* Stopped first, not killed: UCX's tcp does not always survive a refused
     * connection. */
    {"connecting", "mem=host alloc=8388608 kill=19 connect unpack kill=9 fail close",
     "error fail: "},
    {"idle", IT_START "put=8 kill=9 fail close", "error fail: "},
    {"operations_in_flight", IT_START "put=8 post=1000000,50 kill=9 drain fail close",
     "error fail: "},
    {"many_small_in_flight", IT_START "put=8 post=64,3000 kill=9 drain fail close",
     "error fail: "},
    {"during_flush", IT_START "put=8 post=1000000,20 flush kill=9 drain fail close",
     "error fail: "},
    {"close_without_looking", IT_START "put=8 post=1000000,20 kill=9 close", "drain "},
};

/* TR-13 */
START_TEST(death_of_the_peer_is_an_error)
{
    it_pair_t pair = it_rdma(it_hasty, it_deaths[_i].actions);

    it_expect_survived(&pair);
    it_expect(&pair.client, it_deaths[_i].expected);
    it_expect_status(&pair.server, 128 + SIGKILL);
    it_pair_free(&pair);
}
END_TEST

static const char *const it_stops[] = {
    IT_START "put=8 kill=19 kill=18 put=100000 get=100000 close",
    IT_START "put=8 kill=19 post=100000,20 drain kill=18 put=4096 close",
    IT_START "put=8 kill=19 post=1000000,5 flush kill=18 drain get=8 close",
};

START_TEST(stopped_peer_is_still_reached)
{
    it_pair_t pair = it_rdma(it_no_env, it_stops[_i]);

    it_expect_clean(&pair);
    it_pair_free(&pair);
}
END_TEST

static const char *const it_frees[] = {
    IT_START "put=8 free=properly try=100000 close",
    IT_START "put=8 free=properly try=8 close",
    IT_START "put=8 post=1000000,20 free=properly drain close",
};

START_TEST(memory_freed_by_its_owner_is_an_error)
{
    it_pair_t pair = it_rdma(it_hasty, it_frees[_i]);

    it_expect_survived(&pair);
    it_expect_status(&pair.server, 0);
    it_pair_free(&pair);
}
END_TEST

/* The processes survive the outage: a new endpoint has new queue pairs, and works. */
static const struct {
    const char *name;
    const char *actions;
} it_outages[] = {
    {"loss", IT_START "put=8 run=IT_LOSE fail close run=IT_HEAL "
                      "connect unpack put=100000 get=100000 close"},
    {"loss_in_flight",
     IT_START "put=8 run=IT_LOSE post=100000,20 flush drain fail close "
              "run=IT_HEAL connect unpack put=100000 get=100000 close"},
    {"link", IT_START "put=8 run=IT_DOWN fail close run=IT_UP "
                      "connect unpack put=100000 get=100000 close"},
    {"link_in_flight", IT_START "put=8 run=IT_DOWN post=100000,20 drain fail close "
                                "run=IT_UP connect unpack put=100000 get=100000 close"},
    {"twice", IT_START "put=8 run=IT_LOSE fail close run=IT_HEAL connect unpack put=8 "
                       "run=IT_LOSE fail close run=IT_HEAL connect unpack put=8 close"},
};

/* TR-13 */
START_TEST(outage_is_an_error_and_then_over)
{
    it_pair_t pair = it_rdma(it_hasty, it_outages[_i].actions);

    it_expect_survived(&pair);
    it_expect(&pair.client, "error fail: ");
    it_expect(&pair.client, (_i == 4) ? "put 1 x 8 ok" : "get 1 x 100000 ok");
    it_expect_status(&pair.server, 0);
    it_pair_free(&pair);
}
END_TEST

/*
 * Packets that leave the server are lost: the client's requests arrive, the
 * acknowledgements do not. Or the link is down, for far longer than the device retries.
 * The application gets no error: the same operations end well, on a connection made
 * anew.
 */
static const char *const it_pauses[] = {
    IT_START "put=8 run=IT_LOSE post=100000,20 for=5000 run=IT_HEAL drain "
             "put=100000 get=100000 put=64,500 close",
    IT_START "put=8 post=1000000,8 flush run=IT_LOSE for=1000 run=IT_HEAL drain "
             "put=100000 get=100000 close",
    IT_START "put=8 run=IT_DOWN post=100000,20 for=3000 run=IT_UP drain "
             "put=100000 get=100000 put=64,500 close",
    IT_START "put=8 post=64,2000 run=IT_DOWN for=3000 run=IT_UP drain put=100000 close",
};

/* RC-01 */
START_TEST(outage_is_survived)
{
    it_pair_t pair = it_rdma(it_tenacious, it_pauses[_i]);

    /* not clean: the log reports the outage */
    it_expect_survived(&pair);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error fail");
    it_expect_no(&pair.client, "error drain");
    it_expect_no(&pair.client, "ERROR");
    it_expect_no(&pair.server, "ERROR");
    it_expect(&pair.client, " ok 0 failed");
    if (_i % 2 == 0) { /* all of it was posted in the outage */
        it_expect(&pair.client, "work requests posted again");
    }
    it_pair_free(&pair);
}
END_TEST

/*
 * While nothing arrives, the server's address moves to another place of its device's
 * table, and an address that the client does not know takes its place. A new connection
 * starts from the server's address only if mori_rdma searches the table for it.
 */
START_TEST(address_that_moves_is_survived)
{
    it_pair_t pair = it_rdma(it_tenacious, IT_START
                             "put=8 run=IT_LOSE post=100000,20 run=IT_MOVE for=5000 "
                             "run=IT_HEAL drain put=100000 get=100000 close");

    it_expect_survived(&pair);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error drain");
    it_expect_no(&pair.client, "ERROR");
    it_expect(&pair.client, " ok 0 failed");
    it_expect(&pair.client, "work requests posted again");
    it_expect(&pair.server, "its address changed or moved");
    it_pair_free(&pair);
}
END_TEST

/* A rail of two is lost, and does not come back before all has ended over the other. */
static const char *const it_rails_lost[] = {
    IT_START "put=8 run=IT_DOWN post=1000000,8 drain put=8388608 get=100000 put=64,100 "
             "run=IT_UP close",
    IT_START "put=8 run=IT_LOSE post=1000000,8 drain put=8388608 get=100000 put=64,100 "
             "run=IT_HEAL close",
};

/* RC-05 */
START_TEST(rail_is_lost)
{
    it_pair_t pair = it_run_rails(2, it_two_tenacious, it_rails_lost[_i]);

    it_expect_survived(&pair);
    it_expect_status(&pair.server, 0);
    it_expect_no(&pair.client, "error drain");
    it_expect_no(&pair.client, "ERROR");
    it_expect(&pair.client, " ok 0 failed");
    it_expect(&pair.client, " continues on ");
    it_expect(&pair.server, " continues on ");
    it_pair_free(&pair);
}
END_TEST

static const char *const it_losses[] = {"1", "5"};

START_TEST(some_loss_is_only_slower)
{
    char command[128];
    it_pair_t pair;

    if (!it_is_lab()) {
        return; /* the fake loses all or nothing */
    }

    snprintf(command, sizeof(command), "tc qdisc replace dev v0 root netem loss %s%%",
             it_losses[_i]);
    setenv("IT_SOME", command, 1);
    pair = it_rdma(
        it_no_env, IT_START
        "put=8 run=IT_SOME put=100000 get=100000 put=4096,50 run=IT_HEAL close");
    it_expect_clean(&pair);
    it_pair_free(&pair);
}
END_TEST

/* A close by force while writes are under way, of the only connection */
START_TEST(connection_that_is_cut_gives_all_back)
{
    static const char *const env[] = {"FAKE_VERBS_MODE=late", "UCX_MORI_RDMA_NUM_QPS=1",
                                      NULL};
    it_pair_t pair = it_rdma(env, IT_START "put=8 post=1000000,20 cut drain");

    it_expect_clean(&pair);
    it_expect(&pair.client, "post 20 in progress");
    it_expect(&pair.client, "drain ");
    it_pair_free(&pair);
}
END_TEST

static Suite *it_suite(void)
{
    Suite *suite = suite_create("mori_rdma under UCP");
    TCase *tcase = tcase_create("rdma");

    tcase_set_timeout(tcase, 240);
    tcase_add_checked_fixture(tcase, it_setup, it_teardown);
    tcase_add_test(tcase, ucp_takes_it_for_one_sided_operations);
    tcase_add_loop_test(tcase, bytes_arrive, 0, 5);
    tcase_add_loop_test(tcase, settings_change_speed_and_not_bytes, 0,
                        it_is_lab() ? 4 : 7);
    tcase_add_test(tcase, two_rails_share_the_bytes);
    if (!it_is_lab()) {
        tcase_add_loop_test(tcase, devices_that_are_not_named_carry_nothing, 0, 2);
        tcase_add_loop_test(tcase, gpus_of_one_host_leave_the_nics_alone, 0, 2);
    }
    tcase_add_loop_test(tcase, death_of_the_peer_is_an_error, 0, 6);
    tcase_add_loop_test(tcase, stopped_peer_is_still_reached, 0, 3);
    tcase_add_test(tcase, connection_that_is_cut_gives_all_back);
    tcase_add_loop_test(tcase, memory_freed_by_its_owner_is_an_error, 0, 3);
    tcase_add_loop_test(tcase, outage_is_an_error_and_then_over, 0, 5);
    tcase_add_loop_test(tcase, some_loss_is_only_slower, 0, 2);
    suite_add_tcase(suite, tcase);

    /* a job of its own in the laboratory */
    tcase = tcase_create("recovery");
    tcase_set_timeout(tcase, 240);
    tcase_add_checked_fixture(tcase, it_setup, it_teardown);
    tcase_add_loop_test(tcase, outage_is_survived, 0, 4);
    if (it_is_lab()) { /* the fake's in test_rdma_reach */
        tcase_add_test(tcase, address_that_moves_is_survived);
    }
    tcase_add_loop_test(tcase, rail_is_lost, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

static void it_use_fake(void)
{
    it_use_libraries("test/fake/verbs/.libs");
    setenv("FAKE_VERBS_DEVICES", "fake0:ionic,fake1:ionic,fake2:ionic,fake3:ionic", 1);
}

int main(void)
{
    mkv_test_init();
    it_init();
    it_set_commands();
    if (!it_is_lab()) {
        it_use_fake();
    }
    if (!it_has_transport("mori_rdma")) {
        return mkv_test_skip("rdma", "it_rdma", "UCX lists no mori_rdma here")
                   ? MKV_TEST_EXIT_FAIL
                   : MKV_TEST_EXIT_SKIP;
    }

    return mkv_check_run(it_suite(), CK_FORK_GETENV, CK_NORMAL);
}
