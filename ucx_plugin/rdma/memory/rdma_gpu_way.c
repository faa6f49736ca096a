/* SPDX-License-Identifier: BSD-3-Clause */

#include "rdma/memory/rdma_gpu_way.h"

#include "base/muct_log.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Range of ROCm releases, the second one excluded, in which exporting a dma-buf ends
 * some processes by a signal (rocm-systems #8517, on MI355X). The fix is on AMD's
 * branch develop and in no release 7.x (comment of 2026-08-12). */
#define MUCT_RDMA_HIP_CRASHES_FROM 70000000
#define MUCT_RDMA_HIP_CRASHES_TO 80000000

/* First kernel release that registers dma-bufs. */
#define MUCT_RDMA_KERNEL_MAJOR 5u
#define MUCT_RDMA_KERNEL_MINOR 12u

static bool muct_rdma_gpu_way_may_crash(const muct_rdma_gpu_way_params_t *params)
{
    return (params->hip_version >= MUCT_RDMA_HIP_CRASHES_FROM) &&
           (params->hip_version < MUCT_RDMA_HIP_CRASHES_TO);
}

static bool muct_rdma_gpu_way_is_peermem_first(const muct_rdma_gpu_way_params_t *params,
                                               char *why)
{
    if (params->kernel_lack != NULL) {
        snprintf(why, MUCT_RDMA_GPU_WAY_WHY, "%s", params->kernel_lack);
        return true;
    }

    if (muct_rdma_gpu_way_may_crash(params)) {
        snprintf(why, MUCT_RDMA_GPU_WAY_WHY,
                 "exporting dma-bufs may crash in release %d of ROCm",
                 params->hip_version);
        return true;
    }

    if (params->needs_dmabuf) {
        snprintf(why, MUCT_RDMA_GPU_WAY_WHY, "this kind of device needs dma-buf");
        return false;
    }

    snprintf(why, MUCT_RDMA_GPU_WAY_WHY, "this kind of device is %s",
             params->is_peermem_first ? "faster by peer memory" : "as good by dma-buf");
    return params->is_peermem_first;
}

static ucs_status_t muct_rdma_gpu_ways_only(muct_rdma_gpu_ways_t *ways,
                                            muct_rdma_gpu_way_t way, const char *why)
{
    ways->num = 1;
    ways->list[0] = way;
    snprintf(ways->why, sizeof(ways->why), "%s", why);
    return UCS_OK;
}

ucs_status_t muct_rdma_gpu_ways_init(const muct_rdma_gpu_way_params_t *params,
                                     muct_rdma_gpu_ways_t *ways)
{
    bool is_peermem_first;

    ways->may_crash = muct_rdma_gpu_way_may_crash(params);
    if ((params->dmabuf == UCS_YES) && (params->peermem == UCS_YES)) {
        muct_error("UCX_MORI_RDMA_DMABUF and UCX_MORI_RDMA_PEERMEM are both y: one of "
                   "them can be the only way");
        return UCS_ERR_INVALID_PARAM;
    }

    if ((params->dmabuf == UCS_NO) && (params->peermem == UCS_NO)) {
        muct_error("UCX_MORI_RDMA_DMABUF and UCX_MORI_RDMA_PEERMEM are both n: use "
                   "UCX_MORI_RDMA_GPU_DIRECT=n to register no GPU memory");
        return UCS_ERR_INVALID_PARAM;
    }

    if ((params->peermem == UCS_YES) || (params->dmabuf == UCS_NO)) {
        return muct_rdma_gpu_ways_only(ways, MUCT_RDMA_GPU_WAY_PEERMEM,
                                       "the options say so");
    }

    if ((params->dmabuf == UCS_YES) || (params->peermem == UCS_NO)) {
        if (params->has_call) {
            return muct_rdma_gpu_ways_only(ways, MUCT_RDMA_GPU_WAY_DMABUF,
                                           "the options say so");
        }
        muct_error(
            "GPU memory is to be registered by dma-buf alone, but this libibverbs "
            "has no ibv_reg_dmabuf_mr: install rdma-core >= 34");
        return UCS_ERR_UNSUPPORTED;
    }

    if (!params->has_call) {
        return muct_rdma_gpu_ways_only(ways, MUCT_RDMA_GPU_WAY_PEERMEM,
                                       "libibverbs is older than rdma-core 34");
    }

    is_peermem_first = muct_rdma_gpu_way_is_peermem_first(params, ways->why);
    ways->num = 2;
    ways->list[is_peermem_first ? 1 : 0] = MUCT_RDMA_GPU_WAY_DMABUF;
    ways->list[is_peermem_first ? 0 : 1] = MUCT_RDMA_GPU_WAY_PEERMEM;
    return UCS_OK;
}

bool muct_rdma_gpu_ways_has(const muct_rdma_gpu_ways_t *ways, muct_rdma_gpu_way_t way)
{
    unsigned i;

    for (i = 0; i < ways->num; ++i) {
        if (ways->list[i] == way) {
            return true;
        }
    }

    return false;
}

/* ---- the kernel ---- */

static FILE *muct_rdma_kernel_open_config(const char *root, const char *release)
{
    static const struct {
        const char *before, *after;
    } places[] = {{"/boot/config-", ""},
                  {"/lib/modules/", "/config"},
                  {"/lib/modules/", "/build/.config"}};
    FILE *file = NULL;
    char path[512];
    unsigned i;

    for (i = 0; (i < sizeof(places) / sizeof(places[0])) && (file == NULL); ++i) {
        snprintf(path, sizeof(path), "%s%s%s%s", root, places[i].before, release,
                 places[i].after);
        file = fopen(path, "r");
    }

    return file;
}

/* Report the option that the line shows as missing. */
static void muct_rdma_kernel_read_line(const char *line, const char *release,
                                       char *lack, size_t size)
{
    static const struct {
        const char *line, *option;
    } lacks[] = {
        {"# CONFIG_PCI_P2PDMA is not set", "CONFIG_PCI_P2PDMA"},
        {"# CONFIG_DMABUF_MOVE_NOTIFY is not set", "CONFIG_DMABUF_MOVE_NOTIFY"}};
    unsigned i;

    for (i = 0; i < sizeof(lacks) / sizeof(lacks[0]); ++i) {
        if (strncmp(line, lacks[i].line, strlen(lacks[i].line)) == 0) {
            snprintf(lack, size, "kernel %s has no %s", release, lacks[i].option);
        }
    }
}

/* Read the configuration of the running kernel, if the kernel offers it. zlib is
 * optional: without it the configuration is unknown. */
static void muct_rdma_kernel_read_proc(const char *root, const char *release,
                                       char *lack, size_t size)
{
    void *zlib = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    void *(*open_file)(const char *path, const char *mode);
    char *(*get_line)(void *file, char *line, int length);
    int (*close_file)(void *file);
    char path[512], line[256];
    void *file = NULL;

    if (zlib == NULL) {
        return;
    }

    *(void **)&open_file = dlsym(zlib, "gzopen");
    *(void **)&get_line = dlsym(zlib, "gzgets");
    *(void **)&close_file = dlsym(zlib, "gzclose");
    snprintf(path, sizeof(path), "%s/proc/config.gz", root);
    if ((open_file != NULL) && (get_line != NULL) && (close_file != NULL)) {
        file = open_file(path, "r");
    }
    while ((file != NULL) && (get_line(file, line, sizeof(line)) != NULL)) {
        muct_rdma_kernel_read_line(line, release, lack, size);
    }
    if (file != NULL) {
        (void)close_file(file);
    }
    dlclose(zlib);
}

void muct_rdma_kernel_lack(const char *root, const char *release, char *lack,
                           size_t size)
{
    unsigned major = 0, minor = 0;
    char line[256];
    FILE *file;

    lack[0] = '\0';
    if ((sscanf(release, "%u.%u", &major, &minor) == 2) &&
        ((major < MUCT_RDMA_KERNEL_MAJOR) ||
         ((major == MUCT_RDMA_KERNEL_MAJOR) && (minor < MUCT_RDMA_KERNEL_MINOR)))) {
        snprintf(lack, size,
                 "kernel %s is older than 5.12, the first with dma-bufs in "
                 "verbs",
                 release);
        return;
    }

    file = muct_rdma_kernel_open_config(root, release);
    if (file == NULL) {
        muct_rdma_kernel_read_proc(root, release, lack, size);
        return;
    }

    while (fgets(line, sizeof(line), file) != NULL) {
        muct_rdma_kernel_read_line(line, release, lack, size);
    }
    fclose(file);
}
