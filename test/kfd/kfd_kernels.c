/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Kernels by name: those that CLR launches for copies, fills and waits, and ours.
 *
 * AMD's loader leaves the ELF header, .dynsym and .hash of a code object in front of
 * the kernel descriptors in device memory, so that a kernel's symbol is found from its
 * address.
 */

#include "kfd_dispatch.h"
#include "kfd_impl.h"

#include "xgmi/copy/xgmi_kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define KFD_EM_AMDGPU 224
#define KFD_MAX_CODE_SIZE (16ull << 20)

/* The code object around an address: pages in front of it are ours as far as mapped. */
static const Elf64_Ehdr *kfd_code_object(uint64_t address)
{
    uint64_t page = address & ~4095ull, end = page - KFD_MAX_CODE_SIZE;
    const Elf64_Ehdr *header;

    for (; (page > end) && kfd_map_any(page, 4096); page -= 4096) {
        header = (const Elf64_Ehdr *)(uintptr_t)page;
        if ((memcmp(header->e_ident, ELFMAG, SELFMAG) == 0) &&
            (header->e_machine == KFD_EM_AMDGPU)) {
            return header;
        }
    }
    return NULL;
}

static const char *kfd_symbol_at(const Elf64_Ehdr *header, const Elf64_Dyn *dynamic,
                                 uint64_t value)
{
    const char *base = (const char *)header, *strings = NULL;
    const Elf64_Sym *symbols = NULL;
    const uint32_t *hash = NULL;
    uint32_t i;

    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            symbols = (const Elf64_Sym *)(base + dynamic->d_un.d_ptr);
            break;
        case DT_STRTAB:
            strings = base + dynamic->d_un.d_ptr;
            break;
        case DT_HASH:
            hash = (const uint32_t *)(base + dynamic->d_un.d_ptr);
            break;
        }
    }
    if ((symbols == NULL) || (strings == NULL) || (hash == NULL)) {
        return NULL;
    }
    for (i = 0; i < hash[1]; ++i) { /* nchain, the number of symbols */
        if (symbols[i].st_value == value) {
            return strings + symbols[i].st_name;
        }
    }
    return NULL;
}

static const char *kfd_kernel_name(uint64_t object)
{
    const Elf64_Ehdr *header = kfd_code_object(object);
    const Elf64_Phdr *segment;
    unsigned i;

    if (header == NULL) {
        return NULL;
    }
    segment = (const Elf64_Phdr *)((const char *)header + header->e_phoff);
    for (i = 0; i < header->e_phnum; ++i) {
        if (segment[i].p_type == PT_DYNAMIC) {
            return kfd_symbol_at(
                header, (const Elf64_Dyn *)((const char *)header + segment[i].p_vaddr),
                object - (uint64_t)(uintptr_t)header);
        }
    }
    return NULL;
}

/* Arguments, as CLR's rocclr/device/blitcl.cpp declares the kernels. */
typedef struct kfd_args {
    kfd_queue_t *queue;
    const char *bytes;
} kfd_args_t;

static uint64_t kfd_arg64(const kfd_args_t *args, unsigned offset)
{
    uint64_t value;

    memcpy(&value, args->bytes + offset, sizeof(value));
    return value;
}

static uint32_t kfd_arg32(const kfd_args_t *args, unsigned offset)
{
    uint32_t value;

    memcpy(&value, args->bytes + offset, sizeof(value));
    return value;
}

/* __amd_rocclr_copyBuffer(src, dst, size, ...) */
static bool kfd_play_copy(const kfd_args_t *args)
{
    return kfd_copy(args->queue, kfd_arg64(args, 8), kfd_arg64(args, 0),
                    kfd_arg64(args, 16));
}

/* __amd_rocclr_copyBufferAligned(src, dst, srcOrigin, dstOrigin, size, alignment) */
static bool kfd_play_copy_aligned(const kfd_args_t *args)
{
    uint64_t unit = kfd_arg32(args, 40);

    return kfd_copy(args->queue, kfd_arg64(args, 8) + (kfd_arg64(args, 24) * unit),
                    kfd_arg64(args, 0) + (kfd_arg64(args, 16) * unit),
                    kfd_arg64(args, 32) * unit);
}

/* Rows of a box: strides, origins and width in units. */
static bool kfd_play_rows(const kfd_args_t *args, uint64_t unit)
{
    uint64_t width = kfd_arg64(args, 96) * unit, y, z;

    for (z = 0; z < kfd_arg64(args, 112); ++z) {
        for (y = 0; y < kfd_arg64(args, 104); ++y) {
            if (!kfd_copy(args->queue,
                          kfd_arg64(args, 8) +
                              (unit * (kfd_arg64(args, 80) + (z * kfd_arg64(args, 72)) +
                                       (y * kfd_arg64(args, 64)))),
                          kfd_arg64(args, 0) +
                              (unit * (kfd_arg64(args, 48) + (z * kfd_arg64(args, 40)) +
                                       (y * kfd_arg64(args, 32)))),
                          width)) {
                return false;
            }
        }
    }
    return true;
}

/* __amd_rocclr_copyBufferRect(src, dst, ulong4 srcRect, ulong4 dstRect, ulong4 size) */
static bool kfd_play_copy_rect(const kfd_args_t *args)
{
    return kfd_play_rows(args, 1);
}

/* The same in units of 16 bytes, which size.w says, or of 4. */
static bool kfd_play_copy_rect_aligned(const kfd_args_t *args)
{
    return kfd_play_rows(args, (kfd_arg64(args, 120) == 16) ? 16 : 4);
}

/* __amd_rocclr_fillBufferAligned(buffer, pattern, pattern_size, alignment, end, chunk)
 */
static bool kfd_play_fill(const kfd_args_t *args)
{
    uint64_t start = kfd_arg64(args, 0), end = kfd_arg64(args, 24);
    uint64_t size = (uint64_t)kfd_arg32(args, 16) * kfd_arg32(args, 20);

    if ((size == 0) || (end < start)) {
        kfd_die("fillBufferAligned of %llu bytes: its arguments are not understood",
                (unsigned long long)size);
    }
    return kfd_may(args->queue, kfd_arg64(args, 8), size, false) &&
           kfd_fill(args->queue, start, (const void *)(uintptr_t)kfd_arg64(args, 8),
                    size, (end - start) / size);
}

/* __amd_rocclr_fillBufferAligned2D(uchar *, ushort *, uint *, ulong *, pattern,
 * pattern_size, origin, width, height, pitch): one of the pointers is set, and the rest
 * counts its elements. A pattern of several overlaps from column to column. */
static bool kfd_play_fill_rows(const kfd_args_t *args)
{
    uint64_t pattern = kfd_arg64(args, 32), pitch = kfd_arg64(args, 72), y;
    uint64_t count = kfd_arg32(args, 40);
    unsigned log2;

    for (log2 = 0; (log2 < 4) && (kfd_arg64(args, log2 * 8) == 0); ++log2) {
    }
    if ((log2 == 4) || (count != 1)) {
        kfd_die("fillBufferAligned2D by %llu elements: its arguments are not "
                "understood",
                (unsigned long long)count);
    }
    if (!kfd_may(args->queue, pattern, 1ull << log2, false)) {
        return false;
    }
    for (y = 0; y < kfd_arg64(args, 64); ++y) {
        if (!kfd_fill(args->queue,
                      kfd_arg64(args, log2 * 8) +
                          ((kfd_arg64(args, 48) + (y * pitch)) << log2),
                      (const void *)(uintptr_t)pattern, (size_t)1 << log2,
                      kfd_arg64(args, 56))) {
            return false;
        }
    }
    return true;
}

/* __amd_rocclr_streamOpsWrite(uint *, ulong *, value) */
static bool kfd_play_write(const kfd_args_t *args)
{
    if (kfd_arg64(args, 0) != 0) {
        return kfd_store32(args->queue, kfd_arg64(args, 0), kfd_arg32(args, 16));
    }
    return kfd_store64(args->queue, kfd_arg64(args, 8), kfd_arg64(args, 16));
}

/* Conditions of hipStreamWaitValue: 0 >=, 1 ==, 2 a common bit, 3 a bit that neither
 * has. */
static bool kfd_is_value(uint64_t condition, uint64_t value, uint64_t expected,
                         uint64_t mask)
{
    uint64_t masked = value & mask;

    switch (condition) {
    case 0:
        return masked >= expected;
    case 1:
        return masked == expected;
    case 2:
        return (masked & expected) != 0;
    case 3:
        return ((value | expected) & mask) != mask;
    }
    kfd_die("streamOpsWait: condition %llu is not played",
            (unsigned long long)condition);
}

/* __amd_rocclr_streamOpsWait(uint *, ulong *, value, condition, mask) */
static bool kfd_play_wait(const kfd_args_t *args)
{
    bool is_short = kfd_arg64(args, 0) != 0;
    uint64_t mask = kfd_arg64(args, 32) & (is_short ? UINT32_MAX : UINT64_MAX);
    uint64_t expected = kfd_arg64(args, 16) & (is_short ? UINT32_MAX : UINT64_MAX);
    uint64_t value = 0;
    unsigned turns = 0;

    do {
        if (is_short ? !kfd_load32(args->queue, kfd_arg64(args, 0), (uint32_t *)&value)
                     : !kfd_load64(args->queue, kfd_arg64(args, 8), &value)) {
            return false;
        }
        if (kfd_is_value(kfd_arg64(args, 24), value, expected, mask)) {
            return true;
        }
    } while (kfd_queue_relax(args->queue, &turns));
    return false;
}

static bool kfd_play_nothing(const kfd_args_t *args)
{
    (void)args;
    return true;
}

/* A run of pieces, or a single one. */
static bool kfd_play_muct_entry(const kfd_args_t *args, const muct_xgmi_entry_t *entry)
{
    const muct_xgmi_copy_args_t *copy = (const muct_xgmi_copy_args_t *)args->bytes;
    uint32_t number = muct_xgmi_place_shape(entry->place);
    const muct_xgmi_shape_t *shape;
    uint64_t i;

    if (number == 0) {
        return kfd_copy(args->queue, entry->dst, entry->src, entry->length);
    }
    if (number > copy->num_shapes) {
        kfd_die("muct_xgmi_copy: shape %u of %u", number, copy->num_shapes);
    }

    shape = &copy->shapes[number - 1];
    for (i = 0; i < entry->length; ++i) {
        if (!kfd_copy(args->queue, entry->dst + (i * shape->dst_stride),
                      entry->src + (i * shape->src_stride), shape->piece)) {
            return false;
        }
    }
    return true;
}

static bool kfd_play_muct_copy(const kfd_args_t *args)
{
    const muct_xgmi_copy_args_t *copy = (const muct_xgmi_copy_args_t *)args->bytes;
    const muct_xgmi_entry_t *entry;
    uint32_t i;

    if (copy->version != MUCT_XGMI_KERNEL_VERSION) {
        kfd_die("muct_xgmi_copy: version %u of its arguments is not played",
                copy->version);
    }
    if (!kfd_may(args->queue, copy->entries, sizeof(*entry) * copy->num_entries,
                 false)) {
        return false;
    }
    entry = (const muct_xgmi_entry_t *)(uintptr_t)copy->entries;
    for (i = 0; i < copy->num_entries; ++i) {
        if (!kfd_play_muct_entry(args, &entry[i])) {
            return false;
        }
    }
    return (copy->flag == 0) || kfd_store32(args->queue, copy->flag, copy->sequence);
}

static const struct {
    const char *name;
    bool (*play)(const kfd_args_t *args);
} kfd_kernels[] = {
    {"__amd_rocclr_copyBuffer.kd", kfd_play_copy},
    {"__amd_rocclr_copyBufferAligned.kd", kfd_play_copy_aligned},
    {"__amd_rocclr_copyBufferRect.kd", kfd_play_copy_rect},
    {"__amd_rocclr_copyBufferRectAligned.kd", kfd_play_copy_rect_aligned},
    {"__amd_rocclr_fillBufferAligned.kd", kfd_play_fill},
    {"__amd_rocclr_fillBufferAligned2D.kd", kfd_play_fill_rows},
    {"__amd_rocclr_streamOpsWrite.kd", kfd_play_write},
    {"__amd_rocclr_streamOpsWait.kd", kfd_play_wait},
    {"__amd_rocclr_initHeap.kd", kfd_play_nothing},
    {MUCT_XGMI_KERNEL_NAME ".kd", kfd_play_muct_copy},
    {MUCT_XGMI_FLAG_IS_LAST_NAME ".kd", kfd_play_nothing},
};

/*
 * ROCr's own kernels for copies and fills (BlitKernel::KernelArgs of amd_blit_kernel.h)
 * have no code object around them. Each begins with its ranges and ends with the number
 * of work-items, which is the grid. The position of that number identifies the kernel.
 */
static bool kfd_play_rocr(const kfd_args_t *args, uint32_t work_items)
{
    uint32_t pattern;

    if (kfd_arg32(args, 28) == work_items) {
        pattern = kfd_arg32(args, 24);
        kfd_fill(args->queue, kfd_arg64(args, 0), &pattern, sizeof(pattern),
                 (kfd_arg64(args, 16) - kfd_arg64(args, 0)) / sizeof(pattern));
        return true;
    }
    if (kfd_arg32(args, 48) == work_items) { /* copy_misaligned: phase2_src_end at 32 */
        kfd_copy(args->queue, kfd_arg64(args, 8), kfd_arg64(args, 0),
                 kfd_arg64(args, 32) - kfd_arg64(args, 0));
        return true;
    }
    if (kfd_arg32(args, 80) == work_items) { /* copy_aligned: phase4_src_end at 64 */
        kfd_copy(args->queue, kfd_arg64(args, 8), kfd_arg64(args, 0),
                 kfd_arg64(args, 64) - kfd_arg64(args, 0));
        return true;
    }
    return false;
}

static bool kfd_host_may(unsigned gpu, uint64_t address, uint64_t length)
{
    return kfd_map_allows((int)gpu, address, length);
}

static void kfd_host_fault(unsigned gpu, uint64_t address)
{
    kfd_queue_t *queue = kfd_running_queue();

    kfd_refuse("memory fault: a kernel on GPU %u accesses %#llx", gpu,
               (unsigned long long)address);
    queue->halted = true;
    kfd_event_memory_fault((int)gpu, address, false);
}

static bool kfd_host_stopped(const kfd_dispatch_t *dispatch)
{
    (void)dispatch;
    return __atomic_load_n(&kfd_running_queue()->stop, __ATOMIC_ACQUIRE);
}

static const kfd_dispatch_host_t kfd_host = {
    .may_access = kfd_host_may,
    .fault = kfd_host_fault,
    .kernel_name = kfd_kernel_name,
    .stopped = kfd_host_stopped,
};

static kfd_interpret_t kfd_interpreter;
static pthread_once_t kfd_interpreter_once = PTHREAD_ONCE_INIT;

static void kfd_load_interpreter(void)
{
    const char *path = getenv("KFDCPU_INTERPRETER");
    void *library, *symbol;

    if (path == NULL) {
        return;
    }
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    symbol = (library != NULL) ? dlsym(library, "kfd_interpret") : NULL;
    if (symbol == NULL) {
        kfd_die("KFDCPU_INTERPRETER: %s", dlerror());
    }
    memcpy(&kfd_interpreter, &symbol, sizeof(symbol));
}

static void kfd_play(const kfd_dispatch_t *dispatch, const kfd_args_t *args,
                     const char *name)
{
    unsigned i;

    pthread_once(&kfd_interpreter_once, kfd_load_interpreter);
    if ((kfd_interpreter != NULL) && !args->queue->is_late &&
        (kfd_interpreter(dispatch, &kfd_host) == 0)) {
        return;
    }
    for (i = 0; (name != NULL) && (i < sizeof(kfd_kernels) / sizeof(*kfd_kernels));
         ++i) {
        if (strcmp(name, kfd_kernels[i].name) == 0) {
            kfd_kernels[i].play(args);
            return;
        }
    }
    if ((name == NULL) && kfd_play_rocr(args, dispatch->grid[0])) {
        return;
    }
    kfd_die("kernel %s is not played; name an interpreter by KFDCPU_INTERPRETER",
            (name != NULL) ? name : "without a symbol");
}

/* KFDCPU_STALL: the dispatches of one kernel are counted, since the number of CLR's
 * other packets depends on how often a program queries its events. */
static bool kfd_kernel_stalls(const char *name)
{
    static uint64_t num_run;
    int64_t limit = (name != NULL) ? kfd_fault_stall(name) : -1;

    if ((limit < 0) ||
        (__atomic_fetch_add(&num_run, 1, __ATOMIC_RELAXED) < (uint64_t)limit)) {
        return false;
    }
    kfd_log(1, "kernel %s stalls after %lld dispatches", name, (long long)limit);
    return true;
}

void kfd_dispatch(const kfd_dispatch_t *dispatch)
{
    kfd_queue_t *queue = kfd_running_queue();
    kfd_args_t args = {queue, (const char *)(uintptr_t)dispatch->kernarg};
    const char *name;

    if (!kfd_may(queue, dispatch->kernel_object, 64, false)) {
        return;
    }
    name = kfd_kernel_name(dispatch->kernel_object);
    kfd_log(3, "queue %u: kernel %s grid %u x %u of %u", queue->id,
            (name != NULL) ? name : "(no name)", dispatch->grid[0], dispatch->grid[1],
            dispatch->workgroup[0]);
    if (kfd_kernel_stalls(name)) {
        queue->halted = true;
        return;
    }
    kfd_late_begin(queue->gpu, name);
    queue->is_late = kfd_late_has(name);
    kfd_play(dispatch, &args, name);
    queue->is_late = false;
    kfd_late_end(queue->gpu, name);
}
