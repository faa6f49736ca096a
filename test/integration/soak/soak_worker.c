/* SPDX-License-Identifier: BSD-3-Clause */

/* Common parts of prefills and decodes: the context, the cache, connections and maps.
 */

#include "soak.h"

#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <dirent.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOAK_COMPLAINTS 5u

void soak_complain(soak_worker_t *worker, const char *fmt, ...)
{
    va_list args;

    if (worker->slot->complaints++ < SOAK_COMPLAINTS) {
        va_start(args, fmt);
        printf("worker %u: ", worker->index);
        vprintf(fmt, args);
        printf("\n");
        fflush(stdout);
        va_end(args);
    }
}

uint32_t soak_below(soak_worker_t *worker, uint32_t limit)
{
    return (uint32_t)(mkv_test_random(&worker->random) >> 8) % limit;
}

/* ---- The cache ------------------------------------------------------------------- */

static void soak_copy(soak_worker_t *worker, void *to, const void *from, size_t length)
{
    if (!worker->shared->is_gpu) {
        memcpy(to, from, length);
    } else if (!mkv_hip_copy(to, from, length)) {
        soak_complain(worker, "a GPU copy of %zu bytes failed", length);
    }
}

static char *soak_at(const soak_worker_t *worker, unsigned region, uint32_t block)
{
    return worker->mem + region * SOAK_REGION_BYTES + (size_t)block * SOAK_BLOCK_BYTES;
}

void soak_read(soak_worker_t *worker, unsigned region, uint32_t block, void *to)
{
    soak_copy(worker, to, soak_at(worker, region, block), SOAK_BLOCK_BYTES);
}

void soak_write(soak_worker_t *worker, unsigned region, uint32_t block,
                const void *from, size_t length)
{
    soak_copy(worker, soak_at(worker, region, block), from, length);
}

void soak_pattern(unsigned who, unsigned region, uint32_t block, void *to,
                  size_t length)
{
    mkv_pattern_fill(to, length, who + 1,
                     region * SOAK_REGION_BYTES + (uint64_t)block * SOAK_BLOCK_BYTES);
}

void soak_wished(uint64_t seed, uint32_t blocks[SOAK_XFER_BLOCKS])
{
    uint32_t first = (uint32_t)(seed % SOAK_BLOCKS), i;

    for (i = 0; i < SOAK_XFER_BLOCKS; ++i) { /* different ones, and some neighbours */
        blocks[i] = (first + i * (1 + (uint32_t)(seed >> 32) % 3)) % SOAK_BLOCKS;
    }
}

static void soak_make_cache(soak_worker_t *worker)
{
    mkv_region_t region = {.size = sizeof(region),
                           .length = SOAK_REGION_BYTES,
                           .unit_bytes = SOAK_BLOCK_BYTES,
                           .unit_stride = SOAK_BLOCK_BYTES,
                           .n_units = SOAK_BLOCKS};
    size_t length = SOAK_REGIONS * SOAK_REGION_BYTES;
    unsigned i;

    worker->mem =
        worker->shared->is_gpu ? mkv_hip_alloc(length) : aligned_alloc(4096, length);
    if (worker->mem == NULL) {
        printf("worker %u: no memory for the cache\n", worker->index);
        exit(1);
    }
    worker->role->filled(worker);
    for (i = 0; i < SOAK_REGIONS; ++i) {
        region.layer = (int32_t)(i / SOAK_PARTS);
        region.part = (uint16_t)(i % SOAK_PARTS);
        region.base = soak_at(worker, i, 0);
        region.mem_type =
            worker->shared->is_gpu ? UCS_MEMORY_TYPE_ROCM : UCS_MEMORY_TYPE_HOST;
        region.alloc_base = worker->mem;
        region.alloc_length = length;
        SOAK_OK(worker, mkv_region_add(worker->ctx, &region, &worker->ids[i]));
    }
    SOAK_OK(worker, mkv_regions_commit(worker->ctx, NULL));
}

static void soak_free_cache(soak_worker_t *worker)
{
    if (worker->shared->is_gpu) {
        (void)mkv_hip_free(worker->mem);
    } else {
        free(worker->mem);
    }
    worker->mem = NULL;
}

/* ---- Connections ----------------------------------------------------------------- */

soak_link_t *soak_link_of(soak_worker_t *worker, const mkv_peer_t *peer)
{
    unsigned i;

    for (i = 0; i < SOAK_MAX_LINKS; ++i) {
        if ((worker->links[i].peer == peer) && (peer != NULL)) {
            return &worker->links[i];
        }
    }
    return NULL;
}

static void soak_link_up(soak_worker_t *worker, mkv_peer_t *peer)
{
    mkv_peer_attr_t attr = {.size = sizeof(attr)};
    unsigned i;

    SOAK_OK(worker, mkv_peer_query(peer, &attr));
    for (i = 0; (i < SOAK_MAX_LINKS) && (worker->links[i].peer != NULL); ++i) {
    }
    if (i == SOAK_MAX_LINKS) {
        soak_complain(worker, "more than %u connections", i);
        return;
    }
    ++worker->slot->peers;
    worker->links[i] = (soak_link_t){
        .peer = peer, .who = (unsigned)atoi(attr.name + 1), .is_stale = true};
}

/* A map is made when both sides have regions, anew when they have changed, and all is
 * closed when the last transfer of a connection that has ended is quiet */
static void soak_link_step(soak_worker_t *worker, soak_link_t *link)
{
    if ((link->peer == NULL) || (link->num_xfers > 0)) {
        return;
    }
    if ((link->map != NULL) && (link->is_over || link->is_stale)) {
        SOAK_OK(worker, mkv_map_destroy(link->map));
        link->map = NULL;
    }
    if (link->is_over) {
        SOAK_OK(worker, mkv_peer_close(link->peer, MKV_CLOSE_FORCE));
        link->peer = NULL;
    } else if ((worker->mem != NULL) && (link->map == NULL) && link->is_stale &&
               (mkv_map_create(link->peer, NULL, &link->map) == MKV_OK)) {
        link->is_stale = false;
    }
}

static void soak_links_step(soak_worker_t *worker)
{
    unsigned i;

    for (i = 0; i < SOAK_MAX_LINKS; ++i) {
        soak_link_step(worker, &worker->links[i]);
    }
}

static void soak_event(soak_worker_t *worker, const mkv_event_t *event)
{
    soak_link_t *link = soak_link_of(worker, event->peer);

    switch (event->type) {
    case MKV_EV_PEER_READY:
        soak_link_up(worker, event->peer);
        break;
    case MKV_EV_PEER_FAILED:
    case MKV_EV_PEER_CLOSED:
        if (link != NULL) {
            link->is_over = true;
        } else if (event->peer != NULL) { /* it was never READY */
            SOAK_OK(worker, mkv_peer_close(event->peer, MKV_CLOSE_FORCE));
        }
        break;
    case MKV_EV_PEER_REGIONS:
        if (link != NULL) {
            link->is_stale = true;
        }
        break;
    default:
        break;
    }
    worker->role->event(worker, event);
}

/* ---- Work ------------------------------------------------------------------------ */

/* Poll one event at a time: a peer must not be closed while later events of the same
 * poll name it */
static unsigned soak_poll(soak_worker_t *worker)
{
    unsigned count = 0;
    mkv_event_t event;
    size_t num = 1;

    for (; num > 0; count += (unsigned)num) {
        num = 0;
        SOAK_OK(worker, mkv_poll(worker->ctx, &event, sizeof(event), 1, &num));
        if (num > 0) {
            soak_event(worker, &event);
        }
    }
    return count;
}

static void soak_round(soak_worker_t *worker)
{
    struct pollfd pfd = {.events = POLLIN};
    unsigned count = mkv_progress(worker->ctx) > 0;

    count += soak_poll(worker);
    soak_links_step(worker);
    worker->role->step(worker);
    if ((count == 0) && (mkv_event_fd(worker->ctx, &pfd.fd) == MKV_OK) &&
        (mkv_arm(worker->ctx) == MKV_OK)) {
        (void)poll(&pfd, 1, 5);
    }
}

static uint64_t soak_count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t num = 0;

    while ((dir != NULL) && (readdir(dir) != NULL)) {
        ++num;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return num;
}

static void soak_measure(soak_worker_t *worker)
{
    static const int which[] = {-1, 0, -1, 1}; /* by quarter */
    FILE *file = fopen("/proc/self/statm", "r");
    int i = which[worker->shared->quarter % 4];
    unsigned long size, rss = 0;
    uint64_t fds = soak_count_fds();

    if ((file != NULL) && (fscanf(file, "%lu %lu", &size, &rss) != 2)) {
        rss = 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    rss *= (unsigned long)sysconf(_SC_PAGESIZE) / 1024;
    if (i >= 0) {
        worker->slot->rss_kib[i] =
            (rss > worker->slot->rss_kib[i]) ? rss : worker->slot->rss_kib[i];
        worker->slot->fds[i] =
            (fds > worker->slot->fds[i]) ? fds : worker->slot->fds[i];
    }
}

static void soak_print(void *arg, const char *line)
{
    (void)arg;
    printf("    %.300s\n", line);
}

/* Run until all transfers are closed; the limit serves only to end a hang */
static void soak_wind_up(soak_worker_t *worker)
{
    uint64_t start = mkv_test_now_ms();

    worker->is_winding_up = true;
    while ((worker->num_open > 0) &&
           (mkv_test_now_ms() - start < (uint64_t)mkv_test_limit_ms())) {
        soak_round(worker);
    }
    if (worker->num_open > 0) {
        soak_complain(worker, "%u transfers do not become quiet", worker->num_open);
        (void)mkv_dump(worker->ctx, MKV_DUMP_PEERS | MKV_DUMP_XFERS, soak_print, NULL);
        fflush(stdout);
    }
}

/* Free all memory, and allocate it again */
static void soak_sleep(soak_worker_t *worker)
{
    unsigned i;

    soak_wind_up(worker);
    for (i = 0; i < SOAK_MAX_LINKS; ++i) {
        worker->links[i].is_stale = true;
        if ((worker->links[i].peer != NULL) && (worker->links[i].map != NULL)) {
            SOAK_OK(worker, mkv_map_destroy(worker->links[i].map));
            worker->links[i].map = NULL;
        }
    }
    SOAK_OK(worker, mkv_regions_drop(worker->ctx, worker->ids, SOAK_REGIONS));
    soak_free_cache(worker);
    for (i = 0; i < 20; ++i) { /* peers come and go meanwhile */
        soak_round(worker);
    }
    soak_make_cache(worker);
    ++worker->slot->sleeps;
    worker->slot->must_sleep = false;
    worker->is_winding_up = false;
}

static void soak_open(soak_worker_t *worker)
{
    mkv_open_params_t params = {.size = sizeof(params)};
    char name[16], path[192], next[200];
    static uint8_t blob[1 << 16];
    size_t length = sizeof(blob);
    FILE *file;

    snprintf(name, sizeof(name), "w%u", worker->index);
    params.name = name;
    SOAK_OK(worker, mkv_open(NULL, &params, &worker->ctx));
    soak_make_cache(worker);
    SOAK_OK(worker, mkv_blob(worker->ctx, MKV_BLOB_ADDR, blob, &length));
    snprintf(path, sizeof(path), "%s/%u.blob", worker->shared->dir, worker->index);
    snprintf(next, sizeof(next), "%s.next", path);
    file = fopen(next, "w");
    if ((file == NULL) || (fwrite(blob, length, 1, file) != 1) || (fclose(file) != 0) ||
        (rename(next, path) != 0)) {
        soak_complain(worker, "%s: %m", path);
    }
}

/* Close everything in order, as an application would */
static void soak_close(soak_worker_t *worker)
{
    mkv_status_t status;
    unsigned i;

    for (i = 0; i < SOAK_MAX_LINKS; ++i) {
        if ((worker->links[i].peer != NULL) && (worker->links[i].map != NULL)) {
            SOAK_OK(worker, mkv_map_destroy(worker->links[i].map));
        }
    }
    status = mkv_close(worker->ctx);
    if (status != MKV_OK) {
        soak_complain(worker, "mkv_close: %s", mkv_status_string(status));
    }
    soak_free_cache(worker);
}

int soak_work(soak_shared_t *shared, unsigned index)
{
    static soak_worker_t worker;
    uint64_t next_ms = 0;

    worker.shared = shared;
    worker.slot = &shared->slots[index];
    worker.index = index;
    worker.role = (index < SOAK_PREFILLS) ? &soak_prefill : &soak_decode;
    worker.random = (uint64_t)getpid();
    if (shared->is_gpu) { /* before UCX, which may ask the runtime */
        (void)mkv_hip_set_device((int)index % mkv_hip_num_devices());
    }
    worker.role->start(&worker);
    soak_open(&worker);
    while (shared->phase != SOAK_CLOSE) {
        worker.is_winding_up = (shared->phase != SOAK_RUN) || worker.slot->must_leave;
        soak_round(&worker);
        if (worker.slot->must_leave) {
            break;
        }
        if (worker.slot->must_sleep && (shared->phase == SOAK_RUN)) {
            soak_sleep(&worker);
        }
        if (mkv_test_now_ms() >= next_ms) {
            soak_measure(&worker);
            next_ms = mkv_test_now_ms() + 500;
        }
    }
    soak_wind_up(&worker);
    soak_close(&worker);
    return 0;
}
