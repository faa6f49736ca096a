/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The process-wide table is bound once, under a pthread_once, and never unbound: the
 * runtime keeps threads of its own, so the library is never closed.
 */

#include "config.h"

#include "base/muct_gpu.h"

#include "base/muct_lib.h"
#include "base/muct_log.h"

#include <ucs/config/parser.h>

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hipMemRangeHandleTypeDmaBufFd */
#define MUCT_GPU_RANGE_HANDLE_DMABUF 1
/* hipFree() closes IPC mappings from ROCm 5.7 on. */
#define MUCT_GPU_VERSION_5_7 50700000
/* Enum values of hipMemoryType moved, and the IPC flag became 1, in ROCm 6.0. */
#define MUCT_GPU_VERSION_6_0 60000000
/* Errors are kept, and event queries may break captures, from ROCm 7.0 on. */
#define MUCT_GPU_VERSION_7_0 70000000
#define MUCT_GPU_VERSION_6_3 60300000
#define MUCT_GPU_VERSION_7_2 70200000
#define MUCT_GPU_LIB_NAME "libamdhip64.so"
#define MUCT_GPU_HSA_NAME "libhsa-runtime64.so.1"
#define MUCT_GPU_PATH_MAX 1024
/* HSA_EXT_POINTER_TYPE_RESERVED_ADDR, which ROCr 6 reports for chunks as well */
#define MUCT_HSA_POINTER_RESERVED 5
/* HSA_EXT_POINTER_TYPE_HSA_VMEM, from ROCr 7 on */
#define MUCT_HSA_POINTER_VMEM 6


typedef struct muct_gpu_config {
    char *lib;
} muct_gpu_config_t;

typedef struct muct_gpu_symbol {
    const char *name;
    size_t offset;
} muct_gpu_symbol_t;


static pthread_once_t muct_gpu_once = PTHREAD_ONCE_INIT;
static muct_gpu_t muct_gpu_table;
static ucs_status_t muct_gpu_status;

#define MUCT_GPU_SYMBOL(_member, _ret, _symbol, _args)                                 \
    {_symbol, offsetof(muct_gpu_t, _member)},

static const muct_gpu_symbol_t muct_gpu_required[] = {
    MUCT_HIP_REQUIRED(MUCT_GPU_SYMBOL){NULL, 0}};
static const muct_gpu_symbol_t muct_gpu_optional[] = {
    MUCT_HIP_OPTIONAL(MUCT_GPU_SYMBOL){NULL, 0}};

static ucs_config_field_t muct_gpu_config_table[] = {
    {"HIP_LIB", "auto",
     "GPU runtime library to load, a path. \"auto\" takes the one the application\n"
     "has already loaded, else libamdhip64.so.7, .6, .5. Set it when the runtime is\n"
     "in a place the dynamic linker does not know.",
     ucs_offsetof(muct_gpu_config_t, lib), UCS_CONFIG_TYPE_STRING},

    {NULL, NULL, NULL, 0, {0}}};

ucs_config_global_list_entry_t muct_gpu_config_entry = {
    .name = "ucx-mori GPU runtime",
    .prefix = "MORI_",
    .table = muct_gpu_config_table,
    .size = sizeof(muct_gpu_config_t),
};


static int muct_gpu_find_mapped_cb(struct dl_phdr_info *info, size_t size, void *arg)
{
    char *path = arg;
    const char *base = strrchr(info->dlpi_name, '/');

    (void)size;
    base = (base == NULL) ? info->dlpi_name : base + 1;
    if (strncmp(base, MUCT_GPU_LIB_NAME, strlen(MUCT_GPU_LIB_NAME)) ||
        (strlen(info->dlpi_name) >= MUCT_GPU_PATH_MAX)) {
        return 0;
    }

    strcpy(path, info->dlpi_name);
    return 1;
}

/* The dynamic linker's message names a missing file as passed to dlopen(), a broken
 * file by its path, and a missing dependency by its own name. */
static void muct_gpu_warn_broken(const char *name)
{
    const char *error = dlerror();
    const size_t length = strlen(name);

    if ((error != NULL) && (strncmp(error, name, length) || (error[length] != ':'))) {
        muct_warn(
            "GPU runtime %s is not used: %s; reinstall it with its dependencies, or "
            "set UCX_MORI_HIP_LIB to another one",
            name, error);
    }
}

static void *muct_gpu_open_found(const char **name_p)
{
    static const char *const names[] = {MUCT_GPU_LIB_NAME ".7", MUCT_GPU_LIB_NAME ".6",
                                        MUCT_GPU_LIB_NAME ".5"};
    static char mapped[MUCT_GPU_PATH_MAX];
    void *lib;
    size_t i;

    if (dl_iterate_phdr(muct_gpu_find_mapped_cb, mapped)) {
        *name_p = mapped;
        lib = dlopen(mapped, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (lib != NULL) {
            return lib;
        }
    }

    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        *name_p = names[i];
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib != NULL) {
            return lib;
        }
        muct_gpu_warn_broken(names[i]);
    }

    *name_p = names[0];
    return NULL;
}

/* Returns the first missing symbol, NULL when all are there. */
static const char *muct_gpu_bind_symbols(const muct_gpu_symbol_t *symbols, void *lib,
                                         muct_gpu_t *gpu)
{
    const char *missing = NULL;
    void *address;

    for (; symbols->name != NULL; ++symbols) {
        address = dlsym(lib, symbols->name);
        if (address == NULL) {
            missing = (missing == NULL) ? symbols->name : missing;
            continue;
        }
        memcpy((char *)gpu + symbols->offset, &address, sizeof(address));
    }

    return missing;
}

/*
 * Evaluates the variable like ROCr (flag.h): from 6.3 on only "0" turns the driver's
 * own handles off, and from 7.2 on only "1" turns them on.
 */
static bool muct_gpu_ipc_needs_owner(int version)
{
    const char *legacy = getenv("HSA_ENABLE_IPC_MODE_LEGACY");

    legacy = (legacy == NULL) ? "" : legacy;
    if (version >= MUCT_GPU_VERSION_7_2) {
        return strcmp(legacy, "1") != 0;
    }
    return (version >= MUCT_GPU_VERSION_6_3) && !strcmp(legacy, "0");
}

static void muct_gpu_set_version(muct_gpu_t *gpu, int version)
{
    bool is_6 = (version >= MUCT_GPU_VERSION_6_0);
    bool is_7 = (version >= MUCT_GPU_VERSION_7_0);

    gpu->version = version;
    gpu->ipc_flags = is_6 ? 1 : 0;
    gpu->mem_type_device = is_6 ? 2 : 1;
    gpu->mem_type_managed = is_6 ? 3 : 4;
    gpu->may_query_events = !is_7;
    gpu->keeps_errors = is_7;
    gpu->ipc_close_races = !is_7 && (version >= MUCT_GPU_VERSION_5_7) &&
                           (gpu->hsa_pointer_info != NULL); /* AMD's, on ROCr */
    gpu->ipc_needs_owner = muct_gpu_ipc_needs_owner(version);
}

/* mori_doctor reads this line. */
static void muct_gpu_log(const muct_gpu_t *gpu)
{
    char file[PATH_MAX];
    int driver = 0;

    if ((gpu->driver_get_version != NULL) &&
        (gpu->driver_get_version(&driver) != MUCT_HIP_SUCCESS)) {
        driver = 0;
    }
    muct_lib_file(&gpu->runtime_get_version, file);
    muct_debug("GPU runtime %s version %d, driver version %d: %d devices", file,
               gpu->version, driver, gpu->num_devices);
}

/* Log an error if UCX_MORI_HIP_LIB named the runtime; the report contains the text in
 * any case. */
static void muct_gpu_refuse(ucs_log_level_t level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void muct_gpu_refuse(ucs_log_level_t level, const char *fmt, ...)
{
    char text[256];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (level < UCS_LOG_LEVEL_DEBUG) {
        ucs_log(level, "%s", text);
    }
    muct_report(MUCT_REPORT_GPU, "%s", text);
}

ucs_status_t muct_gpu_bind(const char *path, muct_gpu_t *gpu)
{
    ucs_log_level_t level = (path == NULL) ? UCS_LOG_LEVEL_DEBUG : UCS_LOG_LEVEL_ERROR;
    const char *name = path;
    muct_gpu_t table = {0};
    const char *missing;
    int version, ret;
    void *lib;

    lib = (path == NULL) ? muct_gpu_open_found(&name)
                         : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if ((lib == NULL) && (path == NULL)) {
        muct_report(MUCT_REPORT_GPU,
                    "mori_xgmi is not used: no GPU runtime (libamdhip64.so)");
        return UCS_ERR_NO_DEVICE;
    }
    if (lib == NULL) {
        muct_error("no GPU runtime: %s; set UCX_MORI_HIP_LIB to one that can be loaded "
                   "with its dependencies, or to auto",
                   dlerror());
        return UCS_ERR_NO_DEVICE;
    }

    missing = muct_gpu_bind_symbols(muct_gpu_required, lib, &table);
    if (missing != NULL) {
        muct_gpu_refuse(level, "GPU runtime %s is not used: it has no %s", name,
                        missing);
        goto err_close;
    }
    /* dlsym looks into the library's dependencies too, so this finds ROCr's calls */
    (void)muct_gpu_bind_symbols(muct_gpu_optional, lib, &table);
    table.has_hsa = (dlsym(lib, "hsa_init") != NULL);

    ret = table.get_device_count(&table.num_devices);
    if ((ret != MUCT_HIP_SUCCESS) || (table.num_devices < 1)) {
        muct_gpu_refuse(
            level, "GPU runtime %s is not used: hipGetDeviceCount() = %s, %d devices",
            name, muct_gpu_error_name(&table, ret), table.num_devices);
        goto err_close;
    }

    ret = table.runtime_get_version(&version);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_gpu_refuse(level,
                        "GPU runtime %s is not used: hipRuntimeGetVersion() = %s", name,
                        muct_gpu_error_name(&table, ret));
        goto err_close;
    }
    muct_gpu_set_version(&table, version);

    muct_gpu_log(&table);
    *gpu = table;
    return UCS_OK;

err_close:
    dlclose(lib);
    return UCS_ERR_NO_DEVICE;
}

static void muct_gpu_bind_once(void)
{
    muct_gpu_config_t config = {NULL};

    muct_gpu_status = ucs_config_parser_fill_opts(&config, &muct_gpu_config_entry,
                                                  UCS_DEFAULT_ENV_PREFIX, 0);
    if (muct_gpu_status != UCS_OK) {
        muct_error("failed to read UCX_MORI_HIP_LIB: %s",
                   ucs_status_string(muct_gpu_status));
        muct_gpu_status = UCS_ERR_NO_DEVICE;
        return;
    }

    muct_gpu_status =
        muct_gpu_bind(strcmp(config.lib, "auto") ? config.lib : NULL, &muct_gpu_table);
    ucs_config_parser_release_opts(&config, muct_gpu_config_table);
}

ucs_status_t muct_gpu_get(const muct_gpu_t **gpu_p)
{
    pthread_once(&muct_gpu_once, muct_gpu_bind_once);
    if (muct_gpu_status == UCS_OK) {
        *gpu_p = &muct_gpu_table;
    }

    return muct_gpu_status;
}

ucs_status_t muct_gpu_query(const muct_gpu_t *gpu, const void *ptr,
                            muct_gpu_mem_info_t *info)
{
    muct_hip_pointer_attribute_t attr = {0};
    ucs_memory_type_t type;
    size_t length;
    void *base;

    /* Whether a result means unknown memory: an error up to ROCm 5, another type from 6
     * on. */
    if (muct_gpu_forget(gpu, gpu->pointer_get_attributes(&attr, ptr)) !=
        MUCT_HIP_SUCCESS) {
        return UCS_ERR_NO_ELEM;
    }

    if (attr.is_managed || (attr.type == gpu->mem_type_managed)) {
        type = UCS_MEMORY_TYPE_ROCM_MANAGED;
    } else if (attr.type == gpu->mem_type_device) {
        type = UCS_MEMORY_TYPE_ROCM;
    } else {
        return UCS_ERR_NO_ELEM;
    }

    if (muct_gpu_forget(gpu, gpu->mem_get_address_range(&base, &length, (void *)ptr)) !=
        MUCT_HIP_SUCCESS) {
        return UCS_ERR_NO_ELEM;
    }

    info->type = type;
    info->device = attr.device;
    info->base = (uintptr_t)base;
    info->length = length;
    return UCS_OK;
}

uint64_t muct_gpu_buffer_id(const muct_gpu_t *gpu, const void *ptr)
{
    uint64_t id = 0; /* AMD writes 32 bits, others 64 */

    if ((gpu->pointer_get_attribute == NULL) ||
        (muct_gpu_forget(gpu, gpu->pointer_get_attribute(
                                  &id, MUCT_HIP_POINTER_BUFFER_ID, (void *)ptr)) !=
         MUCT_HIP_SUCCESS)) {
        return 0;
    }

    return id;
}

muct_gpu_place_t muct_gpu_place(const muct_gpu_t *gpu, const void *ptr, int *device_p)
{
    muct_hip_pointer_attribute_t attr = {0};

    if (muct_gpu_forget(gpu, gpu->pointer_get_attributes(&attr, ptr)) !=
        MUCT_HIP_SUCCESS) {
        return MUCT_GPU_PLACE_HOST;
    }

    if (attr.is_managed || (attr.type == gpu->mem_type_managed) ||
        (attr.type == gpu->mem_type_device)) {
        *device_p = attr.device;
        return MUCT_GPU_PLACE_DEVICE;
    }

    /* from ROCm 6 on the call succeeds for unknown memory as well */
    return (attr.device_pointer != NULL) ? MUCT_GPU_PLACE_PINNED : MUCT_GPU_PLACE_HOST;
}

bool muct_gpu_is_vmm(const muct_gpu_t *gpu, const void *ptr)
{
    muct_hsa_pointer_info_t info = {.size = sizeof(info)};

    return (gpu->hsa_pointer_info != NULL) &&
           (gpu->hsa_pointer_info(ptr, &info, NULL, NULL, NULL) == 0) &&
           ((info.type == MUCT_HSA_POINTER_RESERVED) ||
            (info.type == MUCT_HSA_POINTER_VMEM));
}

/* A joined range is for local copies alone: hipIpcGetMemHandle() covers one allocation.
 */
ucs_status_t muct_gpu_query_range(const muct_gpu_t *gpu, const void *ptr, size_t length,
                                  muct_gpu_mem_info_t *info)
{
    const uintptr_t end = (uintptr_t)ptr + length;
    muct_gpu_mem_info_t next;
    ucs_status_t status = muct_gpu_query(gpu, ptr, info);
    uintptr_t bound;

    while (status == UCS_OK) {
        bound = info->base + info->length;
        if ((bound >= end) ||
            (muct_gpu_query(gpu, (const void *)bound, &next) != UCS_OK) ||
            (next.base != bound) || (next.device != info->device) ||
            (next.type != info->type)) {
            break;
        }
        info->length += next.length;
    }

    return status;
}

/* Bytes up to the end of the allocation; all of them when it is unknown. */
static size_t muct_gpu_room(const muct_gpu_t *gpu, const void *ptr, size_t length)
{
    muct_gpu_mem_info_t info;
    size_t room;

    if (muct_gpu_query(gpu, ptr, &info) != UCS_OK) {
        return length;
    }

    room = info.base + info.length - (uintptr_t)ptr;
    return (room < length) ? room : length;
}

int muct_gpu_copy(const muct_gpu_t *gpu, void *dst, const void *src, size_t length,
                  muct_hip_stream_t stream)
{
    size_t done, part;
    int ret;

    ret = gpu->memcpy_async(dst, src, length, MUCT_HIP_MEMCPY_DEFAULT, stream);
    if (ret != MUCT_HIP_INVALID_VALUE) {
        return ret;
    }

    for (done = 0; done < length; done += part) {
        part = muct_gpu_room(gpu, (char *)dst + done, length - done);
        part = muct_gpu_room(gpu, (const char *)src + done, part);
        if (part == length) {
            return ret; /* each end lies in one allocation: another reason */
        }
        (void)muct_gpu_forget(gpu, ret);
        ret = gpu->memcpy_async((char *)dst + done, (const char *)src + done, part,
                                MUCT_HIP_MEMCPY_DEFAULT, stream);
        if (ret != MUCT_HIP_SUCCESS) {
            break;
        }
    }

    return ret;
}

bool muct_gpu_may_export_dmabuf(const muct_gpu_t *gpu)
{
    bool is_supported = true;

    if ((gpu->hsa_export_dmabuf == NULL) &&
        (gpu->mem_get_handle_for_address_range == NULL)) {
        return false;
    }

    return (gpu->hsa_system_get_info == NULL) ||
           (gpu->hsa_system_get_info(MUCT_HSA_DMABUF_SUPPORTED, &is_supported) != 0) ||
           is_supported;
}

ucs_status_t muct_gpu_export_dmabuf(const muct_gpu_t *gpu, const void *ptr,
                                    size_t length, int *fd_p, uint64_t *offset_p)
{
    muct_gpu_mem_info_t info;
    uint64_t offset;
    int fd, ret;

    /* this call returns the offset in the dma-buf, also for parts of a pool */
    if ((gpu->hsa_export_dmabuf != NULL) &&
        (gpu->hsa_export_dmabuf(ptr, length, &fd, &offset) == 0)) {
        *fd_p = fd;
        *offset_p = offset;
        return UCS_OK;
    }

    /* the HIP call exports whole allocations, so its dma-buf starts at the base */
    if ((gpu->mem_get_handle_for_address_range != NULL) &&
        (muct_gpu_query(gpu, ptr, &info) == UCS_OK)) {
        ret = gpu->mem_get_handle_for_address_range(&fd, (void *)info.base, info.length,
                                                    MUCT_GPU_RANGE_HANDLE_DMABUF, 0);
        if (muct_gpu_forget(gpu, ret) == MUCT_HIP_SUCCESS) {
            *fd_p = fd;
            *offset_p = (uintptr_t)ptr - info.base;
            return UCS_OK;
        }
    }

    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t muct_gpu_push_device(const muct_gpu_t *gpu, int device, int *prev_p)
{
    int ret;

    *prev_p = device;
    ret = gpu->get_device(prev_p);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipGetDevice() failed: %s", muct_gpu_error_name(gpu, ret));
        return UCS_ERR_NO_DEVICE;
    }

    if (*prev_p == device) {
        return UCS_OK;
    }

    ret = gpu->set_device(device);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_error("hipSetDevice(%d) failed: %s", device,
                   muct_gpu_error_name(gpu, ret));
        return UCS_ERR_NO_DEVICE;
    }

    return UCS_OK;
}

void muct_gpu_pop_device(const muct_gpu_t *gpu, int device, int prev)
{
    int ret;

    if (prev == device) {
        return;
    }

    ret = gpu->set_device(prev);
    if (ret != MUCT_HIP_SUCCESS) {
        muct_warn("hipSetDevice(%d) failed: %s", prev, muct_gpu_error_name(gpu, ret));
    }
}

static int muct_gpu_exchange_capture_mode(const muct_gpu_t *gpu, int mode)
{
    if (gpu->thread_exchange_stream_capture_mode != NULL) {
        (void)muct_gpu_forget(gpu, gpu->thread_exchange_stream_capture_mode(&mode));
    }

    return mode;
}

int muct_gpu_relax(const muct_gpu_t *gpu)
{
    return muct_gpu_exchange_capture_mode(gpu, MUCT_HIP_CAPTURE_RELAXED);
}

void muct_gpu_unrelax(const muct_gpu_t *gpu, int mode)
{
    (void)muct_gpu_exchange_capture_mode(gpu, mode);
}

int muct_gpu_ipc_close(const muct_gpu_t *gpu, void *mapped)
{
    int mode, ret;

    if (!gpu->ipc_close_races) {
        return gpu->ipc_close_mem_handle(mapped);
    }

    mode = muct_gpu_relax(gpu);
    ret = gpu->mem_free(mapped);
    muct_gpu_unrelax(gpu, mode);
    return ret;
}

const char *muct_gpu_error_name(const muct_gpu_t *gpu, int error)
{
    const char *name = gpu->get_error_name(muct_gpu_forget(gpu, error));

    return (name == NULL) ? "unknown error" : name;
}
