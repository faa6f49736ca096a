/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "test/fake/hip/hipcpu.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"
#include "xgmi/memory/xgmi_map.h"
#include "xgmi/memory/xgmi_way.h"
#include "xgmi/peer/xgmi_page.h"

#include <ucs/debug/log_def.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH 8192
#define MAX_IDLE 2
#define LIMIT_S 300

static char dir[] = "/tmp/test_xgmi_map.XXXXXX";
static const muct_gpu_t *gpu;
static muct_xgmi_self_t self;
static muct_xgmi_map_t *map;
static xgmi_owner_t owner;
static muct_xgmi_peer_t *peer;
static muct_xgmi_key_t keys[MAX_IDLE + 2];

static void setup(void)
{
    const muct_xgmi_map_config_t config = {MAX_IDLE, SIZE_MAX, LIMIT_S * 1000};
    unsigned i;

    /* the runtime does not return while the owner is stopped */
    setenv("HIPCPU_IPC_TIMEOUT", "3600000", 0);
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    xgmi_owner_start(&owner, dir);
    for (i = 0; i < MAX_IDLE + 2; ++i) {
        xgmi_owner_alloc(&owner, LENGTH, &keys[i]);
    }

    gpu = xgmi_owner_gpu();
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_eq(muct_xgmi_map_create(gpu, &config, &map), UCS_OK);
    ck_assert_int_eq(muct_xgmi_peer_get(keys[0].owner, &peer), UCS_OK);
}

static void forget_failures(void)
{
    void (*reset)(void);
    void *symbol = fake_hip_symbol("hipcpu_reset");

    memcpy(&reset, &symbol, sizeof(reset));
    reset();
}

static void teardown(void)
{
    char command[64];

    forget_failures();
    muct_xgmi_peer_put(peer);
    muct_xgmi_map_destroy(map);
    muct_xgmi_self_close();
    xgmi_owner_kill(&owner);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static const muct_xgmi_region_t *get(unsigned i)
{
    const muct_xgmi_region_t *region;

    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[i], 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    return region;
}

static void get_and_put(unsigned i)
{
    muct_xgmi_map_put(map, get(i));
}

START_TEST(allocation_is_mapped_once)
{
    const muct_xgmi_region_t *first = get(0);
    muct_xgmi_key_t part = keys[0];
    const muct_xgmi_region_t *second;

    part.address += 100;
    part.length = 200;
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &part, 0, LIMIT_S * 1000, &second),
                     UCS_OK);
    ck_assert_ptr_eq(first, second);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
    muct_xgmi_map_put(map, first);
    muct_xgmi_map_put(map, second);
    get_and_put(0);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
}
END_TEST

START_TEST(other_handle_at_the_same_address_is_another_allocation)
{
    const muct_xgmi_region_t *busy = get(0);
    muct_xgmi_key_t other = keys[1];
    const muct_xgmi_region_t *region;

    other.base = keys[0].base;
    other.address = keys[0].address;
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &other, 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 2);
    muct_xgmi_map_put(map, region);
    muct_xgmi_map_put(map, busy);
}
END_TEST

/* Handles of some runtimes contain no more than an address of the exporter. */
START_TEST(memory_allocated_again_at_the_same_place_is_mapped_anew)
{
    const muct_xgmi_region_t *region = get(0);
    muct_xgmi_key_t again;

    *(char *)(uintptr_t)(keys[0].base + region->delta) = 'x';
    muct_xgmi_map_put(map, region);
    xgmi_owner_free(&owner, &keys[0]);
    xgmi_owner_alloc(&owner, LENGTH, &again);
    ck_assert_uint_eq(again.base, keys[0].base);
    ck_assert_mem_eq(again.handle, keys[0].handle, sizeof(again.handle));
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &again, 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    ck_assert_int_eq(*(const char *)(uintptr_t)(again.base + region->delta), 0);
    muct_xgmi_map_put(map, region);
}
END_TEST

/* The stale mapping is still cached; the runtime refuses to open a handle that overlaps
 * it. */
/* XP-03 */
START_TEST(memory_of_another_size_at_the_same_place_is_mapped)
{
    const muct_xgmi_region_t *region = get(0), *other = get(1);
    muct_xgmi_key_t again;

    fake_hip_set_rule("ipc-overlap", true);
    muct_xgmi_map_put(map, region);
    muct_xgmi_map_put(map, other);
    xgmi_owner_free(&owner, &keys[0]);
    xgmi_owner_alloc(&owner, LENGTH - 100, &again);
    ck_assert_uint_eq(again.base, keys[0].base);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &again, 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    ck_assert_int_eq(*(const char *)(uintptr_t)(again.base + region->delta), 0);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 2);
    muct_xgmi_map_put(map, region);

    /* other mappings stay open if they do not overlap it */
    fake_hip_fail("hipIpcOpenMemHandle", 0, MUCT_HIP_INVALID_VALUE);
    ck_assert_ptr_eq(get(1), other);
    muct_xgmi_map_put(map, other);
}
END_TEST

/* The mapping stays as long as a copy uses memory that its owner has freed, and no
 * longer. */
/* XP-03 */
START_TEST(memory_that_overlaps_what_is_in_use_is_mapped_behind_it)
{
    const muct_xgmi_region_t *busy = get(0), *region;
    muct_xgmi_key_t again;

    fake_hip_set_rule("ipc-overlap", true);
    xgmi_owner_free(&owner, &keys[0]);
    xgmi_owner_alloc(&owner, LENGTH - 100, &again);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &again, 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    muct_xgmi_map_put(map, busy);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &again, 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    muct_xgmi_map_put(map, region);
}
END_TEST

static void setup_handles_by_address(void)
{
    setenv("HIPCPU_RULES", "ipc-address", 1);
    setup();
}

START_TEST(region_in_use_is_never_unmapped)
{
    const muct_xgmi_region_t *busy = get(0);
    unsigned i;

    for (i = 1; i < MAX_IDLE + 2; ++i) {
        get_and_put(i);
    }
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), MAX_IDLE + 1);
    ck_assert_ptr_eq(get(0), busy);
    muct_xgmi_map_put(map, busy);
    muct_xgmi_map_put(map, busy);
}
END_TEST

START_TEST(idle_region_used_longest_ago_goes_first)
{
    unsigned i;

    for (i = 0; i < MAX_IDLE; ++i) {
        get_and_put(i);
    }
    get_and_put(0); /* now 1 is the oldest */
    get_and_put(MAX_IDLE);
    fake_hip_fail("hipIpcOpenMemHandle", 0, MUCT_HIP_INVALID_VALUE);
    get_and_put(0);
}
END_TEST

static unsigned num_warnings;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t count_warnings(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *message, va_list args)
{
    char text[512];

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    if (level == UCS_LOG_LEVEL_WARN) {
        vsnprintf(text, sizeof(text), message, args);
        ck_assert_ptr_nonnull(strstr(text, "UCX_MORI_XGMI_MAX_IDLE_SIZE"));
        ++num_warnings;
    }
    return UCS_LOG_FUNC_RC_CONTINUE;
}

START_TEST(limit_that_is_too_low_is_logged_once)
{
    unsigned round, i;

    ucs_log_push_handler(count_warnings);
    for (i = 0; i < MAX_IDLE + 2; ++i) {
        get_and_put(i);
    }
    ck_assert_uint_eq(num_warnings, 0);
    for (round = 0; round < 3; ++round) {
        for (i = 0; i < MAX_IDLE + 2; ++i) {
            get_and_put(i);
        }
    }
    ck_assert_uint_eq(num_warnings, 1);
    ucs_log_pop_handler();
}
END_TEST

/* Seven peers with 10 000 allocations, each used again and again; a tenth
 * where each call is watched. */
START_TEST(many_allocations_are_mapped_once)
{
    enum { NUM_PEERS = 7, NUM_EACH = 1429 };
    const muct_xgmi_map_config_t unlimited = {UINT_MAX, SIZE_MAX, 1000};
    static muct_xgmi_key_t all[NUM_PEERS][NUM_EACH];
    muct_xgmi_peer_t *peers[NUM_PEERS];
    xgmi_owner_t owners[NUM_PEERS];
    const muct_xgmi_region_t *region;
    unsigned long before = fake_hip_calls("hipIpcOpenMemHandle");
    muct_xgmi_map_t *large;
    unsigned num_each = (getenv("MKV_TEST_FEWER") != NULL) ? NUM_EACH / 10 : NUM_EACH;
    unsigned round, p, i;

    ck_assert_int_eq(muct_xgmi_map_create(gpu, &unlimited, &large), UCS_OK);
    for (p = 0; p < NUM_PEERS; ++p) {
        xgmi_owner_start(&owners[p], dir);
        for (i = 0; i < num_each; ++i) {
            xgmi_owner_alloc(&owners[p], 4096, &all[p][i]);
        }
        ck_assert_int_eq(muct_xgmi_peer_get(all[p][0].owner, &peers[p]), UCS_OK);
    }
    for (round = 0; round < 3; ++round) {
        for (i = 0; i < num_each; ++i) {
            for (p = 0; p < NUM_PEERS; ++p) {
                ck_assert_int_eq(muct_xgmi_map_get(large, peers[p], &all[p][i], 0,
                                                   LIMIT_S * 1000, &region),
                                 UCS_OK);
                muct_xgmi_map_put(large, region);
            }
        }
    }
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle") - before,
                      NUM_PEERS * num_each);
    muct_xgmi_map_destroy(large);
    for (p = 0; p < NUM_PEERS; ++p) {
        muct_xgmi_peer_put(peers[p]);
        xgmi_owner_kill(&owners[p]);
    }
}
END_TEST

/* Calls that open from now on fail, so many. */
static void fail_opens(unsigned count, int error)
{
    while (count-- > 0) {
        fake_hip_fail("hipIpcOpenMemHandle", 1, error);
    }
}

static time_t seconds_passed; /* beside those of the kernel */

/* In place of the C library's */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id,
                                                         struct timespec *time)
{
    int ret = (int)syscall(SYS_clock_gettime, id, time);

    time->tv_sec += seconds_passed;
    return ret;
}

START_TEST(way_that_failed_is_tried_again_a_minute_later)
{
    const muct_xgmi_region_t *region = NULL;

    fail_opens(3, 17);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    seconds_passed = 20;
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 3);
    seconds_passed = 70;
    get_and_put(0);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 4);
}
END_TEST

/* AMD's runtime returns error 17 for each cause; the owner's page shows which. */
START_TEST(handle_of_a_living_peer_that_does_not_open_is_no_way)
{
    static const struct {
        int error;
        unsigned tries;
    } rows[] = {{MUCT_HIP_INVALID_VALUE, 3},
                {MUCT_HIP_INVALID_CONTEXT, 1},
                {MUCT_HIP_PEER_UNSUPPORTED, 1},
                {17, 3}};
    const muct_xgmi_region_t *region = NULL;
    unsigned long num_calls;

    fail_opens(rows[_i].tries, rows[_i].error);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), rows[_i].tries);
    num_calls = fake_hip_calls("hipIpcOpenMemHandle");
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[1], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), num_calls);
    ck_assert_ptr_null(region);

    /* another device may have one */
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 1, LIMIT_S * 1000, &region),
                     UCS_OK);
    muct_xgmi_map_put(map, region);
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    get_and_put(0);
}
END_TEST

/* The test holds the page's lock in the place of a raw child of the owner. */
START_TEST(peer_with_a_lock_kept_by_a_child_is_dead_by_its_pidfd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct pollfd ended = {.fd = muct_xgmi_peer_fd(peer), .events = POLLIN};
    const muct_xgmi_region_t *region = NULL;
    char path[128];
    int fd;

    kill(owner.pid, SIGKILL);
    ck_assert_int_eq(poll(&ended, 1, -1), 1);
    muct_xgmi_page_path(dir, keys[0].owner, path, sizeof(path));
    fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
    ck_assert(muct_xgmi_peer_was_alive(peer));
    ck_assert(!muct_xgmi_peer_is_alive(peer));
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNREACHABLE);
    ck_assert_ptr_null(region);
    ck_assert(!muct_xgmi_peer_was_alive(peer));
    close(fd);
}
END_TEST

/* Under load AMD's runtime fails for a moment. */
START_TEST(handle_that_fails_for_a_moment_opens)
{
    fail_opens(2, 17);
    get_and_put(0);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 3);
    get_and_put(1);
}
END_TEST

START_TEST(way_is_barred_for_a_while)
{
    muct_xgmi_way_t *ways = NULL;
    muct_xgmi_way_t *way = muct_xgmi_way_get(&ways, 1, 0, false);
    uint64_t again = 5 + MUCT_XGMI_WAY_BARRED_NS;

    ck_assert(!muct_xgmi_way_is_barred(way, 5));
    muct_xgmi_way_bar(way, 5, "for a test");
    ck_assert(muct_xgmi_way_is_barred(way, again - 1));
    ck_assert(!muct_xgmi_way_is_barred(way, again));
    muct_xgmi_way_bar(way, again, "for a test");
    ck_assert(muct_xgmi_way_is_barred(way, again));
    way->is_open = true;
    ck_assert(!muct_xgmi_way_is_barred(way, again));
    muct_xgmi_ways_drop(&ways, 0);
}
END_TEST

START_TEST(other_memory_than_the_exported_is_not_used)
{
    const muct_xgmi_region_t *region = NULL;

    fake_hip_set_rule("open-other", true);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_ptr_null(region);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 3);
    ck_assert_uint_eq(fake_hip_live(HIPCPU_MAPPINGS), 0);
    fake_hip_set_rule("open-other", false);
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    get_and_put(0);
}
END_TEST

START_TEST(handle_that_fails_beside_others_is_tried_again)
{
    const muct_xgmi_region_t *region;

    get_and_put(0);
    fail_opens(3, 17);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[1], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNSUPPORTED);
    get_and_put(1);
}
END_TEST

START_TEST(handle_under_a_void_key_fails_no_peer)
{
    const muct_xgmi_region_t *region;

    ck_assert_int_eq(xgmi_owner_invalidate(&owner, &keys[0], 1000), UCS_OK);
    fake_hip_fail("hipIpcOpenMemHandle", 1, 17);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNREACHABLE);
    get_and_put(1);
}
END_TEST

static void *get_and_put_main(void *arg)
{
    get_and_put(*(unsigned *)arg);
    return NULL;
}

/* Since ROCm 7.2 the exporter's process answers the process that opens its handles. */
START_TEST(peer_that_does_not_answer_stops_no_other_mapping)
{
    unsigned number = 1;
    pthread_t thread;

    get_and_put(0);
    fake_hip_set_rule("ipc-server", true);
    kill(owner.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(owner.pid, NULL, WUNTRACED), owner.pid);
    ck_assert_int_eq(pthread_create(&thread, NULL, get_and_put_main, &number), 0);
    while (fake_hip_calls("hipIpcOpenMemHandle") < 2) {
        sched_yield();
    }
    get_and_put(0);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
    kill(owner.pid, SIGCONT);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 2);
}
END_TEST

static size_t num_mappings(void)
{
    return fake_hip_live(HIPCPU_MAPPINGS);
}

static void stop_owner(void)
{
    fake_hip_set_rule("ipc-server", true);
    kill(owner.pid, SIGSTOP);
    ck_assert_int_eq(waitpid(owner.pid, NULL, WUNTRACED), owner.pid);
}

static ucs_status_t try(unsigned i, const muct_xgmi_region_t **region_p)
{
    return muct_xgmi_map_try(map, peer, &keys[i], 0, region_p);
}

START_TEST(mapping_is_requested_without_waiting)
{
    const muct_xgmi_region_t *first, *second;
    muct_xgmi_map_watch_t watch;
    struct pollfd pfd = {.events = POLLIN};
    muct_xgmi_wake_t *wake;
    uint64_t num_opened;

    ck_assert_int_eq(muct_xgmi_wake_create(&wake), UCS_OK);
    muct_xgmi_map_join(map, &watch, wake);
    stop_owner();
    num_opened = muct_xgmi_map_num_opened(map);
    atomic_store(&watch.is_waiting, true);
    ck_assert_int_eq(try(0, &first), UCS_INPROGRESS);
    ck_assert_int_eq(try(0, &second), UCS_INPROGRESS);
    ck_assert_ptr_eq(first, second);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 0);
    ck_assert_uint_eq(muct_xgmi_map_num_opened(map), num_opened);
    kill(owner.pid, SIGCONT);
    pfd.fd = wake->event_fd;
    ck_assert_int_eq(poll(&pfd, 1, LIMIT_S * 1000), 1);
    ck_assert_uint_eq(muct_xgmi_map_num_opened(map), num_opened + 1);
    muct_xgmi_map_put(map, first);
    ck_assert_int_eq(try(0, &first), UCS_OK);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
    muct_xgmi_map_put(map, first);
    muct_xgmi_map_put(map, second);
    muct_xgmi_map_leave(map, &watch);
    muct_xgmi_wake_put(wake);
}
END_TEST

/* For 100 ms; the others would take at least 300 in each round. A busy machine may take
 * as long in some. */
START_TEST(only_the_first_mapping_of_a_peer_is_waited_for)
{
    const muct_xgmi_map_config_t config = {MAX_IDLE, SIZE_MAX, 100};
    uint64_t start_ns, took_ns = UINT64_MAX;
    muct_xgmi_map_t *hasty[20];
    unsigned i, num;

    stop_owner();
    for (num = 0; (num < 20) && (took_ns >= 300000000); ++num) {
        ck_assert_int_eq(muct_xgmi_map_create(gpu, &config, &hasty[num]), UCS_OK);
        ck_assert_int_eq(muct_xgmi_map_prepare(hasty[num], peer, &keys[0], 0),
                         UCS_INPROGRESS);
        start_ns = muct_xgmi_wake_now_ns();
        for (i = 0; i < 4; ++i) {
            ck_assert_int_eq(muct_xgmi_map_prepare(hasty[num], peer, &keys[i], 0),
                             UCS_INPROGRESS);
        }
        took_ns = muct_xgmi_wake_now_ns() - start_ns;
    }
    kill(owner.pid, SIGCONT);
    while (num > 0) {
        muct_xgmi_map_destroy(hasty[--num]);
    }
    ck_assert_uint_lt(took_ns, 300000000);
}
END_TEST

START_TEST(first_mapping_that_opens_in_time_decides_about_the_path)
{
    fail_opens(3, 17);
    ck_assert_int_eq(muct_xgmi_map_prepare(map, peer, &keys[0], 0),
                     UCS_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(failure_is_reported_to_users_of_the_mapping)
{
    const muct_xgmi_region_t *region, *other;
    ucs_status_t status;

    get_and_put(1);
    fail_opens(3, 17);
    ck_assert_int_eq(try(0, &region), UCS_INPROGRESS);
    while ((status = try(0, &other)) == UCS_INPROGRESS) {
        muct_xgmi_map_put(map, other);
        sched_yield();
    }
    ck_assert_int_eq(status, UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(try(0, &other), UCS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 4);
    muct_xgmi_map_put(map, region);
    get_and_put(0);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 5);
}
END_TEST

START_TEST(mapping_of_a_peer_that_is_forgotten_meanwhile_is_not_kept)
{
    const muct_xgmi_region_t *region;

    stop_owner();
    ck_assert_int_eq(try(0, &region), UCS_INPROGRESS);
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    kill(owner.pid, SIGCONT);
    while (muct_xgmi_map_num_opened(map) == 0) {
        sched_yield();
    }
    muct_xgmi_map_put(map, region);
    while (num_mappings() > 0) {
        sched_yield();
    }
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 0);
}
END_TEST

START_TEST(wait_for_a_region_has_a_limit)
{
    const muct_xgmi_region_t *region;

    stop_owner();
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, 50, &region),
                     UCS_ERR_TIMED_OUT);
    kill(owner.pid, SIGCONT);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[0], 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    muct_xgmi_map_put(map, region);
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
}
END_TEST

/* What waits behind it fails at once, and is never opened. */
START_TEST(late_mapping_of_a_forgotten_peer_is_closed)
{
    const muct_xgmi_region_t *regions[2], *other;

    stop_owner();
    ck_assert_int_eq(try(0, &regions[0]), UCS_INPROGRESS);
    ck_assert_int_eq(try(1, &regions[1]), UCS_INPROGRESS);
    while (muct_xgmi_map_num_opened(map) == 0) {
        muct_xgmi_map_expire(map, 1);
    }
    ck_assert_int_eq(try(0, &other), UCS_ERR_TIMED_OUT);
    ck_assert_int_eq(try(1, &other), UCS_ERR_TIMED_OUT);
    muct_xgmi_map_put(map, regions[0]);
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    kill(owner.pid, SIGCONT);
    while (muct_xgmi_map_num_opened(map) < 3) {
        sched_yield();
    }
    muct_xgmi_map_put(map, regions[1]);
    while (num_mappings() > 0) {
        sched_yield();
    }
    ck_assert_uint_eq(fake_hip_calls("hipIpcOpenMemHandle"), 1);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 0);
}
END_TEST

/* The application computes, or waits for the peer that is dead. */
START_TEST(forgetting_a_peer_waits_for_no_stream)
{
    void *stream, *from, *to;

    fake_hip_set_rule("close-waits", true);
    get_and_put(0);
    ck_assert_int_eq(gpu->stream_create_with_priority(&stream, 1, 0), 0);
    ck_assert_int_eq(gpu->mem_alloc(&from, LENGTH), 0);
    ck_assert_int_eq(gpu->mem_alloc(&to, LENGTH), 0);
    fake_hip_hold("hipcpu_hold", stream);
    ck_assert_int_eq(gpu->memcpy_async(to, from, LENGTH, 4, stream), 0);
    kill(owner.pid, SIGKILL);
    while (muct_xgmi_peer_is_alive(peer)) {
        usleep(1000);
    }
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 0);
    ck_assert_uint_eq(num_mappings(), 1);
    fake_hip_hold("hipcpu_release", stream);
    while (num_mappings() > 0) {
        sched_yield();
    }
    ck_assert_int_eq(gpu->stream_destroy(stream), 0);
    ck_assert_int_eq(gpu->mem_free(from), 0);
    ck_assert_int_eq(gpu->mem_free(to), 0);
}
END_TEST

static atomic_bool is_over;

static void *query_until_over(void *arg)
{
    muct_hip_pointer_attribute_t attributes;

    while (!atomic_load(&is_over)) {
        (void)gpu->pointer_get_attributes(&attributes, arg);
    }
    return NULL;
}

/* hipIpcCloseMemHandle() of ROCm 6 is not safe beside other calls. */
START_TEST(forgetting_a_peer_is_safe_beside_calls_of_the_application)
{
    pthread_t thread;
    void *own;

    fake_hip_set_rule("close-races", true);
    ck_assert_int_eq(gpu->mem_alloc(&own, LENGTH), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, query_until_over, own), 0);
    get_and_put(0);
    get_and_put(1);
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    while (num_mappings() > 0) {
        sched_yield();
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(gpu->mem_free(own), 0);
}
END_TEST

START_TEST(full_address_space_costs_idle_regions_first)
{
    const muct_xgmi_region_t *region;

    get_and_put(0);
    fake_hip_fail("hipIpcOpenMemHandle", 1, MUCT_HIP_OUT_OF_MEMORY);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[1], 0, LIMIT_S * 1000, &region),
                     UCS_OK);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
    muct_xgmi_map_put(map, region);
}
END_TEST

START_TEST(dead_peer_loses_its_mappings_without_copies)
{
    const muct_xgmi_region_t *busy = get(0);
    const muct_xgmi_region_t *region;

    get_and_put(1);
    kill(owner.pid, SIGKILL);
    while (muct_xgmi_peer_is_alive(peer)) {
        usleep(1000);
    }
    muct_xgmi_map_drop_peer(map, keys[0].owner);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 1);
    ck_assert_int_eq(muct_xgmi_map_get(map, peer, &keys[2], 0, LIMIT_S * 1000, &region),
                     UCS_ERR_UNREACHABLE);
    muct_xgmi_map_put(map, busy);
    ck_assert_uint_eq(muct_xgmi_map_num_regions(map), 0);
}
END_TEST

START_TEST(death_is_an_event_where_pids_are_shared)
{
    struct pollfd fd = {.fd = muct_xgmi_peer_fd(peer), .events = POLLIN};

    ck_assert_int_ge(fd.fd, 0);
    ck_assert_int_eq(poll(&fd, 1, 0), 0);
    kill(owner.pid, SIGKILL);
    ck_assert_int_eq(poll(&fd, 1, LIMIT_S * 1000), 1);
    ck_assert(!muct_xgmi_peer_is_alive(peer));
}
END_TEST

START_TEST(stopped_peer_lives)
{
    kill(owner.pid, SIGSTOP);
    ck_assert(muct_xgmi_peer_is_alive(peer));
    kill(owner.pid, SIGCONT);
}
END_TEST

START_TEST(void_key_is_refused)
{
    ck_assert(muct_xgmi_peer_enter(peer, keys[0].slot, keys[0].generation));
    muct_xgmi_peer_leave(peer, keys[0].slot);
    ck_assert_int_eq(xgmi_owner_invalidate(&owner, &keys[0], 1000), UCS_OK);
    ck_assert(!muct_xgmi_peer_enter(peer, keys[0].slot, keys[0].generation));
    ck_assert(!muct_xgmi_peer_enter(peer, MUCT_XGMI_MAX_SLOTS, 1));
    ck_assert(muct_xgmi_peer_enter(peer, keys[1].slot, keys[1].generation));
    muct_xgmi_peer_leave(peer, keys[1].slot);
}
END_TEST

START_TEST(invalidation_waits_for_copies)
{
    ck_assert(muct_xgmi_peer_enter(peer, keys[0].slot, keys[0].generation));
    ck_assert_int_eq(xgmi_owner_invalidate(&owner, &keys[0], 20), UCS_ERR_TIMED_OUT);
    ck_assert(!muct_xgmi_peer_enter(peer, keys[0].slot, keys[0].generation));
    muct_xgmi_peer_leave(peer, keys[0].slot);
    ck_assert_int_eq(xgmi_owner_invalidate(&owner, &keys[0], LIMIT_S * 1000), UCS_OK);
}
END_TEST

START_TEST(page_of_a_killed_process_is_swept)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/ucx-mori.%016lx", dir, keys[0].owner);
    ck_assert_int_eq(access(path, F_OK), 0);
    kill(owner.pid, SIGKILL);
    while (muct_xgmi_peer_is_alive(peer)) {
        usleep(1000);
    }
    muct_xgmi_self_close();
    ck_assert_int_eq(muct_xgmi_self_open(dir, &self), UCS_OK);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

/* A container's /dev/shm is small and may be full: that is an error when the page is
 * made, not a signal when it is written to. */
START_TEST(no_room_for_the_page_is_an_error)
{
    char full[] = "/tmp/test_xgmi_full.XXXXXX";
    muct_xgmi_self_t none;

    ck_assert_ptr_nonnull(mkdtemp(full));
    if ((unshare(CLONE_NEWNS) != 0) ||
        (mount("full", full, "tmpfs", 0, "size=64k") != 0)) {
        fprintf(stderr, "case left out: mounting is not allowed: %s\n",
                strerror(errno));
    } else {
        ck_assert_int_eq(muct_xgmi_self_open(full, &none), UCS_ERR_IO_ERROR);
        ck_assert_int_eq(umount(full), 0);
    }
    ck_assert_int_eq(rmdir(full), 0);
}
END_TEST

START_TEST(unknown_process_is_dead)
{
    muct_xgmi_peer_t *nobody = NULL;

    ck_assert_int_eq(muct_xgmi_peer_get(keys[0].owner + 1, &nobody),
                     UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(muct_xgmi_peer_get_known(keys[0].owner + 1, &nobody),
                     UCS_ERR_UNREACHABLE);
    ck_assert_ptr_null(nobody);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_map");
    TCase *tcase = tcase_create("map");

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, allocation_is_mapped_once);
    tcase_add_test(tcase, other_handle_at_the_same_address_is_another_allocation);
    tcase_add_test(tcase, memory_of_another_size_at_the_same_place_is_mapped);
    tcase_add_test(tcase, memory_that_overlaps_what_is_in_use_is_mapped_behind_it);
    tcase_add_test(tcase, region_in_use_is_never_unmapped);
    tcase_add_test(tcase, idle_region_used_longest_ago_goes_first);
    tcase_add_test(tcase, limit_that_is_too_low_is_logged_once);
    tcase_add_test(tcase, many_allocations_are_mapped_once);
    tcase_add_loop_test(tcase, handle_of_a_living_peer_that_does_not_open_is_no_way, 0,
                        4);
    tcase_add_test(tcase, peer_with_a_lock_kept_by_a_child_is_dead_by_its_pidfd);
    tcase_add_test(tcase, handle_that_fails_for_a_moment_opens);
    tcase_add_test(tcase, way_is_barred_for_a_while);
    tcase_add_test(tcase, way_that_failed_is_tried_again_a_minute_later);
    tcase_add_test(tcase, other_memory_than_the_exported_is_not_used);
    tcase_add_test(tcase, handle_that_fails_beside_others_is_tried_again);
    tcase_add_test(tcase, handle_under_a_void_key_fails_no_peer);
    tcase_add_test(tcase, peer_that_does_not_answer_stops_no_other_mapping);
    tcase_add_test(tcase, mapping_is_requested_without_waiting);
    tcase_add_test(tcase, only_the_first_mapping_of_a_peer_is_waited_for);
    tcase_add_test(tcase, first_mapping_that_opens_in_time_decides_about_the_path);
    tcase_add_test(tcase, failure_is_reported_to_users_of_the_mapping);
    tcase_add_test(tcase, mapping_of_a_peer_that_is_forgotten_meanwhile_is_not_kept);
    tcase_add_test(tcase, wait_for_a_region_has_a_limit);
    tcase_add_test(tcase, late_mapping_of_a_forgotten_peer_is_closed);
    tcase_add_test(tcase, forgetting_a_peer_waits_for_no_stream);
    tcase_add_test(tcase, forgetting_a_peer_is_safe_beside_calls_of_the_application);
    tcase_add_test(tcase, full_address_space_costs_idle_regions_first);
    tcase_add_test(tcase, dead_peer_loses_its_mappings_without_copies);
    tcase_add_test(tcase, death_is_an_event_where_pids_are_shared);
    tcase_add_test(tcase, stopped_peer_lives);
    tcase_add_test(tcase, void_key_is_refused);
    tcase_add_test(tcase, invalidation_waits_for_copies);
    tcase_add_test(tcase, page_of_a_killed_process_is_swept);
    tcase_add_test(tcase, unknown_process_is_dead);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("handles by address");
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_checked_fixture(tcase, setup_handles_by_address, teardown);
    tcase_add_test(tcase, memory_allocated_again_at_the_same_place_is_mapped_anew);
    suite_add_tcase(suite, tcase);

    tcase = tcase_create("page");
    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_test(tcase, no_room_for_the_page_is_an_error);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
