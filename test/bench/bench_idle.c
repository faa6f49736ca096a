/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A message of 8 bytes from call to handler, beside senders that were quiet for a while
 * or have closed:
 *
 *   test/bench/bench_idle mori_xgmi|posix OTHERS CLOSED
 *
 * Callgrind counts 1000 messages. UCX's posix has one queue for all senders, so it is
 * measured without others.
 *
 * Instructions a message: 522 without others, 610 beside 900, 221 by posix. The scan of
 * 14 more words takes 88. The others are spread over checks of peers, queues and
 * values of the other side, lines fetched ahead, and a ring for each sender.
 */

#include "perf/bench/bench_callgrind.h"
#include "test/conformance/ct_target.h"
#include "test/unit/xgmi/xgmi_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID 1
#define ROUNDS 1000
#define WARMUP 2000 /* messages after which a quiet sender is no longer read */

static ct_side_t sender, receiver;
static uint64_t num_come;

static void must(const char *what, ucs_status_t status)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s %s\n", what, ucs_status_string(status), receiver.why);
        exit(1);
    }
}

static ucs_status_t count(void *arg, void *data, size_t length, unsigned flags)
{
    (void)arg, (void)data, (void)length, (void)flags;
    ++num_come;
    return UCS_OK;
}

static void receive(uint64_t expected)
{
    while (num_come < expected) {
        (void)uct_iface_progress(receiver.iface);
    }
}

/* A sender of one message. */
static muct_xgmi_outbox_t *add_sender(void)
{
    const muct_xgmi_inbox_t *inbox = xgmi_inside_inbox(receiver.iface);
    const char *dir = muct_xgmi_self_dir();
    muct_xgmi_outbox_t *outbox;

    must("claim", muct_xgmi_outbox_claim(dir, inbox->owner, inbox->id, inbox->owner,
                                         inbox->id, false, &outbox));
    must("begin", muct_xgmi_outbox_begin(outbox, dir));
    memset(muct_xgmi_ring_reserve(&outbox->ring, 8), 0, 8);
    muct_xgmi_outbox_commit(outbox, ID, 8);
    receive(num_come + 1);
    return outbox;
}

static void send_many(uct_ep_h ep, unsigned rounds)
{
    for (; rounds > 0; --rounds) {
        must("send", uct_ep_am_short(ep, ID, rounds, NULL, 0));
        receive(num_come + 1);
    }
}

int main(int argc, char **argv)
{
    ct_target_name_t name = {.tl_name = (argc == 4) ? argv[1] : ""};
    muct_xgmi_outbox_t *others[MUCT_XGMI_BOX_RINGS];
    int i, num_others, num_closed;
    ct_addr_t addr;
    uct_ep_h ep;

    if (argc != 4) {
        fprintf(stderr, "usage: bench_idle mori_xgmi|posix OTHERS CLOSED\n");
        return 2;
    }
    num_others = atoi(argv[2]);
    num_closed = atoi(argv[3]);
    if ((num_others >= MUCT_XGMI_BOX_RINGS) || (num_closed > num_others)) {
        fprintf(stderr, "bench_idle: expected less than %d others, %s at most closed\n",
                MUCT_XGMI_BOX_RINGS, argv[2]);
        return 2;
    }
    xgmi_inside_register();
    must("receiver", ct_side_open(&receiver, &name));
    must("sender", ct_side_open_beside(&sender, &name, &receiver));
    must("handler", uct_iface_set_am_handler(receiver.iface, ID, count, NULL, 0));
    must("address", ct_addr_get(&receiver, NULL, &addr));
    must("endpoint", ct_ep_create(&sender, &addr, &ep));

    for (i = 0; i < num_others; ++i) {
        others[i] = add_sender();
    }
    for (i = 0; i < num_closed; ++i) {
        muct_xgmi_outbox_close(others[i]);
    }
    send_many(ep, WARMUP);
    CALLGRIND_TOGGLE_COLLECT;
    send_many(ep, ROUNDS);
    CALLGRIND_TOGGLE_COLLECT;
    return 0;
}
