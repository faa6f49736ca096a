/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/fake_verbs.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"
#include "test/fake/verbs/verbs_pair.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The fake between processes. Each has a pair of sides open and uses one of them: the
 * child side 1, the parent side 0.
 */

#define SIZE 4096
#define FAR (VERBS_PAIR_BUFFER / 2)
#define STOPS 100

typedef struct {
    uint32_t qp_num;
    uint32_t rkey;
    uint64_t addr;
} hello_t;

static char wire[64];
static verbs_side_t side[2];

static void wire_setup(void)
{
    snprintf(wire, sizeof(wire), "/tmp/verbs_wire.%d", (int)getpid());
    unlink(wire); /* of a run that was killed */
    setenv("FAKE_VERBS_WIRE", wire, 1);
}

static void shared_setup(void)
{
    wire_setup();
    setenv("FAKE_VERBS_DEVICES", "fake0:mlx5,fake1:mlx5", 1);
    verbs_pair_shared = true;
}

static void wire_teardown(void)
{
    unlink(wire);
}

/* Open, exchange addresses with the other process, and connect side `mine' to it. */
static void meet(int fd, unsigned mine, const verbs_path_t *path, verbs_side_t *peer,
                 struct ibv_qp *peer_qp, struct ibv_mr *peer_mr)
{
    hello_t hello, reply;

    verbs_pair_open(side);
    hello.qp_num = side[mine].qp->qp_num;
    hello.rkey = side[mine].mr->rkey;
    hello.addr = (uintptr_t)side[mine].buffer;
    ck_assert_int_eq(mkv_proc_send(fd, &hello, sizeof(hello)), 0);
    ck_assert_int_eq(mkv_proc_recv(fd, &reply, sizeof(reply), -1), sizeof(reply));

    *peer = side[!mine]; /* its device's address is the same in every process */
    peer_qp->qp_num = reply.qp_num;
    peer_mr->rkey = reply.rkey;
    peer->mr = peer_mr;
    peer->buffer = (void *)(uintptr_t)reply.addr;
    verbs_qp_to_init(side[mine].qp, path->access);
    verbs_qp_to_rtr(side[mine].qp, peer, peer_qp, side[mine].gid_index);
    verbs_qp_to_rts(side[mine].qp, path);
    ck_assert_int_eq(mkv_proc_send(fd, "r", 1), 0);
    ck_assert_int_eq(mkv_proc_recv(fd, &reply, sizeof(reply), -1), 1);
}

static int child_main(int fd, void *arg)
{
    struct pollfd news = {.fd = fd, .events = POLLIN};
    struct ibv_async_event event;
    struct ibv_qp peer_qp;
    struct ibv_mr peer_mr;
    verbs_side_t peer;
    struct ibv_cq *cq;
    void *context;
    char word[16];
    ssize_t length;

    (void)arg;
    meet(fd, 1, &verbs_patient, &peer, &peer_qp, &peer_mr);
    while ((length = mkv_proc_recv(fd, word, sizeof(word), -1)) > 0) {
        switch (word[0]) {
        case 'p': /* post a receive */
            verbs_recv(side[1].qp, &side[1], 5, FAR, SIZE);
            break;
        case 'a': /* ask for an event */
            ibv_req_notify_cq(side[1].recv_cq, 0);
            break;
        case 'e': /* sleep until it comes */
            ck_assert_int_eq(ibv_get_cq_event(side[1].channel, &cq, &context), 0);
            ibv_ack_cq_events(cq, 1);
            verbs_expect(side[1].recv_cq, 5, IBV_WC_SUCCESS);
            break;
        case 'c': /* compare the arrived bytes */
            ck_assert_uint_eq(mkv_pattern_check(side[1].buffer + FAR, SIZE, 1, 0),
                              SIZE);
            break;
        case 's': /* answer */
            ck_assert_int_eq(verbs_post(side[1].qp, &side[1], &peer, IBV_WR_SEND, 6, 0,
                                        0, SIZE, IBV_SEND_SIGNALED),
                             0);
            verbs_expect(side[1].send_cq, 6, IBV_WC_SUCCESS);
            break;
        case 'b': /* be busy until the next word */
            ck_assert_int_eq(mkv_proc_send(fd, "k", 1), 0);
            do {
                ++side[1].buffer[0];
                ck_assert_int_eq(verbs_post(side[1].qp, &side[1], &peer,
                                            IBV_WR_RDMA_WRITE, 7, 0, FAR, SIZE,
                                            IBV_SEND_SIGNALED),
                                 0);
                verbs_expect(side[1].send_cq, 7, IBV_WC_SUCCESS);
            } while (poll(&news, 1, 0) == 0);
            continue;
        case 'w': /* wait for news of the port */
            ck_assert_int_eq(ibv_get_async_event(side[0].context, &event), 0);
            ck_assert_int_eq(event.event_type, IBV_EVENT_PORT_ERR);
            ibv_ack_async_event(&event);
            break;
        default:
            return 1;
        }
        ck_assert_int_eq(mkv_proc_send(fd, "k", 1), 0);
    }

    verbs_pair_close(side);
    return 0;
}

static void send_command(mkv_proc_t *child, const char *word)
{
    ck_assert_int_eq(mkv_proc_send(child->fd, word, 1), 0);
}

static void run_command(mkv_proc_t *child, const char *word)
{
    char answer;

    send_command(child, word);
    ck_assert_int_eq(mkv_proc_recv(child->fd, &answer, 1, -1), 1);
}

typedef struct {
    mkv_proc_t child;
    struct ibv_qp peer_qp;
    struct ibv_mr peer_mr;
    verbs_side_t peer;
} two_t;

static void start(two_t *two, const verbs_path_t *path)
{
    ck_assert_int_eq(mkv_proc_fork(&two->child, child_main, NULL), 0);
    meet(two->child.fd, 0, path, &two->peer, &two->peer_qp, &two->peer_mr);
}

static void end(two_t *two)
{
    close(two->child.fd);
    two->child.fd = -1;
    ck_assert_int_eq(mkv_proc_wait(&two->child), 0);
    ck_assert_int_eq(mkv_proc_exit_status(&two->child), 0);
    verbs_pair_close(side);
}

START_TEST(bytes_reach_the_other_process)
{
    two_t two;

    start(&two, &verbs_patient);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE, 1,
                                0, FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    run_command(&two.child, "c");
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_READ, 2,
                                FAR, 0, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 2, IBV_WC_SUCCESS);
    ck_assert_uint_eq(mkv_pattern_check(side[0].buffer + FAR, SIZE, 2, 0), SIZE);
    end(&two);
}
END_TEST

START_TEST(sender_that_sleeps_goes_on_when_a_receive_is_posted)
{
    struct pollfd pfd = {.events = POLLIN};
    struct ibv_cq *cq;
    void *context;
    two_t two;

    start(&two, &verbs_patient);
    ck_assert_int_eq(ibv_req_notify_cq(side[0].send_cq, 0), 0);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_SEND, 1, 0, 0,
                                SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect_none(side[0].send_cq);
    run_command(&two.child, "a");
    run_command(&two.child, "p");
    pfd.fd = side[0].channel->fd;
    ck_assert_int_eq(poll(&pfd, 1, mkv_test_limit_ms()), 1);
    ck_assert_int_eq(ibv_get_cq_event(side[0].channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    run_command(&two.child, "e");
    run_command(&two.child, "c");

    verbs_recv(side[0].qp, &side[0], 8, FAR, SIZE);
    run_command(&two.child, "s");
    verbs_expect(side[0].recv_cq, 8, IBV_WC_SUCCESS);
    ck_assert_uint_eq(mkv_pattern_check(side[0].buffer + FAR, SIZE, 2, 0), SIZE);
    end(&two);
}
END_TEST

START_TEST(stopped_process_is_still_written_to)
{
    two_t two;

    start(&two, &verbs_patient);
    mkv_proc_kill(&two.child, SIGSTOP);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE, 1,
                                0, FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
    mkv_proc_kill(&two.child, SIGCONT);
    run_command(&two.child, "c");
    end(&two);
}
END_TEST

/* Wherever it is stopped, be it inside the fake */
START_TEST(process_stopped_in_a_call_blocks_no_other)
{
    volatile uint8_t *last;
    siginfo_t info;
    unsigned round;
    two_t two;
    uint8_t seen;

    start(&two, &verbs_patient);
    last = side[0].buffer + FAR;
    run_command(&two.child, "b");
    for (round = 0; round < STOPS; ++round) {
        mkv_proc_kill(&two.child, SIGSTOP);
        ck_assert_int_eq(waitid(P_PID, (id_t)two.child.pid, &info, WSTOPPED | WNOWAIT),
                         0);
        ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE,
                                    1, 0, FAR, SIZE, IBV_SEND_SIGNALED),
                         0);
        verbs_expect(side[0].send_cq, 1, IBV_WC_SUCCESS);
        ck_assert_int_eq(waitid(P_PID, (id_t)two.child.pid, &info, WSTOPPED | WNOWAIT),
                         0);
        seen = *last;
        mkv_proc_kill(&two.child, SIGCONT);
        while (*last == seen) { /* it has gone on */
        }
    }
    run_command(&two.child, "c");
    end(&two);
}
END_TEST

START_TEST(killed_process_does_not_answer)
{
    two_t two;

    start(&two, &verbs_hasty);
    mkv_proc_kill(&two.child, SIGKILL);
    ck_assert_int_eq(mkv_proc_wait(&two.child), 0);
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE, 1,
                                0, FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    mkv_proc_cleanup(&two.child);
    verbs_pair_close(side);
}
END_TEST

START_TEST(error_of_one_process_is_seen_by_both)
{
    two_t two;

    start(&two, &verbs_patient);
    two.peer_mr.rkey ^= 0x5a00;
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE, 1,
                                0, FAR, SIZE, 0),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_REM_ACCESS_ERR);
    ck_assert_int_eq(fake_verbs_qp_state(two.peer_qp.qp_num), IBV_QPS_ERR);
    end(&two);
}
END_TEST

START_TEST(link_down_is_an_event_in_every_process)
{
    two_t two;

    start(&two, &verbs_hasty);
    fake_verbs_link("fake0", 0);
    run_command(&two.child, "w");
    ck_assert_int_eq(verbs_post(side[0].qp, &side[0], &two.peer, IBV_WR_RDMA_WRITE, 1,
                                0, FAR, SIZE, IBV_SEND_SIGNALED),
                     0);
    verbs_expect(side[0].send_cq, 1, IBV_WC_RETRY_EXC_ERR);
    fake_verbs_link("fake0", 1);
    end(&two);
}
END_TEST

static Suite *wire_suite(void)
{
    Suite *suite = suite_create("fake verbs, two processes");
    TCase *tcase = tcase_create("wire");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, wire_setup, wire_teardown);
    tcase_add_test(tcase, bytes_reach_the_other_process);
    tcase_add_test(tcase, sender_that_sleeps_goes_on_when_a_receive_is_posted);
    tcase_add_test(tcase, stopped_process_is_still_written_to);
    tcase_add_test(tcase, process_stopped_in_a_call_blocks_no_other);
    tcase_add_test(tcase, killed_process_does_not_answer);
    tcase_add_test(tcase, error_of_one_process_is_seen_by_both);
    tcase_add_test(tcase, link_down_is_an_event_in_every_process);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("shared receives");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, shared_setup, wire_teardown);
    tcase_add_test(tcase, sender_that_sleeps_goes_on_when_a_receive_is_posted);
    tcase_add_test(tcase, killed_process_does_not_answer);
    tcase_add_test(tcase, error_of_one_process_is_seen_by_both);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    mkv_test_init();
    return mkv_check_run_forked(wire_suite());
}
