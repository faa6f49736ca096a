/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

/*
 * UCX's log at level data. It has a line for each operation, and one for each message
 * sent and received, with the text of the user's tracer.
 */

#define SIZE 65536
#define LENGTH 512

static rig_t rig;
static rig_conn_t conn;
static unsigned num_traced[2]; /* of those sent and received */
static unsigned num_told[2];   /* with the tracer's text in the line */
static unsigned num_puts, num_gets;

static void trace(void *arg, uct_am_trace_type_t type, uint8_t id, const void *data,
                  size_t length, char *text, size_t max)
{
    ck_assert_ptr_eq(arg, &rig);
    ck_assert_uint_eq(id, RIG_AM_ID);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_ge(length, sizeof(uint64_t));
    num_traced[type == UCT_AM_TRACE_TYPE_RECV]++;
    snprintf(text, max, "traced %zu", length);
}

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t look_at_line(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    char text[1024];
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (level != UCS_LOG_LEVEL_TRACE_DATA) {
        return UCS_LOG_FUNC_RC_STOP;
    }
    va_copy(copy, ap);
    vsnprintf(text, sizeof(text), format, copy);
    va_end(copy);
    num_told[0] += (strstr(text, "send message") && strstr(text, "traced")) ? 1 : 0;
    num_told[1] += (strstr(text, "receive message") && strstr(text, "traced")) ? 1 : 0;
    num_puts += strncmp(text, "put ", 4) == 0;
    num_gets += strncmp(text, "get ", 4) == 0;
    return UCS_LOG_FUNC_RC_STOP;
}

static size_t pack_number(void *dest, void *arg)
{
    memset(dest, 0, LENGTH);
    memcpy(dest, arg, sizeof(uint64_t));
    return LENGTH;
}

/* A message by each call there is */
static void send_messages(void)
{
    uint64_t number[2] = {0, 0};
    uct_iov_t iov = {
        .buffer = rig.mem[0].addr, .length = 64, .memh = rig.mem[0].memh, .count = 1};
    rig_comp_t comp;

    rig_comp_init(&comp);
    ck_assert_int_eq(uct_ep_am_short(conn.ep[0], RIG_AM_ID, 0, number, 8), UCS_OK);
    ck_assert_int_eq(uct_ep_am_bcopy(conn.ep[0], RIG_AM_ID, pack_number, number, 0),
                     LENGTH);
    ck_assert_int_eq(uct_ep_am_zcopy(conn.ep[0], RIG_AM_ID, number, sizeof(number),
                                     &iov, 1, 0, &comp.uct),
                     UCS_INPROGRESS);
    while (rig.num_am[1] < 3) {
        rig_progress(&rig);
    }
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
}

static void put_and_get(void)
{
    rig_comp_t put, get;

    rig_comp_init(&put);
    rig_comp_init(&get);
    ck_assert(!UCS_STATUS_IS_ERR(rig_put(&rig, conn.ep[0], 0, 0, SIZE, &put)));
    ck_assert(!UCS_STATUS_IS_ERR(rig_get(&rig, conn.ep[0], 0, 0, SIZE, &get)));
    ck_assert_int_eq(rig_flush(&rig, conn.ep[0]), UCS_OK);
}

/* Loop index 1 is the control: at a lower level the tracer is not called. */
/* RT-04 */
START_TEST(each_operation_and_message_is_logged_at_level_data)
{
    const unsigned num = (_i == 0) ? 3 : 0;

    ck_assert_int_eq(
        ucs_global_opts_set_value("LOG_LEVEL", (_i == 0) ? "data" : "warn"), UCS_OK);
    rig_open(&rig, SIZE);
    ck_assert_int_eq(uct_iface_set_am_tracer(rig.side[0].iface, trace, &rig), UCS_OK);
    ck_assert_int_eq(uct_iface_set_am_tracer(rig.side[1].iface, trace, &rig), UCS_OK);
    rig_connect(&rig, &conn);
    ucs_log_push_handler(look_at_line);
    send_messages();
    put_and_get();
    ck_assert_uint_eq(num_traced[0], num);
    ck_assert_uint_eq(num_traced[1], num);
    ck_assert_uint_eq(num_told[0], num);
    ck_assert_uint_eq(num_told[1], num);
    ck_assert_int_eq(num_puts > 0, num > 0);
    ck_assert_int_eq(num_gets > 0, num > 0);
    rig_disconnect(&conn);
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mori_rdma tracing");
    TCase *tcase = tcase_create("tracing");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, each_operation_and_message_is_logged_at_level_data, 0,
                        2);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    return rig_run_forked(suite);
}
