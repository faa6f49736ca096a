/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The topology that libhsakmt reads from sysfs, as a folder of files.
 *
 * Processes with the same settings share it: the first one makes it under another name
 * and renames it, under a lock, so that a process that is killed leaves no half of it.
 * Fields and their order: kfd_topology.c of amdkfd, node_show().
 */

#include "kfd_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KFD_TEXT_SIZE 4096

/* enum CRAT_IOLINK_TYPE in amdkfd's kfd_crat.h */
#define KFD_LINK_PCIE 2
#define KFD_LINK_XGMI 11

/* HSA_CAP_ bits of libhsakmt's hsakmttypes.h: doorbell type 2, ASIC revision 1, ECC of
 * the SRAM, the SVM API. Without the last, registered host memory gets another GPU
 * address. */
#define KFD_CAPABILITY ((2u << 12) | (1u << 22) | (1u << 26) | (1u << 27))

#define KFD_HIVE_ID 7298345028345ull

/* Write a file below the folder; the text before "=" is its path. */
static void kfd_put(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void kfd_put(const char *dir, const char *format, ...)
{
    char text[KFD_TEXT_SIZE], path[KFD_TEXT_SIZE + 512], *value;
    va_list ap;
    int fd;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    value = strchr(text, '=');
    *value++ = '\0';
    snprintf(path, sizeof(path), "%s/%s", dir, text);
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if ((fd < 0) || (write(fd, value, strlen(value)) < 0)) {
        kfd_die("cannot write %s: %s", path, strerror(errno));
    }
    syscall(SYS_close, fd);
}

static void kfd_dir(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void kfd_dir(const char *dir, const char *format, ...)
{
    char path[512];
    int length;
    va_list ap;

    length = snprintf(path, sizeof(path), "%s/", dir);
    va_start(ap, format);
    vsnprintf(path + length, sizeof(path) - (size_t)length, format, ap);
    va_end(ap);
    if (mkdir(path, 0755) && (errno != EEXIST)) {
        kfd_die("cannot make %s: %s", path, strerror(errno));
    }
}

static unsigned kfd_package_of(const kfd_config_t *config, unsigned gpu)
{
    return gpu / config->partitions;
}

static unsigned kfd_numa_of(const kfd_config_t *config, unsigned gpu)
{
    return kfd_package_of(config, gpu) * config->num_numa / config->num_packages;
}

/*
 * Bus, device and function; on a package of several nodes, also the node's number:
 * kfd_topology_add_device() has location_id |= node_id << 28. sysfs has function 0
 * alone.
 */
static unsigned kfd_location(const kfd_config_t *config, unsigned gpu)
{
    unsigned location = (0x11 + kfd_package_of(config, gpu)) << 8;

    return location | ((gpu % config->partitions) << 28);
}

typedef struct kfd_link {
    const char *folder; /* io_links or p2p_links */
    unsigned from, to;  /* Nodes */
    int type;
    int weight;
} kfd_link_t;

static void kfd_put_link(const char *dir, unsigned slot, const kfd_link_t *link)
{
    kfd_dir(dir, "nodes/%u/%s/%u", link->from, link->folder, slot);
    kfd_put(dir,
            "nodes/%u/%s/%u/properties=type %d\nversion_major 0\nversion_minor 0\n"
            "node_from %u\nnode_to %u\nweight %d\nmin_latency 0\nmax_latency 0\n"
            "min_bandwidth 64000\nmax_bandwidth 64000\nrecommended_transfer_size 0\n"
            "recommended_sdma_engine_id_mask 0\nflags 1\n",
            link->from, link->folder, slot, link->type, link->from, link->to,
            link->weight);
}

/* The type of the link of two GPUs; 0: they have none. */
static int kfd_gpu_link(const kfd_config_t *config, unsigned a, unsigned b)
{
    if (kfd_package_of(config, a) == kfd_package_of(config, b)) {
        return KFD_LINK_XGMI;
    }
    switch (config->links) {
    case KFD_LINKS_XGMI:
        return KFD_LINK_XGMI;
    case KFD_LINKS_PCIE:
        return KFD_LINK_PCIE;
    case KFD_LINKS_NONE:
        break;
    }
    return 0;
}

/* Links of a GPU; returns how many are io_links, and sets those of p2p_links. */
static unsigned kfd_links_of_gpu(const char *dir, const kfd_config_t *config,
                                 unsigned gpu, unsigned *num_p2p)
{
    unsigned node = config->num_numa + gpu, slot = 0, other;
    kfd_link_t link = {"io_links", node, kfd_numa_of(config, gpu), KFD_LINK_PCIE, 20};

    kfd_put_link(dir, slot++, &link);
    *num_p2p = 0;
    for (other = 0; other < config->num_gpus; ++other) {
        link.type = (other == gpu) ? 0 : kfd_gpu_link(config, gpu, other);
        link.to = config->num_numa + other;
        if (link.type == KFD_LINK_XGMI) {
            link.folder = "io_links";
            link.weight = 15;
            kfd_put_link(dir, slot++, &link);
        } else if (link.type == KFD_LINK_PCIE) {
            link.folder = "p2p_links";
            link.weight = 40;
            kfd_put_link(dir, (*num_p2p)++, &link);
        }
    }
    return slot;
}

static unsigned kfd_links_of_cpu(const char *dir, const kfd_config_t *config,
                                 unsigned numa)
{
    kfd_link_t link = {"io_links", numa, 0, KFD_LINK_PCIE, 20};
    unsigned slot = 0, i;

    for (i = 0; i < config->num_gpus; ++i) {
        if (kfd_numa_of(config, i) == numa) {
            link.to = config->num_numa + i;
            kfd_put_link(dir, slot++, &link);
        }
    }
    for (i = 0; i < config->num_numa; ++i) {
        if (i != numa) {
            link.to = i;
            kfd_put_link(dir, slot++, &link);
        }
    }
    return slot;
}

static void kfd_put_bank(const char *dir, unsigned node, int heap, uint64_t size)
{
    kfd_dir(dir, "nodes/%u/mem_banks/0", node);
    kfd_put(dir,
            "nodes/%u/mem_banks/0/properties=heap_type %d\nsize_in_bytes %llu\n"
            "flags 0\nwidth %d\nmem_clk_max %d\n",
            node, heap, (unsigned long long)size, (heap == 0) ? 64 : 8192,
            (heap == 0) ? 2400 : 1300);
}

static void kfd_put_cpu(const char *dir, const kfd_config_t *config, unsigned node)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
    unsigned links = kfd_links_of_cpu(dir, config, node);

    kfd_put(dir, "nodes/%u/gpu_id=0\n", node);
    kfd_put(dir, "nodes/%u/name=\n", node);
    kfd_put_bank(dir, node, 0, (uint64_t)pages * 4096 / config->num_numa);
    kfd_put(dir,
            "nodes/%u/properties=cpu_cores_count %ld\nsimd_count 0\nmem_banks_count 1\n"
            "caches_count 0\nio_links_count %u\np2p_links_count 0\ncpu_core_id_base 0\n"
            "simd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\ngds_size_in_kb 0\n"
            "num_gws 0\nwave_front_size 0\narray_count 0\nsimd_arrays_per_engine 0\n"
            "cu_per_simd_array 0\nsimd_per_cu 0\nmax_slots_scratch_cu 0\n"
            "gfx_target_version 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\ndomain 0\n"
            "drm_render_minor 0\nhive_id 0\nnum_sdma_engines 0\n"
            "num_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
            "max_engine_clk_ccompute 2400\n",
            node, (cores < (long)config->num_numa) ? 1 : cores / config->num_numa,
            links);
}

/* libhsakmt's processing of the topology ends in an assertion if there is no cache. */
static void kfd_put_caches(const char *dir, unsigned node)
{
    static const unsigned kib[] = {32, 4096, 262144}; /* L1, L2, memory side */
    unsigned i;

    for (i = 0; i < 3; ++i) {
        kfd_dir(dir, "nodes/%u/caches/%u", node, i);
        kfd_put(dir,
                "nodes/%u/caches/%u/properties=processor_id_low 2147487744\nlevel %u\n"
                "size %u\ncache_line_size 128\ncache_lines_per_tag 1\nassociation 16\n"
                "latency 0\ntype 9\nsibling_map 1\n",
                node, i, i + 1, kib[i]);
    }
}

static void kfd_put_gpu(const char *dir, const kfd_config_t *config, unsigned gpu)
{
    const kfd_model_t *m = config->model;
    unsigned node = config->num_numa + gpu, xccs = m->num_xcc / config->partitions;
    unsigned sdma = m->num_sdma / config->partitions, num_p2p;
    unsigned links = kfd_links_of_gpu(dir, config, gpu, &num_p2p);

    kfd_put(dir, "nodes/%u/gpu_id=%u\n", node, KFD_GPU_ID(gpu));
    kfd_put(dir, "nodes/%u/name=ip discovery\n", node);
    kfd_put_bank(dir, node, 1, config->vram); /* public: the BAR is large */
    kfd_put_caches(dir, node);
    /* two engines for the host and the others for xGMI: kfd_get_num_sdma_engines() */
    kfd_put(dir,
            "nodes/%u/properties=cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\n"
            "caches_count 3\nio_links_count %u\np2p_links_count %u\n"
            "cpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd 8\n"
            "lds_size_in_kb %u\ngds_size_in_kb 0\nnum_gws 64\nwave_front_size 64\n"
            "array_count %u\nsimd_arrays_per_engine 1\ncu_per_simd_array %u\n"
            "simd_per_cu 4\nmax_slots_scratch_cu 32\ngfx_target_version %u\n"
            "vendor_id 4098\ndevice_id %u\nlocation_id %u\ndomain 0\n"
            "drm_render_minor %u\nhive_id %llu\nnum_sdma_engines 2\n"
            "num_sdma_xgmi_engines %u\nnum_sdma_queues_per_engine 8\n"
            "num_cp_queues 24\nmax_engine_clk_fcompute 2100\nlocal_mem_size 0\n"
            "fw_version 166\ncapability %u\ndebug_prop 1511\nsdma_fw_version 22\n"
            "unique_id %llu\nnum_xcc %u\nmax_engine_clk_ccompute 2400\n",
            node, xccs * m->xcc_cus * 4, links, num_p2p, m->lds_kib,
            xccs * m->xcc_arrays, m->array_cus, m->target, m->device_id,
            kfd_location(config, gpu), KFD_FIRST_MINOR + gpu,
            (config->links == KFD_LINKS_XGMI) ? KFD_HIVE_ID : 0, sdma - 2,
            KFD_CAPABILITY, 0x1122334455667701ull + gpu, xccs);
}

static void kfd_put_all(const char *dir, const kfd_config_t *config)
{
    unsigned node;

    kfd_put(dir, "generation_id=2\n");
    kfd_put(dir, "system_properties=platform_oem 2314885530279477070\n"
                 "platform_id 5642820288884166989\nplatform_rev 1\n");
    kfd_put(dir, "initstate=live\n");
    kfd_dir(dir, "nodes");
    for (node = 0; node < config->num_numa + config->num_gpus; ++node) {
        kfd_dir(dir, "nodes/%u", node);
        kfd_dir(dir, "nodes/%u/mem_banks", node);
        kfd_dir(dir, "nodes/%u/caches", node);
        kfd_dir(dir, "nodes/%u/io_links", node);
        kfd_dir(dir, "nodes/%u/p2p_links", node);
        if (node < config->num_numa) {
            kfd_put_cpu(dir, config, node);
        } else {
            kfd_put_gpu(dir, config, node - config->num_numa);
        }
    }
}

/* The folder above, as mkdir -p of its last part: the others belong to the user. */
static void kfd_make_base(const char *dir)
{
    char base[256], *slash;

    snprintf(base, sizeof(base), "%s", dir);
    slash = strrchr(base, '/');
    *slash = '\0';
    if (mkdir(base, 0700) && (errno != EEXIST)) {
        kfd_die("cannot make %s: %s; name a folder by KFDCPU_DIR", base,
                strerror(errno));
    }
}

void kfd_topology_make(const kfd_config_t *config)
{
    char work[300], lock[300];
    struct stat st;
    int fd;

    if (stat(config->dir, &st) == 0) {
        return;
    }
    kfd_make_base(config->dir);
    snprintf(lock, sizeof(lock), "%s.lock", config->dir);
    fd = (int)syscall(SYS_openat, AT_FDCWD, lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if ((fd < 0) || flock(fd, LOCK_EX)) {
        kfd_die("cannot lock %s: %s", lock, strerror(errno));
    }
    if (stat(config->dir, &st) != 0) {
        snprintf(work, sizeof(work), "%s.new", config->dir);
        if (mkdir(work, 0755) && (errno != EEXIST)) {
            kfd_die("cannot make %s: %s", work, strerror(errno));
        }
        kfd_put_all(work, config);
        if (rename(work, config->dir)) {
            kfd_die("rename(%s) failed: %s", work, strerror(errno));
        }
    }
    syscall(SYS_close, fd);
}

const char *kfd_topology_path(const char *path, char *buffer, size_t size)
{
    static const char *const roots[] = {"/sys/devices/virtual/kfd/kfd/topology",
                                        "/sys/class/kfd/kfd/topology"};
    const char *tail = NULL;
    unsigned i;

    if ((path == NULL) || (path[0] != '/')) {
        return path;
    }
    for (i = 0; i < 2; ++i) {
        if (strncmp(path, roots[i], strlen(roots[i])) == 0) {
            tail = path + strlen(roots[i]);
        }
    }
    if (strcmp(path, "/sys/module/amdgpu/initstate") == 0) {
        tail = "/initstate";
    }
    if (tail == NULL) {
        return path;
    }
    snprintf(buffer, size, "%s%s", kfd_config()->dir, tail);
    kfd_log(3, "path %s", path);
    return buffer;
}
