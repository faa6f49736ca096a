/* SPDX-License-Identifier: BSD-3-Clause */

#include "copy_rig.h"

#include "test/support/mkv_check.h"
#include "xgmi/copy/xgmi_code.h"

#include <string.h>


const char *const copy_rig_archs[] = {"gfx90a", "gfx942", "gfx950", "gfx1100", NULL};

/* Arguments behind those of the kernel (AMDGPUUsage, "Code Object V5 Metadata"). */
typedef struct rig_hidden {
    uint32_t block_count[3];
    uint16_t group_size[3];
    uint16_t remainder[3];
} rig_hidden_t;

static bool is_within(uint64_t address, size_t length, const void *base, size_t size)
{
    uint64_t offset = address - (uintptr_t)base;

    return (offset < size) && (length <= size - offset);
}

static bool rig_is_host_memory(void *arg, uint64_t address)
{
    copy_rig_t *rig = arg;

    return is_within(address, 1, rig->memory,
                     COPY_RIG_MAX_ENTRIES * sizeof(*rig->memory)) ||
           is_within(address, 1, &rig->flag, sizeof(rig->flag)) ||
           is_within(address, 1, rig->kernarg, sizeof(rig->kernarg));
}

static bool rig_may_access(void *arg, uint64_t address, size_t length)
{
    copy_rig_t *rig = arg;

    return is_within(address, length, rig->src, rig->size) ||
           is_within(address, length, rig->dst, rig->size) ||
           is_within(address, length, rig->memory,
                     muct_xgmi_list_count(&rig->list) * sizeof(*rig->memory)) ||
           is_within(address, length, &rig->arrivals, sizeof(rig->arrivals)) ||
           is_within(address, length, &rig->flag, sizeof(rig->flag)) ||
           is_within(address, length, rig->kernarg, sizeof(rig->kernarg));
}

/* The host sees the flag at once, and reads the bytes. */
static void rig_written(void *arg, uint64_t address, size_t length)
{
    copy_rig_t *rig = arg;

    (void)length;
    if ((address == (uintptr_t)&rig->flag) && (rig->flag == COPY_RIG_SEQUENCE)) {
        ++rig->num_flags;
        rig->flag_was_early |= (memcmp(rig->dst, rig->expected, rig->size) != 0);
    }
}

void copy_rig_init(copy_rig_t *rig, const char *arch, isa_timing_t timing,
                   uint64_t seed, size_t size)
{
    const isa_memory_t memory = {
        .arg = rig,
        .may_access = rig_may_access,
        .is_uncached = rig_is_host_memory,
        .written = rig_written,
    };
    size_t i;

    memset(rig, 0, sizeof(*rig));
    rig->arch = arch;
    rig->size = size;
    MKV_REQUIRE(isa_code_load(muct_xgmi_code_image(), arch, &rig->code) == 0,
                "the bundle has no code for %s", arch);
    rig->has_flag =
        (isa_code_symbol(&rig->code, MUCT_XGMI_FLAG_IS_LAST_NAME, NULL) != NULL);
    rig->gpu = isa_gpu_create(arch, &memory, timing, seed);
    rig->src = malloc(size);
    rig->dst = calloc(1, size);
    rig->expected = calloc(1, size);
    rig->memory = aligned_alloc(32, COPY_RIG_MAX_ENTRIES * sizeof(*rig->memory));
    MKV_REQUIRE((rig->gpu != NULL) && (rig->src != NULL) && (rig->dst != NULL) &&
                    (rig->expected != NULL) && (rig->memory != NULL),
                "no interpreter of %s", arch);
    srand((unsigned)seed);
    for (i = 0; i < size; ++i) {
        rig->src[i] = (uint8_t)(1 + (rand() % 255));
    }
    copy_rig_clear(rig);
}

void copy_rig_destroy(copy_rig_t *rig)
{
    isa_gpu_destroy(rig->gpu);
    isa_code_unload(&rig->code);
    free(rig->src);
    free(rig->dst);
    free(rig->expected);
    free(rig->memory);
}

void copy_rig_clear(copy_rig_t *rig)
{
    memset(rig->dst, 0, rig->size);
    memset(rig->expected, 0, rig->size);
    muct_xgmi_list_init(&rig->list, rig->memory, COPY_RIG_MAX_ENTRIES);
}

bool copy_rig_add(copy_rig_t *rig, size_t to, size_t from, size_t length)
{
    MKV_REQUIRE((to + length <= rig->size) && (from + length <= rig->size),
                "%zu bytes from %zu to %zu of %zu", length, from, to, rig->size);
    if (!muct_xgmi_list_add(&rig->list, (uintptr_t)rig->dst + to,
                            (uintptr_t)rig->src + from, length)) {
        return false;
    }
    memcpy(rig->expected + to, rig->src + from, length);
    return true;
}

bool copy_rig_add_run(copy_rig_t *rig, const muct_xgmi_strided_t *run)
{
    muct_xgmi_strided_t pieces = *run;
    uint32_t i;

    pieces.dst += (uintptr_t)rig->dst;
    pieces.src += (uintptr_t)rig->src;
    if (!muct_xgmi_list_add_run(&rig->list, &pieces)) {
        return false;
    }
    for (i = 0; i < run->count; ++i) {
        memcpy(rig->expected + run->dst + (i * run->dst_stride),
               rig->src + run->src + (i * run->src_stride), run->piece);
    }
    return true;
}

static uint32_t rig_entry_of(const copy_rig_t *rig, uint64_t tile)
{
    uint32_t i = 0;

    while ((i + 1 < muct_xgmi_list_count(&rig->list)) &&
           (muct_xgmi_place_tile(rig->memory[i + 1].place) <= tile)) {
        ++i;
    }
    return i;
}

/* test_xgmi_kernel.c does the same for the kernel's source. */
static void rig_give_tail(const copy_rig_t *rig, muct_xgmi_launch_t *launch)
{
    muct_xgmi_copy_args_t *args = &launch->args;
    uint64_t shared = args->num_tiles / 2;
    uint32_t block;

    if ((launch->num_blocks == 1) || (shared < launch->num_blocks)) {
        return;
    }
    args->block_tiles = shared / launch->num_blocks;
    args->extra_blocks = (uint32_t)(shared % launch->num_blocks);
    for (block = 0; block <= launch->num_blocks; ++block) {
        args->first_entry[block] = rig_entry_of(rig, muct_xgmi_block_tile(args, block));
    }
}

static void rig_fill_kernarg(copy_rig_t *rig, const muct_xgmi_launch_t *launch)
{
    rig_hidden_t hidden = {
        .block_count = {launch->num_blocks, 1, 1},
        .group_size = {(uint16_t)launch->block_size, 1, 1},
    };

    memcpy(rig->kernarg, &launch->args, sizeof(launch->args));
    memcpy(rig->kernarg + sizeof(launch->args), &hidden, sizeof(hidden));
}

int copy_rig_run(copy_rig_t *rig, uint32_t max_blocks, uint32_t block_size,
                 bool with_tail, isa_scope_t acquire)
{
    muct_xgmi_launch_t launch;
    isa_launch_t dispatch = {
        .kernel_object =
            (uintptr_t)isa_code_symbol(&rig->code, MUCT_XGMI_KERNEL_NAME ".kd", NULL),
        .kernarg = (uintptr_t)rig->kernarg,
        .acquire = acquire,
        .release = ISA_SCOPE_SYSTEM,
    };

    MKV_REQUIRE(dispatch.kernel_object != 0, "%s: no kernel", rig->arch);
    muct_xgmi_list_finish(&rig->list, max_blocks, &launch);
    if (block_size != 0) {
        launch.block_size = block_size;
    }
    if (with_tail) {
        rig_give_tail(rig, &launch);
    }
    launch.args.arrivals = (uintptr_t)&rig->arrivals;
    launch.args.flag = rig->has_flag ? (uintptr_t)&rig->flag : 0;
    launch.args.sequence = COPY_RIG_SEQUENCE;
    rig_fill_kernarg(rig, &launch);
    dispatch.grid[0] = launch.num_blocks * launch.block_size;
    dispatch.grid[1] = dispatch.grid[2] = 1;
    dispatch.workgroup[0] = (uint16_t)launch.block_size;
    dispatch.workgroup[1] = dispatch.workgroup[2] = 1;
    rig->flag = 0;
    rig->num_flags = 0;
    rig->flag_was_early = false;
    return isa_gpu_launch(rig->gpu, &dispatch);
}
