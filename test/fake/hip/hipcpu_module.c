/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Modules hold one kernel, the project's own, written here a second time in C from
 * the same header. Everything a GPU would trust is checked: that list, flag and
 * counter are where a kernel reaches them, that entries and tiles add up, and that
 * every byte belongs to memory the device may touch.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"
#include "hipcpu_watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HIPCPU_MODULE_ALIVE 0x4d4f4455u
#define HIPCPU_MODULE_DEAD 0x44454144u

struct hipcpu_function {
    struct hipcpu_module *module;
};

struct hipcpu_module {
    uint32_t mark;
    bool is_flag_last;
    struct hipcpu_function copy;
    struct hipcpu_function marker;
    struct hipcpu_function watch;
};


hipError_t hipModuleLoadData(hipModule_t *module_p, const void *image)
{
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    static const char packed[] = "CCOB";
    static const char elf[] = "\177ELF";
    hipModule_t module;

    HIPCPU_ENTER(hipModuleLoadData);
    if (image == NULL) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if ((memcmp(image, packed, 4) != 0) && (memcmp(image, elf, 4) != 0) &&
        (memcmp(image, bundle, sizeof(bundle) - 1) != 0)) {
        return hipcpu_result(hipErrorInvalidImage);
    }

    module = calloc(1, sizeof(*module));
    if (module == NULL) {
        return hipcpu_result(hipErrorOutOfMemory);
    }
    module->mark = HIPCPU_MODULE_ALIVE;
    module->copy.module = module;
    module->marker.module = module;
    module->watch.module = module;
    module->is_flag_last = (strncmp(hipcpu_config.arch, "gfx9", 4) == 0);
    ++hipcpu_counts[HIPCPU_MODULES];
    *module_p = module;
    return hipSuccess;
}

static void hipcpu_module_check(hipModule_t module, const char *function)
{
    if (module->mark != HIPCPU_MODULE_ALIVE) {
        hipcpu_misuse("%s: module %p %s", function, (void *)module,
                      (module->mark == HIPCPU_MODULE_DEAD) ? "was unloaded"
                                                           : "is no module");
    }
}

hipError_t hipModuleUnload(hipModule_t module)
{
    HIPCPU_ENTER(hipModuleUnload);
    hipcpu_module_check(module, "hipModuleUnload");
    hipcpu_lines_drain(-1);
    module->mark = HIPCPU_MODULE_DEAD;
    hipcpu_quarantine(module);
    --hipcpu_counts[HIPCPU_MODULES];
    return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module,
                                const char *name)
{
    HIPCPU_ENTER(hipModuleGetFunction);
    hipcpu_module_check(module, "hipModuleGetFunction");
    if (strcmp(name, MUCT_XGMI_KERNEL_NAME) == 0) {
        *function = &module->copy;
        return hipSuccess;
    }
    if (strcmp(name, RISKS_WATCH_NAME) == 0) {
        *function = &module->watch;
        return hipSuccess;
    }
    if (module->is_flag_last && (strcmp(name, MUCT_XGMI_FLAG_IS_LAST_NAME) == 0)) {
        *function = &module->marker;
        return hipSuccess;
    }
    return hipcpu_result(hipErrorNotFound);
}

/* Shorter runs are left alone: the module's own messages consist of them. */
#define HIPCPU_WRONG_FROM 4096

/* @param is_released  By the kernel itself, before it writes its flag. */
static void hipcpu_move(int device, uintptr_t dst, uintptr_t src, size_t size,
                        bool is_released)
{
    size_t dst_part, src_part, part;
    char *to, *from;

    /* neighbouring allocations may have become one entry */
    while (size > 0) {
        to = hipcpu_resolve("kernel destination", device, dst, size, &dst_part);
        from = hipcpu_resolve("kernel source", device, src, size, &src_part);
        part = (dst_part < src_part) ? dst_part : src_part;
        if (is_released || !hipcpu_late_take(to, from, part)) {
            memmove(to, from, part);
        }
        if ((part >= HIPCPU_WRONG_FROM) &&
            (hipcpu_rule(HIPCPU_RULE_WRONG_BYTE) || hipcpu_is_stale_map(src))) {
            to[part / 2] ^= 1;
        }
        hipcpu_count(dst, src, part);
        dst += part;
        src += part;
        size -= part;
    }
}

/* The shape of an entry; NULL: it is a single piece. A GPU faults on a vector that is
 * not aligned. */
static const muct_xgmi_shape_t *hipcpu_kernel_shape(const muct_xgmi_copy_args_t *args,
                                                    const muct_xgmi_entry_t *entry)
{
    uint32_t number = muct_xgmi_place_shape(entry->place);
    const muct_xgmi_shape_t *shape;

    if (number == 0) {
        return NULL;
    }

    shape = &args->shapes[number - 1];
    if ((number > args->num_shapes) || (entry->length > MUCT_XGMI_MAX_PIECES) ||
        (((entry->dst | entry->src | shape->dst_stride | shape->src_stride) %
          shape->unit) != 0) ||
        (shape->units * shape->unit != shape->piece) ||
        (shape->units * shape->tile_pieces > MUCT_XGMI_TILE_UNITS)) {
        hipcpu_misuse("kernel: %llu pieces of shape %u of %u: %u units of %u of %u "
                      "bytes, from %p to %p",
                      (unsigned long long)entry->length, number, args->num_shapes,
                      shape->units, shape->unit, shape->piece,
                      (void *)(uintptr_t)entry->src, (void *)(uintptr_t)entry->dst);
    }
    return shape;
}

/* Some tiles of an entry, from one counted from its first one to before another. */
static void hipcpu_kernel_tiles(const hipcpu_op_t *op, const muct_xgmi_entry_t *entry,
                                const muct_xgmi_shape_t *shape, uint64_t first,
                                uint64_t last)
{
    bool is_released = op->u.launch.is_flag_last;
    uint64_t begin, stop, i;

    if (shape == NULL) {
        begin = muct_xgmi_tile_start(entry->dst, first);
        stop = muct_xgmi_tile_start(entry->dst, last);
        stop = (last == muct_xgmi_tile_count(entry->dst, entry->length)) ? entry->length
                                                                         : stop;
        hipcpu_move(op->device, entry->dst + begin, entry->src + begin, stop - begin,
                    is_released);
        return;
    }
    for (i = first * shape->tile_pieces;
         (i < last * shape->tile_pieces) && (i < entry->length); ++i) {
        hipcpu_move(op->device, entry->dst + (i * shape->dst_stride),
                    entry->src + (i * shape->src_stride), shape->piece, is_released);
    }
}

/* Run one thread block. The block after the last one is the tail: tiles that begin
 * inside an entry. */
static void hipcpu_kernel_block(const hipcpu_op_t *op, const muct_xgmi_entry_t *entries,
                                uint32_t block)
{
    const muct_xgmi_copy_args_t *args = &op->u.launch.args;
    uint64_t tile = muct_xgmi_block_tile(args, block);
    uint64_t end = (block < op->u.launch.num_blocks)
                       ? muct_xgmi_block_tile(args, block + 1)
                       : args->num_tiles;
    uint32_t i = args->first_entry[block];
    uint64_t first, last;
    const muct_xgmi_entry_t *entry;
    const muct_xgmi_shape_t *shape;

    for (; tile < end; ++i) {
        if (i >= args->num_entries) {
            hipcpu_misuse("kernel: block %u runs past the %u entries of its list",
                          block, args->num_entries);
        }
        entry = &entries[i];
        shape = hipcpu_kernel_shape(args, entry);
        first = muct_xgmi_place_tile(entry->place);
        last = first +
               muct_xgmi_entry_tiles(args, entry->dst, entry->length, entry->place);
        if ((entry->length == 0) || (tile < first) || (tile >= last)) {
            hipcpu_misuse("kernel: tile %llu is not in entry %u of length %llu",
                          (unsigned long long)tile, i,
                          (unsigned long long)entry->length);
        }

        last = (end < last) ? end : last;
        hipcpu_kernel_tiles(op, entry, shape, tile - first, last - first);
        tile = last;
    }
}

/* release: a thread that sees the flag sees all earlier writes */
static void hipcpu_kernel_set_flag(const hipcpu_op_t *op)
{
    uint32_t *flag;

    if (op->u.launch.args.flag != 0) {
        flag = (void *)hipcpu_resolve("kernel flag", op->device, op->u.launch.args.flag,
                                      4, NULL);
        __atomic_store_n(flag, op->u.launch.args.sequence, __ATOMIC_RELEASE);
    }
}

static void hipcpu_kernel_run(hipcpu_op_t *op)
{
    const struct timespec late = {.tv_nsec = HIPCPU_LATE_NS};
    const muct_xgmi_copy_args_t *args = &op->u.launch.args;
    bool is_late =
        (hipcpu_rule(HIPCPU_RULE_LATE_CACHES) && !op->u.launch.is_flag_last) ||
        hipcpu_rule(HIPCPU_RULE_EARLY_FLAG);
    const muct_xgmi_entry_t *entries;
    uint32_t *arrivals;
    uint32_t block, before;

    /* kept other than 0 until the end: no other launch may have it meanwhile */
    arrivals =
        (void *)hipcpu_resolve("kernel arrivals", op->device, args->arrivals, 4, NULL);
    before = __atomic_exchange_n(arrivals, MUCT_XGMI_ARRIVAL, __ATOMIC_ACQ_REL);
    if (before != 0) {
        hipcpu_misuse("kernel: the counter of arrivals is %u at the start", before);
    }
    hipcpu_late_land();
    if (is_late) {
        hipcpu_kernel_set_flag(op);
        nanosleep(&late, NULL);
    }
    if (hipcpu_config.is_copy_on) {
        entries = (void *)hipcpu_resolve("kernel list", op->device, args->entries,
                                         args->num_entries * sizeof(*entries), NULL);
        for (block = 0; block <= op->u.launch.num_blocks; ++block) {
            hipcpu_kernel_block(op, entries, block);
        }
    }
    __atomic_store_n(arrivals, 0, __ATOMIC_RELEASE);
    op->is_flagged = (args->flag != 0) && !is_late;
    if (!is_late) {
        hipcpu_kernel_set_flag(op);
    }
}

static bool hipcpu_piece_uses(uint64_t dst, uint64_t src, uint64_t length,
                              uintptr_t base, size_t size)
{
    return ((dst < base + size) && (base < dst + length)) ||
           ((src < base + size) && (base < src + length));
}

static bool hipcpu_entry_uses(const muct_xgmi_copy_args_t *args,
                              const muct_xgmi_entry_t *entry, uintptr_t base,
                              size_t size)
{
    const muct_xgmi_shape_t *shape = hipcpu_kernel_shape(args, entry);
    uint64_t i;

    if (shape == NULL) {
        return hipcpu_piece_uses(entry->dst, entry->src, entry->length, base, size);
    }
    for (i = 0; i < entry->length; ++i) {
        if (hipcpu_piece_uses(entry->dst + (i * shape->dst_stride),
                              entry->src + (i * shape->src_stride), shape->piece, base,
                              size)) {
            return true;
        }
    }
    return false;
}

static bool hipcpu_kernel_uses(const hipcpu_op_t *op, uintptr_t base, size_t size)
{
    const muct_xgmi_copy_args_t *args = &op->u.launch.args;
    const muct_xgmi_entry_t *entry = (const void *)(uintptr_t)args->entries;
    uint32_t i;

    if ((args->entries < base + size) && (base < args->entries + 1)) {
        return true;
    }
    for (i = 0; i < args->num_entries; ++i, ++entry) {
        if (hipcpu_entry_uses(args, entry, base, size)) {
            return true;
        }
    }
    return false;
}

/* first_entry is set for a tail. */
static bool hipcpu_tail_is_good(const muct_xgmi_copy_args_t *args, unsigned grid)
{
    uint64_t tail = args->num_tiles - muct_xgmi_block_tile(args, grid);
    uint32_t count = args->num_entries - args->first_entry[grid];

    return ((tail == 0) == (count == 0)) && (count <= args->num_entries) &&
           (tail <= MUCT_XGMI_MAX_TAIL_TILES) && ((tail == 0) || (grid > 1));
}

static void hipcpu_launch_check(const muct_xgmi_copy_args_t *args, unsigned grid,
                                unsigned block)
{
    hipcpu_range_t range;

    if (args->version != MUCT_XGMI_KERNEL_VERSION) {
        hipcpu_misuse("kernel argument of version %u, expected %d", args->version,
                      MUCT_XGMI_KERNEL_VERSION);
    }
    if ((grid == 0) || (grid > MUCT_XGMI_MAX_BLOCKS) || (args->num_entries == 0) ||
        (args->num_tiles < grid) || !hipcpu_tail_is_good(args, grid) ||
        ((block % MUCT_XGMI_MIN_THREADS) != 0)) {
        hipcpu_misuse("kernel: %u blocks of %u threads for %u entries of %llu tiles",
                      grid, block, args->num_entries,
                      (unsigned long long)args->num_tiles);
    }
    if (!hipcpu_range_find(args->entries, &range) ||
        ((range.kind != HIPCPU_PINNED) && (range.kind != HIPCPU_REGISTERED)) ||
        ((args->entries % sizeof(muct_xgmi_entry_t)) != 0)) {
        hipcpu_misuse("kernel: list at %p, expected aligned pinned host memory",
                      (void *)(uintptr_t)args->entries);
    }
    if (!hipcpu_range_find(args->arrivals, &range) || (range.kind != HIPCPU_DEVICE)) {
        hipcpu_misuse("kernel: arrivals at %p, expected device memory",
                      (void *)(uintptr_t)args->arrivals);
    }
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x,
                                 unsigned grid_y, unsigned grid_z, unsigned block_x,
                                 unsigned block_y, unsigned block_z,
                                 unsigned shared_bytes, hipStream_t stream,
                                 void **params, void **extra)
{
    hipcpu_op_t op = {.run = hipcpu_kernel_run, .uses = hipcpu_kernel_uses};

    HIPCPU_ENTER(hipModuleLaunchKernel);
    if ((function == NULL) || (params == NULL) || (extra != NULL) || (grid_y != 1) ||
        (grid_z != 1) || (block_y != 1) || (block_z != 1) || (shared_bytes != 0)) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if ((block_x == 0) || (block_x > MUCT_XGMI_MAX_THREADS)) {
        return hipcpu_result(hipErrorInvalidConfiguration);
    }

    hipcpu_module_check(function->module, "hipModuleLaunchKernel");
    if (function == &function->module->watch) {
        hipcpu_watch_launch(stream, params);
        return hipSuccess;
    }
    memcpy(&op.u.launch.args, params[0], sizeof(op.u.launch.args));
    op.u.launch.num_blocks = grid_x;
    op.u.launch.is_flag_last = function->module->is_flag_last;
    hipcpu_launch_check(&op.u.launch.args, grid_x, block_x);
    hipcpu_keep_command(hipcpu_stream_line(stream, "hipModuleLaunchKernel"));
    hipcpu_stream_submit(stream, "hipModuleLaunchKernel", &op);
    return hipSuccess;
}
