/* SPDX-License-Identifier: BSD-3-Clause */

/* Keyed buffers: published by one side, fetched by others; and slabs. */

#include "test/support/mkv_pair.h"

#include "src/peer/message.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 65536u
#define SMALL 3300u /* below FETCH_INLINE */
#define LARGE 40000u
#define SEED 9

static uint8_t mem[2][ROOM];
static mkv_region_id_t ids[2]; /* A fetches, B publishes */

static mkv_region_id_t add_region(unsigned index, int32_t layer, void *base,
                                  size_t length, ucs_memory_type_t type)
{
    mkv_region_t region = {.size = sizeof(region),
                           .component = 63,
                           .layer = layer,
                           .flags = MKV_REGION_OPTIONAL,
                           .mem_type = type,
                           .base = base,
                           .length = length,
                           .unit_bytes = length,
                           .n_units = 1};
    mkv_region_id_t id;

    OK(mkv_region_add(pair_sides[index].ctx, &region, &id));
    OK(mkv_regions_commit(pair_sides[index].ctx, NULL));
    return id;
}

static void setup_types(ucs_memory_type_t from, ucs_memory_type_t to)
{
    pair_setup();
    memset(mem[0], 0, ROOM);
    mkv_pattern_fill(mem[1], ROOM, SEED, 0);
    ids[0] = add_region(0, 1, mem[0], ROOM, to);
    ids[1] = add_region(1, 2, mem[1], ROOM, from);
    pair_run();
}

static void setup(void)
{
    setup_types(UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST);
}

static mkv_publish_params_t publication_of(const char *key, uint64_t offset,
                                           uint64_t length)
{
    return (mkv_publish_params_t){.size = sizeof(mkv_publish_params_t),
                                  .key = key,
                                  .key_length = strlen(key),
                                  .region = ids[1],
                                  .offset = offset,
                                  .length = length,
                                  .user_data = mem};
}

static uint64_t publish(const char *key, uint64_t offset, uint64_t length)
{
    mkv_publish_params_t params = publication_of(key, offset, length);
    uint64_t id;

    OK(mkv_publish(B->ctx, &params, &id));
    ck_assert_uint_ne(id, 0);
    return id;
}

static mkv_fetch_params_t fetch_of(const char *key, uint64_t length)
{
    return (mkv_fetch_params_t){.size = sizeof(mkv_fetch_params_t),
                                .id = 5,
                                .key = key,
                                .key_length = strlen(key),
                                .region = ids[0],
                                .length = length,
                                .user_data = ids};
}

static void fetch(const char *key, uint64_t length)
{
    mkv_fetch_params_t params = fetch_of(key, length);

    OK(mkv_fetch(A->peers[1], &params));
}

static mkv_status_t fetched(void)
{
    const mkv_event_t *event = pair_last(A, MKV_EV_FETCHED, NULL);

    ck_assert_uint_eq(event->id, 5);
    ck_assert_ptr_eq(event->user_data, ids);
    return event->status;
}

/* Nothing was written beside what was fetched */
static void check_holds(uint64_t from, uint64_t length)
{
    static const uint8_t zeroes[ROOM];

    ck_assert_uint_eq(mkv_pattern_check(mem[0], length, SEED, from), length);
    ck_assert_mem_eq(mem[0] + length, zeroes, ROOM - length);
}

/* Loop index: small and inline, or large and read where it lies without a copy */
START_TEST(bytes_in_are_bytes_out)
{
    const uint64_t length = _i ? LARGE : SMALL;

    setup();
    publish("k", 100, length);
    fetch("k", length);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FETCHED, NULL)->length, length);
    ck_assert_ptr_eq(pair_last(A, MKV_EV_FETCHED, NULL)->peer, A->peers[1]);
    check_holds(100, length);
    ck_assert_uint_eq(pair_stats(B).fetches_served, 1);
    ck_assert_uint_eq(pair_stats(B).fetches_copied, _i ? 0 : 1);
    ck_assert_uint_eq(pair_stats(A).ucp_calls, _i ? 1 : 0);
    ck_assert_uint_eq(pair_stats(A).msgs_sent - pair_stats(B).msgs_received, 0);
    pair_teardown();
}
END_TEST

/* One message each way, whatever HELLO took */
START_TEST(a_small_fetch_is_one_round_trip)
{
    uint64_t sent_a, sent_b;

    setup();
    publish("k", 0, SMALL);
    sent_a = pair_stats(A).msgs_sent;
    sent_b = pair_stats(B).msgs_sent;
    fetch("k", SMALL);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    ck_assert_uint_eq(pair_stats(A).msgs_sent - sent_a, 1);
    ck_assert_uint_eq(pair_stats(B).msgs_sent - sent_b, 1);
    pair_teardown();
}
END_TEST

/* The processor does not touch a GPU's memory, whoever has it */
START_TEST(gpu_memory_is_never_copied)
{
    setup_types(_i ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_ROCM,
                _i ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST);
    publish("k", 0, 8);
    fetch("k", 8);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    check_holds(0, 8);
    ck_assert_uint_eq(pair_stats(B).fetches_copied, 0);
    ck_assert_uint_eq(pair_stats(A).ucp_calls, 1);
    pair_teardown();
}
END_TEST

START_TEST(a_missing_key_is_told)
{
    setup();
    publish("other", 0, SMALL);
    fetch("k", SMALL);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_NOTFOUND);
    ck_assert_ptr_nonnull(strstr(pair_last(A, MKV_EV_FETCHED, NULL)->text,
                                 "fetch 5 of peer B: not found"));
    check_holds(0, 0);
    pair_teardown();
}
END_TEST

/* Loop index: published in time */
START_TEST(a_key_can_be_waited_for)
{
    mkv_fetch_params_t params = fetch_of("k", SMALL);

    setup();
    params.region = ids[0];
    params.wait_ms = 100;
    OK(mkv_fetch(A->peers[1], &params));
    pair_run();
    pair_now += 99 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 0);
    if (_i) {
        publish("j", 0, SMALL);
        publish("k", 0, SMALL);
    } else {
        pair_now += 1 * MKV_NSEC_PER_MSEC;
    }
    pair_run();
    ck_assert_int_eq(fetched(), _i ? MKV_OK : MKV_ERR_NOTFOUND);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 1);
    check_holds(0, _i ? SMALL : 0);
    pair_teardown();
}
END_TEST

/* Loop index: one byte less and more, inline and large */
START_TEST(another_length_is_refused_on_both_sides)
{
    const uint64_t length = (_i & 2) ? LARGE : SMALL;

    setup();
    publish("k", 0, length);
    fetch("k", (_i & 1) ? length + 1 : length - 1);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_LENGTH);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FETCHED, NULL)->length, length);
    ck_assert_int_eq(pair_last(B, MKV_EV_WARN, NULL)->status, MKV_ERR_LENGTH);
    check_holds(0, 0);
    ck_assert_uint_eq(pair_stats(A).ucp_calls, 0);
    pair_teardown();
}
END_TEST

/* ... as often as the peer likes: what must be told keeps its room. */
START_TEST(refused_lengths_take_no_room_of_other_events)
{
    unsigned num_free, i;

    setup();
    publish("k", 0, SMALL);
    pair_run();
    num_free = B->ctx->num_free_events;
    ck_assert_uint_gt(num_free, 0);
    for (i = 0; i <= num_free; ++i) {
        fetch("k", SMALL + 1);
        pair_run_unpolled();
    }
    ck_assert_uint_eq(B->ctx->num_free_events, num_free);
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_WARN, NULL), num_free + 1);
    pair_teardown();
}
END_TEST

/* Loop index: whether there is room */
START_TEST(fewer_bytes_are_welcome_where_only_room_is_said)
{
    mkv_fetch_params_t params = fetch_of("k", _i ? ROOM : SMALL - 1);

    setup();
    params.region = ids[0];
    params.flags = MKV_FETCH_UP_TO;
    publish("k", 0, SMALL);
    OK(mkv_fetch(A->peers[1], &params));
    pair_run();
    ck_assert_int_eq(fetched(), _i ? MKV_OK : MKV_ERR_LENGTH);
    ck_assert_uint_eq(pair_last(A, MKV_EV_FETCHED, NULL)->length, SMALL);
    check_holds(0, _i ? SMALL : 0);
    pair_teardown();
}
END_TEST

static void check_expired(uint64_t id, mkv_expired_t reason)
{
    const mkv_event_t *event = pair_last(B, MKV_EV_EXPIRED, NULL);

    ck_assert_uint_eq(event->id, id);
    ck_assert_uint_eq(event->value, reason);
    ck_assert_ptr_eq(event->user_data, mem);
}

START_TEST(a_key_expires_and_its_memory_comes_back)
{
    mkv_publish_params_t params;
    uint64_t id;

    setup();
    params = publication_of("k", 0, SMALL);
    params.ttl_ms = 50;
    OK(mkv_publish(B->ctx, &params, &id));
    pair_now += 49 * MKV_NSEC_PER_MSEC;
    pair_run();
    IS(mkv_regions_drop(B->ctx, &ids[1], 1), MKV_ERR_BUSY);
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 0);
    pair_now += 1 * MKV_NSEC_PER_MSEC;
    pair_run();
    check_expired(id, MKV_EXPIRED_TIME);
    OK(mkv_regions_drop(B->ctx, &ids[1], 1));
    fetch("k", SMALL);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_NOTFOUND);
    IS(mkv_unpublish(B->ctx, id), MKV_ERR_NOTFOUND);
    pair_teardown();
}
END_TEST

/* Its time is over in 1 ms, and a fetch takes a second. Loop index: how it ends */
START_TEST(a_leased_buffer_is_not_taken)
{
    static const mkv_expired_t reasons[] = {MKV_EXPIRED_TIME, MKV_EXPIRED_REPLACED,
                                            MKV_EXPIRED_WITHDRAWN};
    mkv_publish_params_t params;
    uint64_t id, other;

    setup();
    params = publication_of("k", 0, LARGE);
    params.ttl_ms = 1;
    OK(mkv_publish(B->ctx, &params, &id));
    fake_ucp_hold(FAKE_UCP_GET);
    fetch("k", LARGE);
    pair_run();
    if (_i == 1) {
        params.flags = MKV_PUBLISH_REPLACE;
        params.offset = 1000;
        params.ttl_ms = 0;
        OK(mkv_publish(B->ctx, &params, &other));
    } else if (_i == 2) {
        OK(mkv_unpublish(B->ctx, id));
        IS(mkv_unpublish(B->ctx, id), MKV_ERR_NOTFOUND);
    }
    pair_now += 1000 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 0);
    IS(mkv_regions_drop(B->ctx, &ids[1], 1), MKV_ERR_BUSY);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    check_holds(0, LARGE);
    check_expired(id, reasons[_i]);
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 1);
    fetch("k", LARGE); /* the new value, or none */
    pair_run();
    ck_assert_int_eq(fetched(), (_i == 1) ? MKV_OK : MKV_ERR_NOTFOUND);
    check_holds((_i == 1) ? 1000 : 0, LARGE);
    pair_teardown();
}
END_TEST

START_TEST(a_key_is_taken_kept_or_replaced)
{
    mkv_publish_params_t params;
    uint64_t id, other = 4711;

    setup();
    id = publish("k", 0, SMALL);
    params = publication_of("k", 100, SMALL);
    IS(mkv_publish(B->ctx, &params, &other), MKV_ERR_DUPLICATE);
    ck_assert_uint_eq(other, 4711);
    params.flags = MKV_PUBLISH_KEEP;
    OK(mkv_publish(B->ctx, &params, &other));
    ck_assert_uint_eq(other, 0);
    fetch("k", SMALL);
    pair_run();
    check_holds(0, SMALL);
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 0);
    params.flags = MKV_PUBLISH_REPLACE;
    OK(mkv_publish(B->ctx, &params, &other));
    pair_run();
    check_expired(id, MKV_EXPIRED_REPLACED);
    fetch("k", SMALL);
    pair_run();
    check_holds(100, SMALL);
    OK(mkv_unpublish(B->ctx, other));
    pair_run();
    check_expired(other, MKV_EXPIRED_WITHDRAWN);
    OK(mkv_regions_drop(B->ctx, &ids[1], 1)); /* nothing leaks */
    pair_teardown();
}
END_TEST

START_TEST(a_failed_fetch_can_be_tried_again)
{
    setup();
    publish("k", 0, LARGE);
    fake_ucp_fail(FAKE_UCP_GET, 0, UCS_ERR_IO_ERROR);
    fetch("k", LARGE);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_TRANSPORT);
    fetch("k", LARGE);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    check_holds(0, LARGE);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 2);
    pair_teardown();
}
END_TEST

/* Its lease ends as soon as it is certain that it reads no more; not before */
START_TEST(a_reader_that_is_gone_holds_nothing)
{
    uint64_t id;

    setup();
    id = publish("k", 0, LARGE);
    fake_ucp_hold(FAKE_UCP_GET);
    fetch("k", LARGE);
    pair_run();
    OK(mkv_unpublish(B->ctx, id));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 0);
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_int_eq(pair_last(A, MKV_EV_PEER_FAILED, NULL)->status, MKV_ERR_PEER);
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_PEER);
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 1);
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 0);
    OK(mkv_map_destroy(A->maps[1]));
    A->maps[1] = NULL;
    OK(mkv_map_destroy(B->maps[0]));
    B->maps[0] = NULL;
    OK(mkv_close(A->ctx)); /* now it is gone */
    free(A->mem);
    pair_forget(A);
    pair_now += 10000 * MKV_NSEC_PER_MSEC;
    pair_run();
    check_expired(id, MKV_EXPIRED_WITHDRAWN);
    pair_teardown();
}
END_TEST

/* Before the answer nothing touches its memory. Loop index: asked or waited for */
START_TEST(a_fetch_ends_with_its_connection)
{
    mkv_fetch_params_t params = fetch_of("k", SMALL);

    setup();
    params.region = ids[0];
    params.wait_ms = 1000;
    fake_ucp_stop_worker(fake_ucp_worker(1), _i);
    OK(mkv_fetch(A->peers[1], &params));
    pair_run();
    fake_ucp_break(UCS_ERR_CONNECTION_RESET);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_PEER);
    IS(mkv_fetch(A->peers[1], &params), MKV_ERR_PEER);
    OK(mkv_regions_drop(A->ctx, ids, 1));
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    publish("k", 0, SMALL); /* nobody waits for it any more */
    pair_run();
    pair_teardown();
}
END_TEST

/* A fetch is nothing that has to be closed */
START_TEST(a_context_closes_in_the_middle_of_a_fetch)
{
    setup();
    publish("k", 0, LARGE);
    fake_ucp_hold(FAKE_UCP_GET);
    fetch("k", LARGE);
    pair_run();
    fake_ucp_hold(0);
    OK(mkv_map_destroy(A->maps[1]));
    OK(mkv_close(A->ctx));
    free(A->mem);
    pair_forget(A);
    pair_run();
    pair_teardown();
}
END_TEST

/* What comes after it was given up is released at once */
START_TEST(a_fetch_ends_by_its_deadline)
{
    mkv_fetch_params_t params = fetch_of("k", LARGE);
    uint64_t id;

    setup();
    params.region = ids[0];
    params.timeout_ms = 20;
    id = publish("k", 0, LARGE);
    fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    OK(mkv_fetch(A->peers[1], &params));
    pair_run();
    pair_now += 20 * MKV_NSEC_PER_MSEC;
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_XFER_TIMEOUT);
    OK(mkv_regions_drop(A->ctx, ids, 1));
    fake_ucp_stop_worker(fake_ucp_worker(1), 0);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 1);
    OK(mkv_unpublish(B->ctx, id));
    pair_run();
    ck_assert_uint_eq(pair_count(B, MKV_EV_EXPIRED, NULL), 1);
    check_holds(0, 0);
    pair_teardown();
}
END_TEST

/* The first that ends leaves the next one's time. Loop index: publications, who waits
 * at the peer, fetches that are not answered */
START_TEST(one_ends_after_the_other)
{
    mkv_fetch_params_t params = fetch_of("k", SMALL);
    mkv_publish_params_t publication;
    pair_side_t *side = (_i == 0) ? B : A;
    mkv_event_type_t type = (_i == 0) ? MKV_EV_EXPIRED : MKV_EV_FETCHED;
    unsigned i;
    uint64_t id;

    setup();
    params.region = ids[0];
    if (_i == 2) {
        fake_ucp_stop_worker(fake_ucp_worker(1), 1);
    }
    for (i = 1; i <= 3; ++i) {
        publication = publication_of((i == 1) ? "a" : (i == 2) ? "b" : "c", 0, SMALL);
        publication.ttl_ms = i * 20;
        params.wait_ms = (_i == 1) ? i * 20 : 0;
        params.timeout_ms = (_i == 2) ? i * 20 : 0;
        OK((_i == 0) ? mkv_publish(B->ctx, &publication, &id)
                     : mkv_fetch(A->peers[1], &params));
    }
    pair_run();
    ck_assert_uint_eq(pair_count(side, type, NULL), 0);
    for (i = 1; i <= 3; ++i) {
        pair_now += 20 * MKV_NSEC_PER_MSEC;
        pair_run();
        ck_assert_uint_eq(pair_count(side, type, NULL), i);
    }
    if (_i == 2) {
        fake_ucp_stop_worker(fake_ucp_worker(1), 0);
        pair_run();
    }
    pair_teardown();
}
END_TEST

START_TEST(who_waits_is_bounded)
{
    mkv_fetch_params_t params = fetch_of("k", SMALL);
    unsigned i;

    pair_set("EARLY_MESSAGES", "2");
    setup();
    params.region = ids[0];
    params.wait_ms = 1000;
    for (i = 0; i < 3; ++i) {
        OK(mkv_fetch(A->peers[1], &params));
    }
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 1);
    ck_assert_int_eq(fetched(), MKV_ERR_BUSY);
    publish("k", 0, SMALL);
    pair_run();
    ck_assert_uint_eq(pair_count(A, MKV_EV_FETCHED, NULL), 3);
    ck_assert_int_eq(fetched(), MKV_OK);
    pair_teardown();
}
END_TEST

START_TEST(a_peer_is_not_closed_under_a_fetch)
{
    setup();
    publish("k", 0, LARGE);
    fake_ucp_hold(FAKE_UCP_GET);
    fetch("k", LARGE);
    pair_run();
    IS(mkv_peer_close(A->peers[1], MKV_CLOSE_FLUSH), MKV_ERR_BUSY);
    IS(mkv_peer_close(B->peers[0], MKV_CLOSE_FLUSH), MKV_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(mkv_last_error(), "used by open fetches"));
    fake_ucp_hold(0);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_OK);
    pair_teardown();
}
END_TEST

START_TEST(bad_calls_are_refused)
{
    static char key[MKV_MAX_KEY + 1];
    mkv_publish_params_t publication;
    mkv_fetch_params_t params;
    uint64_t id;

    setup();
    publication = publication_of("", 0, 1);
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_INVALID);
    publication.key = key;
    publication.key_length = sizeof(key);
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_INVALID);
    publication.key_length = MKV_MAX_KEY;
    publication.length = ROOM + 1;
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_BOUNDS);
    publication.length = 0;
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_INVALID);
    publication.length = 1;
    publication.region = 4711;
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_NOTFOUND);
    publication.region = ids[1];
    publication.flags = MKV_PUBLISH_KEEP | MKV_PUBLISH_REPLACE;
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_INVALID);
    publication.flags = 1u << 30;
    IS(mkv_publish(B->ctx, &publication, &id), MKV_ERR_UNSUPPORTED);
    publication.flags = 0;
    OK(mkv_publish(B->ctx, &publication, &id));
    params = fetch_of("k", 1);
    params.flags = 1u << 30;
    IS(mkv_fetch(A->peers[1], &params), MKV_ERR_UNSUPPORTED);
    params.flags = 0;
    params.offset = ROOM;
    IS(mkv_fetch(A->peers[1], &params), MKV_ERR_BOUNDS);
    params.offset = 0;
    A->peers[1]->remote.info.features = 0;
    IS(mkv_fetch(A->peers[1], &params), MKV_ERR_UNSUPPORTED);
    pair_teardown();
}
END_TEST

/* An owner that lies: more bytes than were asked for, and bytes for a GPU */
START_TEST(answers_are_held_to_what_was_asked)
{
    mkv_msg_t msg = {.type = MKV_MSG_FETCHED, .data = mem[1]};

    setup();
    fetch("k", SMALL);
    msg.id = 1;
    msg.bytes = msg.length = SMALL + 1;
    OK(mkv_message_send(B->peers[0], &msg));
    mkv_progress(A->ctx);
    pair_run();
    ck_assert_int_eq(fetched(), MKV_ERR_PROTOCOL);
    check_holds(0, 0);
    pair_teardown();
}
END_TEST

/* ---- Slabs ----------------------------------------------------------------------- */

#define SLAB_OPS 100000
#define SLAB_MAX 256

/* Against a map of every byte. No stretch overlaps another, nothing is lost */
START_TEST(random_allocations_neither_overlap_nor_leak)
{
    int ops = (getenv("MKV_UNDER_VALGRIND") != NULL) ? 5000 : SLAB_OPS;
    static uint8_t used[ROOM];
    uint64_t offsets[SLAB_MAX], lengths[SLAB_MAX], state = 1, k, length;
    mkv_slab_attr_t attr = {.size = sizeof(attr)};
    mkv_slab_t *slab;
    size_t num = 0;
    int i;

    setup_types(_i ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST);
    memset(used, 0, sizeof(used));
    OK(mkv_slab_create(B->ctx, ids[1], 64, &slab));
    for (i = 0; i < ops; ++i) {
        k = mkv_test_random(&state);
        if ((num < SLAB_MAX) && ((num == 0) || (k % 2))) {
            length = 1 + mkv_test_random(&state) % 1000;
            if (mkv_slab_alloc(slab, length, &offsets[num]) != MKV_OK) {
                continue;
            }
            ck_assert_uint_eq(offsets[num] % 64, 0);
            ck_assert_uint_le(offsets[num] + length, ROOM);
            ck_assert_ptr_null(memchr(used + offsets[num], 1, length));
            memset(used + offsets[num], 1, length);
            lengths[num++] = length;
        } else {
            k = mkv_test_random(&state) % num;
            memset(used + offsets[k], 0, lengths[k]);
            OK(mkv_slab_free(slab, offsets[k]));
            IS(mkv_slab_free(slab, offsets[k]), MKV_ERR_NOTFOUND);
            --num;
            offsets[k] = offsets[num];
            lengths[k] = lengths[num];
        }
    }
    OK(mkv_slab_query(slab, &attr));
    ck_assert_uint_eq(attr.num_allocated, num);
    if (num > 0) {
        IS(mkv_slab_destroy(slab), MKV_ERR_BUSY);
    }
    while (num > 0) {
        OK(mkv_slab_free(slab, offsets[--num]));
    }
    OK(mkv_slab_query(slab, &attr));
    ck_assert_uint_eq(attr.num_free, 1);
    ck_assert_uint_eq(attr.largest_free, ROOM);
    ck_assert_uint_eq(attr.allocated, 0);
    IS(mkv_regions_drop(B->ctx, &ids[1], 1), MKV_ERR_BUSY);
    OK(mkv_slab_destroy(slab));
    OK(mkv_regions_drop(B->ctx, &ids[1], 1));
    pair_teardown();
}
END_TEST

START_TEST(the_first_stretch_that_fits_is_taken)
{
    uint64_t offsets[4], again;
    mkv_slab_t *slab;
    unsigned i;

    setup();
    IS(mkv_slab_create(B->ctx, ids[1], 48, &slab), MKV_ERR_INVALID);
    IS(mkv_slab_create(B->ctx, ids[1], 0, &slab), MKV_ERR_INVALID);
    IS(mkv_slab_create(B->ctx, 4711, 64, &slab), MKV_ERR_NOTFOUND);
    OK(mkv_slab_create(B->ctx, ids[1], 64, &slab));
    for (i = 0; i < 4; ++i) {
        OK(mkv_slab_alloc(slab, 100, &offsets[i]));
        ck_assert_uint_eq(offsets[i], i * 128);
    }
    IS(mkv_slab_alloc(slab, 0, &again), MKV_ERR_INVALID);
    IS(mkv_slab_alloc(slab, ROOM, &again), MKV_ERR_BUSY);
    IS(mkv_slab_alloc(slab, UINT64_MAX, &again), MKV_ERR_BUSY);
    IS(mkv_slab_free(slab, 64), MKV_ERR_NOTFOUND);
    OK(mkv_slab_free(slab, 0));
    OK(mkv_slab_free(slab, 256));
    OK(mkv_slab_alloc(slab, 129, &again)); /* too long for the holes */
    ck_assert_uint_eq(again, 512);
    OK(mkv_slab_alloc(slab, 128, &again));
    ck_assert_uint_eq(again, 0);
    OK(mkv_slab_free(slab, 128)); /* joins the hole behind it */
    OK(mkv_slab_alloc(slab, 256, &again));
    ck_assert_uint_eq(again, 128);
    OK(mkv_slab_free(slab, 0));
    OK(mkv_slab_free(slab, 128));
    OK(mkv_slab_free(slab, 384));
    OK(mkv_slab_free(slab, 512));
    OK(mkv_slab_destroy(slab));
    pair_teardown();
}
END_TEST

int main(void)
{
    TCase *tcase = pair_tcase("store");

    tcase_add_loop_test(tcase, bytes_in_are_bytes_out, 0, 2);
    tcase_add_test(tcase, a_small_fetch_is_one_round_trip);
    tcase_add_loop_test(tcase, gpu_memory_is_never_copied, 0, 2);
    tcase_add_test(tcase, a_missing_key_is_told);
    tcase_add_loop_test(tcase, a_key_can_be_waited_for, 0, 2);
    tcase_add_loop_test(tcase, another_length_is_refused_on_both_sides, 0, 4);
    tcase_add_test(tcase, refused_lengths_take_no_room_of_other_events);
    tcase_add_loop_test(tcase, fewer_bytes_are_welcome_where_only_room_is_said, 0, 2);
    tcase_add_test(tcase, a_key_expires_and_its_memory_comes_back);
    tcase_add_loop_test(tcase, a_leased_buffer_is_not_taken, 0, 3);
    tcase_add_test(tcase, a_key_is_taken_kept_or_replaced);
    tcase_add_test(tcase, a_failed_fetch_can_be_tried_again);
    tcase_add_test(tcase, a_reader_that_is_gone_holds_nothing);
    tcase_add_loop_test(tcase, a_fetch_ends_with_its_connection, 0, 2);
    tcase_add_test(tcase, a_context_closes_in_the_middle_of_a_fetch);
    tcase_add_test(tcase, a_fetch_ends_by_its_deadline);
    tcase_add_loop_test(tcase, one_ends_after_the_other, 0, 3);
    tcase_add_test(tcase, who_waits_is_bounded);
    tcase_add_test(tcase, a_peer_is_not_closed_under_a_fetch);
    tcase_add_test(tcase, bad_calls_are_refused);
    tcase_add_test(tcase, answers_are_held_to_what_was_asked);
    tcase_add_loop_test(tcase, random_allocations_neither_overlap_nor_leak, 0, 2);
    tcase_add_test(tcase, the_first_stretch_that_fits_is_taken);
    return pair_main("mkv_store", tcase);
}
