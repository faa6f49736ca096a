/* SPDX-License-Identifier: BSD-3-Clause */

#include "kv_side.h"

#include "test/support/mkv_hip.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const kv_shape_t kv_shape_default = {8, 2, 64, 4096, 0};

uint16_t kv_region_flags;
int kv_sides_sleep;

static int kv_is_memory(const char *name)
{
    const char *mem = getenv("MKV_TEST_MEM");

    return (mem != NULL) && !strcmp(mem, name);
}

static int kv_is_gpu(void)
{
    return kv_is_memory("gpu") || kv_is_memory("mixed");
}

void kv_set_option(const char *key, const char *value)
{
    char name[64];

    snprintf(name, sizeof(name), "MORIKV_%s", key);
    if (value != NULL) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

/* ---- Memory ---------------------------------------------------------------------- */

static size_t kv_stride(const kv_shape_t *shape)
{
    return (shape->stride != 0) ? shape->stride : shape->block_bytes;
}

static size_t kv_region_bytes(const kv_shape_t *shape)
{
    return kv_stride(shape) * shape->blocks;
}

static size_t kv_offset(const kv_shape_t *shape, uint32_t layer, uint32_t part,
                        uint32_t block)
{
    return ((size_t)layer * shape->parts + part) * kv_region_bytes(shape) +
           block * kv_stride(shape);
}

static uint8_t kv_byte(uint8_t seed, size_t offset)
{
    return (uint8_t)(seed + offset * 7 + (offset >> 8) * 13 + (offset >> 16) * 29);
}

/* Pattern of 512 bytes, which goes up by seven from byte to byte */
#define KV_8(i)                                                                        \
    (uint8_t)((i) * 7), (uint8_t)((i) * 7 + 7), (uint8_t)((i) * 7 + 14),               \
        (uint8_t)((i) * 7 + 21), (uint8_t)((i) * 7 + 28), (uint8_t)((i) * 7 + 35),     \
        (uint8_t)((i) * 7 + 42), (uint8_t)((i) * 7 + 49)
#define KV_64(i)                                                                       \
    KV_8(i), KV_8((i) + 8), KV_8((i) + 16), KV_8((i) + 24), KV_8((i) + 32),            \
        KV_8((i) + 40), KV_8((i) + 48), KV_8((i) + 56)

static const uint8_t kv_cycle[512] = {KV_64(0),   KV_64(64),  KV_64(128), KV_64(192),
                                      KV_64(256), KV_64(320), KV_64(384), KV_64(448)};

/* The pattern from an offset to the next multiple of 256 at most, if possible: byte by
 * byte sanitizers spend more time on the pattern than on the tested code. */
static const uint8_t *kv_bytes(uint8_t seed, size_t offset, size_t *length)
{
    const uint8_t inverse = 183; /* of seven, modulo 256 */

    if (*length > 256 - offset % 256) {
        *length = 256 - offset % 256;
    }
    return &kv_cycle[(uint8_t)(kv_byte(seed, offset) * inverse)];
}

static void kv_copy(kv_side_t *side, void *to, const void *from, size_t length)
{
    if (!side->is_gpu) {
        memcpy(to, from, length);
        return;
    }
    MKV_REQUIRE(mkv_hip_copy(to, from, length), "GPU copy of %zu bytes failed", length);
}

void kv_fill(kv_side_t *side, uint8_t seed)
{
    char *copy = malloc(side->mem_length);
    const uint8_t *bytes;
    size_t i, length;

    MKV_REQUIRE(copy != NULL, "no memory");
    for (i = 0; i < side->mem_length; i += length) {
        length = side->mem_length - i;
        bytes = kv_bytes(seed, i, &length);
        memcpy(&copy[i], bytes, length);
    }
    kv_copy(side, side->mem, copy, side->mem_length);
    free(copy);
}

void kv_read_block(kv_side_t *side, uint32_t layer, uint32_t part, uint32_t block,
                   void *buffer)
{
    kv_copy(side, buffer, side->mem + kv_offset(&side->shape, layer, part, block),
            side->shape.block_bytes);
}

/* Number of bytes that match the pattern, up to the first wrong one */
static size_t kv_match(const uint8_t *buffer, size_t size, uint8_t seed, size_t from)
{
    const uint8_t *bytes;
    size_t i, length;

    for (i = 0; i < size; i += length) {
        length = size - i;
        bytes = kv_bytes(seed, from + i, &length);
        if (memcmp(&buffer[i], bytes, length) != 0) {
            while (buffer[i] == *bytes) {
                ++i;
                ++bytes;
            }
            return i;
        }
    }
    return size;
}

void kv_check_block(kv_side_t *side, uint32_t mine, uint8_t seed, uint32_t theirs)
{
    uint8_t *buffer = malloc(side->shape.block_bytes);
    uint32_t layer, part;
    size_t from, i;

    for (layer = 0; layer < side->shape.layers; ++layer) {
        for (part = 0; part < side->shape.parts; ++part) {
            kv_read_block(side, layer, part, mine, buffer);
            from = kv_offset(&side->shape, layer, part, theirs);
            i = kv_match(buffer, side->shape.block_bytes, seed, from);
            MKV_REQUIRE(i == side->shape.block_bytes,
                        "layer %u part %u block %u byte %zu is 0x%x, expected 0x%x",
                        layer, part, mine, i, buffer[i], kv_byte(seed, from + i));
        }
    }
    free(buffer);
}

void kv_check_others(kv_side_t *side, const uint32_t *blocks, uint32_t num,
                     uint8_t own_seed)
{
    uint32_t block, i;

    for (block = 0; block < side->shape.blocks; ++block) {
        for (i = 0; (i < num) && (blocks[i] != block); ++i) {
        }
        if (i == num) {
            kv_check_block(side, block, own_seed, block);
        }
    }
}

static void kv_side_alloc(kv_side_t *side, const char *name)
{
    side->mem_length =
        kv_region_bytes(&side->shape) * side->shape.layers * side->shape.parts;
    side->is_gpu = kv_is_gpu() && (!kv_is_memory("mixed") || !strcmp(name, "src"));
    side->is_pinned = kv_is_memory("pinned");
    side->mem = side->is_gpu ? mkv_hip_alloc(side->mem_length)
                : side->is_pinned
                    ? mkv_hip_alloc_host(side->mem_length)
                    : aligned_alloc(4096, (side->mem_length + 4095) & ~4095ul);
    MKV_REQUIRE(side->mem != NULL, "no memory for a cache of %zu bytes",
                side->mem_length);
}

static void kv_side_add_regions(kv_side_t *side)
{
    mkv_region_t region = {.size = sizeof(region)};
    uint32_t layer, part;

    for (layer = 0; layer < side->shape.layers; ++layer) {
        for (part = 0; part < side->shape.parts; ++part) {
            region.component = 0;
            region.flags = kv_region_flags;
            region.layer = (int32_t)layer;
            region.part = (uint16_t)part;
            region.base = side->mem + kv_offset(&side->shape, layer, part, 0);
            region.length = kv_region_bytes(&side->shape);
            region.unit_bytes = side->shape.block_bytes;
            region.unit_stride = kv_stride(&side->shape);
            region.n_units = side->shape.blocks;
            region.mem_type =
                side->is_gpu ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
            region.alloc_base = side->mem;
            region.alloc_length = side->mem_length;
            KV_OK(mkv_region_add(side->ctx, &region, &side->ids[side->num_ids++]));
        }
    }
    KV_OK(mkv_regions_commit(side->ctx, NULL));
}

/* ---- Life ------------------------------------------------------------------------ */

void kv_side_open_ctx(kv_side_t *side, const char *name, int fd)
{
    mkv_open_params_t params = {.size = sizeof(params), .name = name};
    const char *threads = getenv("MORIKV_PROGRESS_THREADS");

    memset(side, 0, sizeof(*side));
    side->has_threads = (threads != NULL) && (atoi(threads) > 0);
    side->sleeps = kv_sides_sleep;
    side->fd = fd;
    KV_OK(mkv_open(NULL, &params, &side->ctx));
}

void kv_side_open(kv_side_t *side, const char *name, int fd, const kv_shape_t *shape,
                  uint8_t seed)
{
    if (kv_is_gpu()) { /* before UCX, which may ask the runtime */
        (void)mkv_hip_set_device(!strcmp(name, "dst") && (mkv_hip_num_devices() > 1));
    }
    kv_side_open_ctx(side, name, fd);
    side->shape = *shape;
    kv_side_alloc(side, name);
    kv_fill(side, seed);
    kv_side_add_regions(side);
}

void kv_side_connect(kv_side_t *side, int calls)
{
    static uint8_t blob[1 << 16];
    size_t length = sizeof(blob);
    ssize_t received;
    mkv_event_t event;

    KV_OK(mkv_blob(side->ctx, MKV_BLOB_ADDR, blob, &length));
    MKV_REQUIRE(mkv_proc_send(side->fd, blob, length) == 0, "send: %s",
                strerror(errno));
    received = mkv_proc_recv(side->fd, blob, sizeof(blob), -1);
    MKV_REQUIRE(received > 0, "no blob of the other side");
    if (calls) {
        KV_OK(mkv_peer_add(side->ctx, blob, (size_t)received, NULL, &side->peer));
    }
    event = kv_wait_event(side, MKV_EV_PEER_READY, NULL);
    MKV_REQUIRE(!calls || (event.peer == side->peer), "another peer became ready");
    side->peer = event.peer;
}

void kv_side_connect_map(kv_side_t *side, int calls)
{
    kv_side_connect(side, calls);
    KV_OK(mkv_map_create(side->peer, NULL, &side->map));
}

void kv_side_free(kv_side_t *side)
{
    if (side->mem == NULL) {
        return;
    }
    if (side->is_gpu) {
        MKV_REQUIRE(mkv_hip_free(side->mem), "GPU memory could not be freed");
    } else if (side->is_pinned) {
        MKV_REQUIRE(mkv_hip_free_host(side->mem), "pinned memory could not be freed");
    } else {
        free(side->mem);
    }
}

void kv_side_close(kv_side_t *side)
{
    if (side->map != NULL) {
        KV_OK(mkv_map_destroy(side->map));
    }
    KV_OK(mkv_close(side->ctx));
    kv_side_free(side);
}

/* ---- Waiting --------------------------------------------------------------------- */

/* Sleep until an event, or an expected word on the channel */
static void kv_side_sleep(kv_side_t *side, int timeout_ms)
{
    struct pollfd fds[] = {{.events = POLLIN},
                           {.fd = side->expects ? side->fd : -1, .events = POLLIN}};
    mkv_status_t status;

    KV_OK(mkv_event_fd(side->ctx, &fds[0].fd));
    status = mkv_arm(side->ctx);
    if (status != MKV_ERR_BUSY) {
        KV_OK(status);
        (void)poll(fds, 2, timeout_ms);
    }
}

void kv_side_progress(kv_side_t *side)
{
    struct timespec pause = {0, 100000};
    unsigned moved = side->has_threads ? 0 : mkv_progress(side->ctx);
    size_t count;

    ck_assert_msg(side->num_pending < KV_MAX_PENDING, "nobody waits for %u events",
                  KV_MAX_PENDING);
    KV_OK(mkv_poll(side->ctx, side->pending + side->num_pending,
                   sizeof(side->pending[0]), KV_MAX_PENDING - side->num_pending,
                   &count));
    side->num_pending += count;
    if ((side->sleeps || side->has_threads) && (count == 0)) {
        kv_side_sleep(side, side->sleeps ? -1 : 100); /* BUSY: something has moved */
    } else if ((moved == 0) && (count == 0)) {
        nanosleep(&pause, NULL); /* leave the processor to the other side */
    }
}

static size_t kv_find_event(const kv_side_t *side, mkv_event_type_t type,
                            const mkv_xfer_t *xfer)
{
    size_t i;

    for (i = 0; i < side->num_pending; ++i) {
        if ((side->pending[i].type == type) &&
            ((xfer == NULL) || (side->pending[i].xfer == xfer))) {
            break;
        }
    }
    return i;
}

int kv_has_event(const kv_side_t *side, mkv_event_type_t type, const mkv_xfer_t *xfer)
{
    return kv_find_event(side, type, xfer) < side->num_pending;
}

static const char *kv_pending_text(const kv_side_t *side)
{
    static char text[1024];
    size_t length = 0;
    size_t i;

    text[0] = '\0';
    for (i = 0; (i < side->num_pending) && (length < sizeof(text) - 1); ++i) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s(%s) ",
                                   mkv_event_string(side->pending[i].type),
                                   side->pending[i].text);
    }
    return text;
}

static void kv_dump_line(void *arg, const char *line)
{
    (void)arg;
    fprintf(stderr, "| %s\n", line);
}

mkv_event_t kv_wait_event(kv_side_t *side, mkv_event_type_t type,
                          const mkv_xfer_t *xfer)
{
    uint64_t start = mkv_test_now_ms();
    mkv_event_t event;
    size_t i;

    while ((i = kv_find_event(side, type, xfer)) == side->num_pending) {
        kv_side_progress(side);
        if (mkv_test_now_ms() - start > (uint64_t)mkv_test_limit_ms()) {
            (void)mkv_dump(side->ctx, MKV_DUMP_ALL, kv_dump_line, NULL);
            ck_abort_msg("no event %s; pending: %s", mkv_event_string(type),
                         kv_pending_text(side));
        }
    }

    event = side->pending[i];
    memmove(&side->pending[i], &side->pending[i + 1],
            (--side->num_pending - i) * sizeof(event));
    return event;
}

void kv_send_word(kv_side_t *side, const char *text)
{
    MKV_REQUIRE(mkv_proc_send(side->fd, text, strlen(text) + 1) == 0, "send: %s",
                strerror(errno));
}

void kv_expect(kv_side_t *side, const char *text)
{
    struct pollfd pfd = {.fd = side->fd, .events = POLLIN};
    char word[64] = "";

    side->expects = 1;
    KV_PROGRESS_UNTIL(side, poll(&pfd, 1, 0) == 1);
    side->expects = 0;
    MKV_REQUIRE(mkv_proc_recv(side->fd, word, sizeof(word), -1) > 0,
                "the other side ended before it said '%s'", text);
    MKV_REQUIRE(!strcmp(word, text), "the other side said '%s', expected '%s'", word,
                text);
}

/* ---- Transfers ------------------------------------------------------------------- */

mkv_xfer_t *kv_open_xfer(kv_side_t *side, uint64_t id, mkv_mode_t mode, mkv_role_t role)
{
    mkv_xfer_params_t params = {.size = sizeof(params),
                                .id = id,
                                .mode = mode,
                                .role = role,
                                .legs = &side->map,
                                .num_legs = 1,
                                .xfer_timeout_ms = side->xfer_timeout_ms,
                                .release_timeout_ms = side->xfer_timeout_ms,
                                .drain_timeout_ms = side->drain_timeout_ms,
                                .user_data = side};
    mkv_xfer_t *xfer;

    KV_OK(mkv_xfer_open(side->ctx, &params, &xfer));
    return xfer;
}

void kv_expose(mkv_xfer_t *xfer, const uint32_t *blocks, uint32_t num)
{
    mkv_units_t units = {.component = 0, .num_local = num, .local = blocks};

    KV_OK(mkv_xfer_expose(xfer, 0, &units, 1, "meta", 5));
}

mkv_plan_t *kv_plan(kv_side_t *side, const uint32_t *blocks, uint32_t num,
                    const mkv_event_t *exposed, uint32_t flags)
{
    mkv_units_t units = exposed->units[0];
    mkv_plan_t *plan;

    units.local = blocks;
    units.num_local = num;
    KV_OK(mkv_plan_create(side->map, &units, 1, flags, &plan));
    return plan;
}

void kv_random_blocks(uint32_t *blocks, uint32_t num, uint32_t max, uint32_t seed)
{
    uint32_t *all = malloc(max * sizeof(*all));
    uint32_t i, j;

    for (i = 0; i < max; ++i) {
        all[i] = i;
    }
    for (i = 0; i < num; ++i) {
        seed = seed * 1664525u + 1013904223u;
        j = i + (seed >> 8) % (max - i);
        blocks[i] = all[j];
        all[j] = all[i];
    }
    free(all);
}

mkv_stats_t kv_stats(kv_side_t *side)
{
    mkv_stats_t stats = {.size = sizeof(stats)};

    KV_OK(mkv_stats(side->ctx, NULL, &stats));
    return stats;
}

/* A separate process queries the devices: a real runtime does not survive a fork. */
static int kv_has_gpu(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        _exit(mkv_hip_num_devices() == 0);
    }
    return (pid > 0) && (waitpid(pid, &status, 0) == pid) && WIFEXITED(status) &&
           (WEXITSTATUS(status) == 0);
}

int kv_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int num_failed;

    mkv_test_init();
    if ((kv_is_gpu() || kv_is_memory("pinned")) && !kv_has_gpu()) {
        num_failed =
            mkv_test_skip("gpu", "all", "no HIP runtime with a device") ? 1 : 0;
        srunner_free(runner);
        return mkv_test_exit_status(num_failed);
    }
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    return (num_failed == 0) ? 0 : 1;
}
