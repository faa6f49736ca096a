/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TEST_XGMI_ENDS_HERE_H
#define TEST_XGMI_ENDS_HERE_H

/**
 * @file
 * Sender and receiver of messages in one process, for the one program that includes it:
 * the inbox of an interface in a folder of its own, senders to it, and the received
 * messages.
 */

#include "test/support/mkv_check.h"
#include "xgmi/message/xgmi_inbox.h"
#include "xgmi/message/xgmi_outbox.h"
#include "xgmi/peer/xgmi_page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#define MAX_GOT 4096
#define AT_ONCE 16
#define FIRST 5 /* senders that find room whatever happens */


static const muct_xgmi_iface_id_t id = {.slot = 3, .generation = 5};
static const muct_xgmi_iface_id_t sender_id = {.slot = 4, .generation = 7};

static char dir[] = "/tmp/test_xgmi_ends.XXXXXX";
static muct_xgmi_self_t self;
static muct_xgmi_inbox_t *inbox;
static uint64_t got[MAX_GOT];
static unsigned num_got, num_errors;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_errors(
    const char *file, unsigned number, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list args)
{
    (void)file, (void)number, (void)function, (void)component, (void)format, (void)args;
    num_errors += (level <= UCS_LOG_LEVEL_ERROR);
    return UCS_LOG_FUNC_RC_STOP;
}

static void setup(void)
{
    ucs_log_push_handler(count_errors);
    num_got = num_errors = 0;
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_inbox_create(dir, self.owner, id, &inbox), UCS_OK);
}

static void teardown(void)
{
    char command[64];

    if (inbox != NULL) {
        muct_xgmi_inbox_destroy(inbox);
    }
    muct_xgmi_self_close();
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    ucs_log_pop_handler();
}

static unsigned num_open(void)
{
    return mkv_test_num_files("/proc/self/fd");
}

static unsigned num_mapped(void)
{
    return mkv_test_num_mapped(dir);
}

static ucs_status_t try_open(uint64_t owner, muct_xgmi_outbox_t **outbox_p)
{
    ucs_status_t status;

    status =
        muct_xgmi_outbox_claim(dir, self.owner, id, owner, sender_id, false, outbox_p);
    if (status == UCS_OK) {
        status = muct_xgmi_outbox_begin(*outbox_p, dir);
        if (status != UCS_OK) {
            muct_xgmi_outbox_close(*outbox_p);
        }
    }
    return status;
}

static muct_xgmi_outbox_t *open_as(uint64_t owner)
{
    muct_xgmi_outbox_t *outbox = NULL;

    ck_assert_int_eq(try_open(owner, &outbox), UCS_OK);
    return outbox;
}

static unsigned place_of(const muct_xgmi_outbox_t *outbox)
{
    return (unsigned)(outbox->place - outbox->box->places);
}

/* @return Whether there was room. */
static bool send_length(muct_xgmi_outbox_t *outbox, uint64_t number, size_t length)
{
    void *data = muct_xgmi_ring_reserve(&outbox->ring, length);

    if (data == NULL) {
        return false;
    }

    memset(data, 0, length);
    memcpy(data, &number, sizeof(number));
    muct_xgmi_outbox_commit(outbox, (uint8_t)(number % 32), length);
    return true;
}

static void send_one(muct_xgmi_outbox_t *outbox, uint64_t number)
{
    MKV_REQUIRE(send_length(outbox, number, sizeof(number)), "no room");
}

static void keep(void *arg, const muct_xgmi_ring_message_t *message)
{
    uint64_t number;

    (void)arg;
    memcpy(&number, message->data, sizeof(number));
    MKV_REQUIRE(message->id == number % 32, "message %u of %u bytes", message->id,
                message->length);
    MKV_REQUIRE(num_got < MAX_GOT, "more messages than were sent");
    got[num_got++] = number;
}

static unsigned poll_some(unsigned max)
{
    unsigned count = num_got;

    ck_assert_uint_eq(muct_xgmi_inbox_poll(inbox, max, keep, NULL), num_got - count);
    return num_got - count;
}

static void poll_all(void)
{
    while (muct_xgmi_inbox_has(inbox)) {
        (void)poll_some(AT_ONCE);
    }
}

#endif
