/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Launches: registers at the start of a wave (AMDGPUUsage, "Initial Kernel Execution
 * State"), and the schedule. Waves of the resident workgroups take turns at random; a
 * workgroup goes to the die of its number. Memory operations of a wave that has ended
 * without a wait may be under way until the end of the launch.
 */

#include "isa_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* Kernel descriptor for GFX9 to GFX11 */
typedef struct run_descriptor {
    uint32_t group_size;
    uint32_t private_size;
    uint32_t kernarg_size;
    uint8_t reserved0[4];
    int64_t entry;
    uint8_t reserved1[20];
    uint32_t rsrc3;
    uint32_t rsrc1;
    uint32_t rsrc2;
    uint16_t properties;
    uint16_t preload;
    uint8_t reserved2[4];
} run_descriptor_t;

_Static_assert(sizeof(run_descriptor_t) == 64, "kernel descriptor");

#define RUN_RESIDENT_GROUPS 32
#define RUN_MAX_SLICE 48
#define RUN_MAX_WORKGROUP 1024

static const isa_arch_t run_archs[] = {
    {.name = "gfx90a", .lanes = 64, .num_dies = 1},
    {.name = "gfx942", .lanes = 64, .num_dies = 8, .scopes_by_bit = true},
    {.name = "gfx950", .lanes = 64, .num_dies = 8, .scopes_by_bit = true},
    {.name = "gfx1100",
     .lanes = 32,
     .num_dies = 1,
     .has_vs = true,
     .flat_in_order = true},
};

static const isa_arch_t *run_arch(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(run_archs) / sizeof(run_archs[0]); ++i) {
        if (strcmp(run_archs[i].name, name) == 0) {
            return &run_archs[i];
        }
    }
    return NULL;
}

bool isa_arch_is_known(const char *arch)
{
    return run_arch(arch) != NULL;
}

void isa_fail(struct isa_gpu *gpu, const char *format, ...)
{
    va_list args;

    if (gpu->failed) {
        return;
    }
    gpu->failed = true;
    va_start(args, format);
    vsnprintf(gpu->error, sizeof(gpu->error), format, args);
    va_end(args);
}

/* xorshift64* */
uint32_t isa_random(struct isa_gpu *gpu, uint32_t below)
{
    gpu->random ^= gpu->random >> 12;
    gpu->random ^= gpu->random << 25;
    gpu->random ^= gpu->random >> 27;
    return (uint32_t)((gpu->random * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

isa_gpu_t *isa_gpu_create(const char *arch, const isa_memory_t *memory,
                          isa_timing_t timing, uint64_t seed)
{
    isa_gpu_t *gpu = calloc(1, sizeof(*gpu));

    if (gpu == NULL) {
        return NULL;
    }
    gpu->arch = run_arch(arch);
    if (memory != NULL) {
        gpu->memory = *memory;
    }
    gpu->timing = timing;
    gpu->random = seed + UINT64_C(0x9e3779b97f4a7c15);
    if ((gpu->arch == NULL) || (isa_decoder_open(gpu) != 0)) {
        free(gpu);
        return NULL;
    }
    return gpu;
}

void isa_gpu_destroy(isa_gpu_t *gpu)
{
    unsigned i;

    isa_decoder_close(gpu);
    for (i = 0; i < ISA_MAX_DIES; ++i) {
        isa_cache_clear(&gpu->l2[i]);
    }
    free(gpu);
}

const char *isa_gpu_error(const isa_gpu_t *gpu)
{
    return gpu->failed ? gpu->error : "";
}

uint64_t isa_gpu_executed(const isa_gpu_t *gpu)
{
    return gpu->executed;
}

static void run_push(isa_wave_t *wave, unsigned *at, uint64_t value, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; ++i) {
        wave->scalar[*at + i] = (i < 2) ? (uint32_t)(value >> (32 * i)) : 0;
    }
    *at += count;
}

/* User SGPRs, then the workgroup's numbers. Arguments are not preloaded: as on firmware
 * that cannot, the kernel's first 256 bytes load them (AMDGPUUsage, "Preloaded Kernel
 * Arguments"). */
static void run_init_scalars(isa_wave_t *wave, const isa_launch_t *launch,
                             const run_descriptor_t *kd, const uint32_t group[3])
{
    unsigned at = 0;
    unsigned i;

    if (kd->properties & 0x01) {
        run_push(wave, &at, 0, 4); /* private segment buffer */
    }
    if (kd->properties & 0x02) {
        run_push(wave, &at, launch->packet, 2);
    }
    if (kd->properties & 0x04) {
        run_push(wave, &at, 0, 2); /* queue */
    }
    if (kd->properties & 0x08) {
        run_push(wave, &at, launch->kernarg, 2);
    }
    if (kd->properties & 0x10) {
        run_push(wave, &at, 0, 2); /* dispatch ID */
    }
    at = (kd->rsrc2 >> 1) & 31;
    for (i = 0; i < 3; ++i) {
        if ((kd->rsrc2 >> (7 + i)) & 1) {
            run_push(wave, &at, group[i], 1);
        }
    }
}

/* Numbers of the work-items in the first register, ten bits each */
static void run_init_wave(isa_wave_t *wave, const isa_launch_t *launch, unsigned first)
{
    unsigned lanes = wave->gpu->arch->lanes;
    unsigned x = launch->workgroup[0];
    unsigned y = launch->workgroup[1];
    unsigned size = x * y * launch->workgroup[2];
    uint64_t exec = 0;
    unsigned lane, item;

    for (lane = 0; lane < lanes; ++lane) {
        item = first + lane;
        if (item < size) {
            exec |= UINT64_C(1) << lane;
            wave->vector[0][lane] =
                (item % x) | (((item / x) % y) << 10) | ((item / x / y) << 20);
        }
    }
    wave->scalar[ISA_EXEC] = (uint32_t)exec;
    wave->scalar[ISA_EXEC + 1] = (uint32_t)(exec >> 32);
}

static void group_destroy(isa_group_t *group)
{
    unsigned i;

    for (i = 0; (group->waves != NULL) && (i < group->num_waves); ++i) {
        isa_drop(&group->waves[i]);
        free(group->waves[i].vector);
    }
    isa_cache_clear(&group->l1);
    free(group->waves);
    free(group->lds);
    free(group);
}

/* Registers and LDS begin with random contents. */
static int group_fill(isa_gpu_t *gpu, isa_group_t *group, const run_descriptor_t *kd)
{
    unsigned granule = (gpu->arch->lanes == 64) ? 8 : 16;
    unsigned num_vectors = ((kd->rsrc1 & 63) + 1) * granule;
    unsigned i, j;

    group->lds = malloc(group->lds_size + 1);
    group->waves = calloc(group->num_waves, sizeof(*group->waves));
    if ((group->lds == NULL) || (group->waves == NULL)) {
        return -1;
    }
    memset(group->lds, (int)isa_random(gpu, 256), group->lds_size);
    for (i = 0; i < group->num_waves; ++i) {
        isa_wave_t *wave = &group->waves[i];

        wave->gpu = gpu;
        wave->group = group;
        wave->num_vectors = num_vectors;
        wave->vector = malloc(num_vectors * sizeof(*wave->vector));
        if (wave->vector == NULL) {
            return -1;
        }
        memset(wave->vector, (int)isa_random(gpu, 256),
               num_vectors * sizeof(*wave->vector));
        for (j = 0; j < ISA_NUM_SCALARS; ++j) {
            wave->scalar[j] = isa_random(gpu, UINT32_MAX);
        }
    }
    return 0;
}

static isa_group_t *group_create(isa_gpu_t *gpu, const isa_launch_t *launch,
                                 uint64_t number)
{
    const run_descriptor_t *kd =
        (const run_descriptor_t *)(uintptr_t)launch->kernel_object;
    unsigned size = launch->workgroup[0] * launch->workgroup[1] * launch->workgroup[2];
    isa_group_t *group = calloc(1, sizeof(*group));
    uint32_t place[3];
    unsigned i;

    if (group == NULL) {
        return NULL;
    }
    group->gpu = gpu;
    group->die = (unsigned)(number % gpu->arch->num_dies);
    group->num_waves = (size + gpu->arch->lanes - 1) / gpu->arch->lanes;
    group->lds_size =
        (launch->group_size > kd->group_size) ? launch->group_size : kd->group_size;
    if (group_fill(gpu, group, kd) != 0) {
        group_destroy(group);
        return NULL;
    }
    for (i = 0; i < 3; ++i) {
        place[i] = (uint32_t)(number % (launch->grid[i] / launch->workgroup[i]));
        number /= launch->grid[i] / launch->workgroup[i];
    }
    for (i = 0; i < group->num_waves; ++i) {
        group->waves[i].pc = launch->kernel_object + (uint64_t)kd->entry;
        run_init_scalars(&group->waves[i], launch, kd, place);
        run_init_wave(&group->waves[i], launch, i * gpu->arch->lanes);
    }
    return group;
}

static void wave_step(isa_wave_t *wave)
{
    const isa_inst_t *inst = isa_decode(wave->gpu, wave->pc);

    if (inst == NULL) {
        return;
    }
    wave->pc += inst->size;
    inst->op->exec(wave, inst);
    ++wave->gpu->executed;
    if (wave->gpu->timing == ISA_RANDOM) {
        isa_complete_some(wave);
    }
}

static void group_leave_barrier(isa_group_t *group)
{
    unsigned i;

    if ((group->num_at_barrier == 0) ||
        (group->num_at_barrier + group->num_ended < group->num_waves)) {
        return;
    }
    for (i = 0; i < group->num_waves; ++i) {
        if (group->waves[i].state == ISA_AT_BARRIER) {
            group->waves[i].state = ISA_RUNNING;
        }
    }
    group->num_at_barrier = 0;
}

/* A random wave of those in a state; NULL if there is none. */
static isa_wave_t *group_pick(isa_gpu_t *gpu, isa_group_t *group, isa_state_t state)
{
    isa_wave_t *picked = NULL;
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < group->num_waves; ++i) {
        if ((group->waves[i].state == state) && (isa_random(gpu, ++count) == 0)) {
            picked = &group->waves[i];
        }
    }
    return picked;
}

static bool group_run_some(isa_gpu_t *gpu, isa_group_t *group)
{
    isa_wave_t *wave = group_pick(gpu, group, ISA_RUNNING);
    unsigned slice = 1 + isa_random(gpu, RUN_MAX_SLICE);

    if (wave == NULL) {
        return false;
    }
    while ((slice-- > 0) && (wave->state == ISA_RUNNING) && !gpu->failed) {
        wave_step(wave);
    }
    group_leave_barrier(group);
    return true;
}

/* End the wait of a random waiting wave, slow ones last, so that other waves may pass
 * several waits before them. */
static bool run_end_a_wait(isa_gpu_t *gpu)
{
    isa_wave_t *picked = NULL;
    unsigned count = 0;
    isa_group_t *group;
    isa_wave_t *wave;

    for (group = gpu->groups; group != NULL; group = group->next) {
        wave = group_pick(gpu, group, ISA_WAITING);
        if (wave == NULL) {
            continue;
        }
        if ((picked == NULL) || (picked->is_slow && !wave->is_slow)) {
            picked = wave;
            count = 1;
        } else if ((picked->is_slow == wave->is_slow) &&
                   (isa_random(gpu, ++count) == 0)) {
            picked = wave;
        }
    }
    if (picked != NULL) {
        isa_wait_end(picked);
    }
    return picked != NULL;
}

/* Waits last until nothing else can run, or any time. */
static void run_pass(isa_gpu_t *gpu)
{
    bool has_run = false;
    isa_group_t *group;

    for (group = gpu->groups; (group != NULL) && !gpu->failed; group = group->next) {
        has_run |= group_run_some(gpu, group);
    }
    if (!has_run || ((gpu->timing == ISA_RANDOM) && (isa_random(gpu, 2) == 0))) {
        has_run |= run_end_a_wait(gpu);
    }
    if (!has_run) {
        isa_fail(gpu, "all waves wait at a barrier for one that has ended");
    }
}

/* A line leaves the cache when another one needs its place, which may be at any time.
 */
static void run_evict(isa_gpu_t *gpu)
{
    isa_cache_t *l2 = &gpu->l2[isa_random(gpu, gpu->arch->num_dies)];
    isa_line_t *lines, *next;

    if ((gpu->timing != ISA_RANDOM) || (isa_random(gpu, 256) != 0)) {
        return;
    }
    for (lines = isa_cache_take_dirty(l2); lines != NULL; lines = next) {
        next = lines->next;
        lines->next = NULL;
        isa_write_lines(gpu, lines);
        free(lines);
    }
}

static unsigned run_remove_ended(isa_gpu_t *gpu)
{
    isa_group_t **link = &gpu->groups;
    unsigned count = 0;
    isa_group_t *group;

    while ((group = *link) != NULL) {
        if (group->num_ended < group->num_waves) {
            link = &group->next;
            ++count;
            continue;
        }
        *link = group->next;
        group->next = gpu->finished;
        gpu->finished = group;
    }
    return count;
}

static void run_groups(isa_gpu_t *gpu, const isa_launch_t *launch, uint64_t total)
{
    uint64_t next = 0;
    unsigned resident = 0;
    isa_group_t *group;

    while (!gpu->failed && ((next < total) || (resident > 0))) {
        while ((next < total) && (resident < RUN_RESIDENT_GROUPS)) {
            group = group_create(gpu, launch, next++);
            if (group == NULL) {
                isa_fail(gpu, "no memory for a workgroup");
                return;
            }
            group->next = gpu->groups;
            gpu->groups = group;
            ++resident;
        }
        run_pass(gpu);
        run_evict(gpu);
        resident = run_remove_ended(gpu);
        if ((gpu->memory.stopped != NULL) && gpu->memory.stopped(gpu->memory.arg)) {
            isa_fail(gpu, "the launch was stopped");
        }
    }
}

static void run_begin(isa_gpu_t *gpu, isa_scope_t acquire)
{
    unsigned i;

    for (i = 0; (i < gpu->arch->num_dies) && (acquire == ISA_SCOPE_SYSTEM); ++i) {
        isa_cache_invalidate(&gpu->l2[i]);
    }
}

/* All operations come to their end; a release writes the caches back. */
static void run_end(isa_gpu_t *gpu, isa_scope_t release)
{
    isa_line_t *lines, *next;
    isa_group_t *group;
    unsigned i;

    while ((group = gpu->finished) != NULL) {
        gpu->finished = group->next;
        for (i = 0; i < group->num_waves; ++i) {
            isa_perform_memory(&group->waves[i]);
        }
        group_destroy(group);
    }
    while ((group = gpu->groups) != NULL) {
        gpu->groups = group->next;
        group_destroy(group);
    }
    for (i = 0; (i < gpu->arch->num_dies) && (release != ISA_SCOPE_NONE); ++i) {
        lines = isa_cache_take_dirty(&gpu->l2[i]);
        isa_write_lines(gpu, lines);
        for (; lines != NULL; lines = next) {
            next = lines->next;
            free(lines);
        }
    }
}

static bool run_check(isa_gpu_t *gpu, const isa_launch_t *launch)
{
    const run_descriptor_t *kd =
        (const run_descriptor_t *)(uintptr_t)launch->kernel_object;
    uint64_t size = 1;
    unsigned i;

    for (i = 0; i < 3; ++i) {
        if ((launch->workgroup[i] == 0) ||
            (launch->grid[i] % launch->workgroup[i] != 0)) {
            isa_fail(gpu, "grid %u is not a multiple of workgroup %u: not implemented",
                     launch->grid[i], launch->workgroup[i]);
            return false;
        }
        size *= launch->workgroup[i];
    }
    if (size > RUN_MAX_WORKGROUP) {
        isa_fail(gpu, "a workgroup of %lu work-items, at most %d are possible",
                 (unsigned long)size, RUN_MAX_WORKGROUP);
        return false;
    }
    if ((kd->private_size != 0) || (kd->rsrc2 & 1)) {
        isa_fail(gpu, "the kernel uses scratch memory, which is not implemented");
        return false;
    }
    return true;
}

int isa_gpu_check_launch(isa_gpu_t *gpu, const isa_launch_t *launch)
{
    const run_descriptor_t *kd =
        (const run_descriptor_t *)(uintptr_t)launch->kernel_object;
    uint64_t pc = launch->kernel_object + (uint64_t)kd->entry;
    const isa_inst_t *inst;

    gpu->failed = false;
    if (!run_check(gpu, launch)) {
        return -1;
    }
    do {
        inst = isa_decode(gpu, pc);
        if (inst == NULL) {
            return -1;
        }
        pc += inst->size;
    } while (strcmp(inst->op->name, "s_endpgm") != 0);
    return 0;
}

int isa_gpu_launch(isa_gpu_t *gpu, const isa_launch_t *launch)
{
    uint64_t total = 1;
    unsigned i;

    gpu->failed = false;
    if (!run_check(gpu, launch)) {
        return -1;
    }
    for (i = 0; i < 3; ++i) {
        total *= launch->grid[i] / launch->workgroup[i];
    }
    run_begin(gpu, launch->acquire);
    run_groups(gpu, launch, total);
    run_end(gpu, launch->release);
    return gpu->failed ? -1 : 0;
}
