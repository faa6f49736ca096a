/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Blocks that two transfers would write to at once (option OVERLAP).
 */

#include "test/support/mkv_pair.h"

#include <string.h>

#define NUM 8
#define FIRST 16

static char last_warning[256];

static void keep_warning(void *arg, mkv_log_level_t level, const char *text)
{
    (void)arg;
    if (level == MKV_LOG_WARN) {
        mkv_text(last_warning, sizeof(last_warning), "%s", text);
    }
}

/* B would have its blocks [first, first + NUM) written to, or, READ, read */
static mkv_status_t expose(uint64_t id, mkv_mode_t mode, uint32_t first,
                           mkv_xfer_t **xfer_p)
{
    uint32_t blocks[NUM], i;
    mkv_units_t units = {.num_local = NUM, .local = blocks};

    for (i = 0; i < NUM; ++i) {
        blocks[i] = first + i;
    }
    *xfer_p = pair_xfer(B, 0, id, mode, (mode == MKV_WRITE) ? MKV_DST : MKV_SRC);
    return mkv_xfer_expose(*xfer_p, 0, &units, 1, NULL, 0);
}

static void setup(const char *overlap)
{
    pair_set("OVERLAP", overlap);
    pair_setup();
    last_warning[0] = '\0';
    B->ctx->log.sink = keep_warning;
}

static void end(mkv_xfer_t *xfer)
{
    OK(mkv_xfer_abort(xfer, MKV_ERR_ABORTED, NULL));
    pair_run();
    OK(mkv_xfer_close(xfer));
}

START_TEST(a_block_of_a_transfer_that_is_not_quiet_is_refused)
{
    mkv_xfer_t *first, *second;

    setup("refuse");
    OK(expose(1, MKV_WRITE, FIRST, &first));
    IS(expose(2, MKV_WRITE, FIRST + NUM - 1, &second), MKV_ERR_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(),
                                 "component 0 block 23 is exposed to transfer 1 epoch "
                                 "0, which is not quiet"));
    end(second);
    IS(expose(2, MKV_WRITE, FIRST, &second), MKV_ERR_DUPLICATE); /* still the first's */
    end(second);
    OK(expose(2, MKV_WRITE, FIRST - NUM, &second)); /* nothing was kept of the other */
    end(second);
    end(first); /* and with it, quiet */
    OK(expose(3, MKV_WRITE, FIRST, &second));
    end(second);
    pair_teardown();
}
END_TEST

/* Aborted, but a put may be in flight */
START_TEST(a_block_is_owned_until_its_transfer_is_quiet)
{
    mkv_xfer_t *active, *first, *second;
    mkv_plan_t *plan;

    setup("refuse");
    active = pair_bind_write(NUM, &first);
    plan = pair_plan(A, 1, 0, 0, NUM, 0);
    fake_ucp_hold(FAKE_UCP_PUT | FAKE_UCP_LIST);
    OK(mkv_xfer_post(active, 0, plan, NULL, NULL));
    OK(mkv_xfer_abort(first, MKV_ERR_ABORTED, NULL));
    pair_run();
    IS(expose(2, MKV_WRITE, 0, &second), MKV_ERR_DUPLICATE);
    end(second);
    fake_ucp_hold(0);
    pair_run();
    ck_assert(pair_query(first).is_quiet);
    OK(expose(3, MKV_WRITE, 0, &second));
    end(second);
    pair_close(active, first, plan);
    pair_teardown();
}
END_TEST

/* Loop index: OVERLAP=warn, OVERLAP=allow. Neither refuses. An application that does so
 * all the time gets one line, not its log filled. */
START_TEST(overlap_is_warned_of_once_unless_allowed)
{
    mkv_xfer_t *first, *second;

    setup(_i ? "allow" : "warn");
    OK(expose(1, MKV_WRITE, FIRST, &first));
    OK(expose(2, MKV_WRITE, FIRST, &second));
    ck_assert_int_eq(strstr(last_warning, "transfer 2: expose: component 0 block 16 is "
                                          "exposed to transfer 1") != NULL,
                     !_i);
    end(second);
    last_warning[0] = '\0';
    OK(expose(3, MKV_WRITE, FIRST, &second));
    ck_assert_str_eq(last_warning, "");
    end(second);
    end(first);
    pair_teardown();
}
END_TEST

START_TEST(readers_may_share_blocks)
{
    mkv_xfer_t *first, *second;

    setup("refuse");
    OK(expose(1, MKV_READ, FIRST, &first));
    OK(expose(2, MKV_READ, FIRST, &second));
    end(first);
    end(second);
    pair_teardown();
}
END_TEST

/* As several sources of one unit do */
START_TEST(legs_of_one_transfer_may_share_blocks)
{
    uint32_t blocks[] = {FIRST, FIRST + 1};
    mkv_units_t units = {.num_local = 2, .local = blocks};
    mkv_xfer_params_t params = {
        .size = sizeof(params), .id = 1, .mode = MKV_WRITE, .role = MKV_DST};
    mkv_map_t *maps[2];
    mkv_xfer_t *xfer;

    setup("refuse");
    pair_open(2);
    pair_connect(1, 2);
    maps[0] = B->maps[0];
    maps[1] = B->maps[2];
    params.legs = maps;
    params.num_legs = 2;
    OK(mkv_xfer_open(B->ctx, &params, &xfer));
    OK(mkv_xfer_expose(xfer, 0, &units, 1, NULL, 0));
    OK(mkv_xfer_expose(xfer, 1, &units, 1, NULL, 0));
    end(xfer);
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("overlap");

    tcase_add_test(tcase, a_block_of_a_transfer_that_is_not_quiet_is_refused);
    tcase_add_test(tcase, a_block_is_owned_until_its_transfer_is_quiet);
    tcase_add_loop_test(tcase, overlap_is_warned_of_once_unless_allowed, 0, 2);
    tcase_add_test(tcase, readers_may_share_blocks);
    tcase_add_test(tcase, legs_of_one_transfer_may_share_blocks);
    return pair_main("test_mkv_overlap", tcase);
}
