/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef KFD_IMPL_H
#define KFD_IMPL_H

/**
 * @file
 * Parts of the stand-in of AMD's kernel driver, which one process loads by LD_PRELOAD.
 *
 * The process plays its own GPUs: a GPU address is the address of the same byte in the
 * process, a buffer object is a memfd that is mapped there, and a queue is a thread
 * that reads its ring. Numbers of GPUs count from 0; the driver's gpu_id is
 * KFD_GPU_ID(number).
 *
 * Functions that play an ioctl return 0, or -1 with errno as amdkfd has it.
 */

#include <linux/kfd_ioctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KFD_MAX_GPUS 64 /**< A bit of kfd_mask_t each: 8 packages in CPX */
#define KFD_GPU_ID(_gpu) (0x1001u + (unsigned)(_gpu))
#define KFD_FIRST_MINOR 128 /**< renderD128 is GPU 0 */

/** GPUs that a range is mapped to, a bit each */
typedef uint64_t kfd_mask_t;

/** A product in one mode of partitioning: the properties of its nodes in sysfs. */
typedef struct kfd_model {
    const char *name;      /**< Value of KFDCPU_MODEL */
    const char *marketing; /**< Name that libdrm returns */
    unsigned target;       /**< gfx_target_version */
    unsigned device_id;    /**< PCI device */
    unsigned num_xcc;      /**< Dies of a package */
    unsigned xcc_cus;      /**< Compute units of a die */
    unsigned xcc_arrays;   /**< Shader arrays of a die */
    unsigned array_cus;    /**< cu_per_simd_array, which counts disabled units */
    unsigned lds_kib;      /**< LDS of a workgroup */
    unsigned num_sdma;     /**< SDMA engines of a package */
} kfd_model_t;

/** How the packages reach each other */
typedef enum kfd_links { KFD_LINKS_XGMI, KFD_LINKS_PCIE, KFD_LINKS_NONE } kfd_links_t;

/** Settings of the environment; constant once kfd_config() has returned. */
typedef struct kfd_config {
    const kfd_model_t *model;
    unsigned num_packages; /**< KFDCPU_GPUS */
    unsigned partitions;   /**< Nodes of a package: 1 in SPX, num_xcc in CPX */
    unsigned num_gpus;     /**< num_packages * partitions */
    unsigned num_numa;     /**< CPU nodes of the topology */
    kfd_links_t links;
    uint64_t vram;         /**< Bytes of a GPU */
    uint64_t vram_taken;   /**< Bytes used by other programs */
    unsigned slow_copy_us; /**< Each copy stops in its middle, each fill before */
    int log_level;
    char dir[256]; /**< Folder of the topology and the usage */
} kfd_config_t;

/** The configuration; read from the environment by the first call. */
const kfd_config_t *kfd_config(void);

/** Log a line to standard error if KFDCPU_LOG is at least @a level. */
void kfd_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Log that something is not played, whatever KFDCPU_LOG is. */
void kfd_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Log a wrong setting or an impossible state, and end the process. */
void kfd_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/** Set errno and return -1. */
int kfd_error(int error);

/** Number of the GPU with this gpu_id, or -1. */
int kfd_gpu_number(uint32_t gpu_id);

/** The GPUs' counter: 100 MHz, as on MI300X. */
uint64_t kfd_clock(void);

/** CLOCK_MONOTONIC in nanoseconds. */
uint64_t kfd_now_ns(void);


/* kfd_topology.c */

/** Make the folder of the topology, unless a process has made it. */
void kfd_topology_make(const kfd_config_t *config);

/** Path to open instead of @a path; @a path itself if it is none of ours. */
const char *kfd_topology_path(const char *path, char *buffer, size_t size);


/* kfd_usage.c: VRAM that all processes hold, in a file beside the topology */

/** Account @a bytes of VRAM of a GPU. @return whether that much was free. */
bool kfd_usage_take(int gpu, uint64_t bytes);

/** Give back memory that kfd_usage_take() has accounted. */
void kfd_usage_give(int gpu, uint64_t bytes);

/** VRAM of a GPU that is free. */
uint64_t kfd_usage_free(int gpu);


/* kfd_map.c: which GPUs may access which addresses */

/** Set and clear GPUs' bits for a range. */
void kfd_map_change(uint64_t start, uint64_t length, kfd_mask_t set, kfd_mask_t clear);

/** Whether all of a range is mapped to a GPU. */
bool kfd_map_allows(int gpu, uint64_t start, uint64_t length);

/** Whether any byte of a range is mapped to some GPU. */
bool kfd_map_any(uint64_t start, uint64_t length);


/* kfd_memory.c: buffer objects */

/** A buffer object of this process; its memfd is shared with those that import it. */
typedef struct kfd_bo {
    bool used;
    bool is_import; /**< Its VRAM is accounted to the exporter */
    int fd;         /**< memfd; -1: none */
    int gpu;
    uint32_t flags; /**< KFD_IOC_ALLOC_MEM_FLAGS_ */
    uint64_t va;    /**< 0 if the address is no canonical user address */
    uint64_t size;
    kfd_mask_t mapped; /**< Set by MAP_MEMORY_TO_GPU */
} kfd_bo_t;

/** Bytes behind those of the object in its memfd: the metadata that importers see. */
#define KFD_BO_METADATA 4096

kfd_bo_t *kfd_bo_find(uint64_t handle);
int kfd_bo_import(int fd, int gpu, uint64_t va, uint64_t *handle);
void kfd_bo_drop(kfd_bo_t *bo);

/** Identity of a memfd of any process. @return whether it is a buffer object. */
bool kfd_bo_identify(int fd, uint32_t *gpu_id, uint32_t *flags, uint64_t *size);

int kfd_memory_alloc(void *arg);
int kfd_memory_free(void *arg);
int kfd_memory_map(void *arg);
int kfd_memory_unmap(void *arg);
int kfd_memory_available(void *arg);
int kfd_memory_svm(void *arg);

/** mmap(2) of /dev/kfd or a render node. */
void *kfd_memory_mmap(void *address, size_t length, int flags, off_t offset);

/** mmap(2) that no hook of the process sees, for the work of a GPU's page table. */
void *kfd_raw_mmap(void *address, size_t length, int prot, int flags, int fd,
                   off_t offset);

/** Offset for mmap(2) of a buffer object. */
uint64_t kfd_mmap_offset(uint64_t handle);

/** Offset for mmap(2) of the doorbell of a queue. */
uint64_t kfd_doorbell_offset(int gpu, unsigned queue);


/* kfd_share.c: dma-bufs and the IPC handles of the out-of-tree driver */

int kfd_share_dmabuf_info(void *arg);
int kfd_share_import(void *arg);
int kfd_share_export(void *arg);
int kfd_share_ipc_export(void *arg);
int kfd_share_ipc_import(void *arg);


/* kfd_event.c */

int kfd_event_create(void *arg);
int kfd_event_destroy(void *arg);
int kfd_event_set(void *arg);
int kfd_event_reset(void *arg);
int kfd_event_wait(void *arg);

/** Raise the event of this number, as an interrupt does. */
void kfd_event_fire(uint32_t id);

/** Raise a memory fault: all memory events fire, and the HSA runtime ends the process.
 */
void kfd_event_memory_fault(int gpu, uint64_t va, bool is_write);


/* kfd_queue.c */

typedef struct kfd_queue kfd_queue_t;

int kfd_queue_create(void *arg);
int kfd_queue_destroy(void *arg);
int kfd_queue_update(void *arg);

/** Look at the write pointers of all queues at once, and often from then on. */
void kfd_queue_poke(void);

/** Drop the records of threads that a fork has not copied. */
void kfd_queue_forked(void);

/** State of a queue that the packets of its ring use. */
struct kfd_queue {
    bool used;
    bool stop;   /**< The queue is being destroyed */
    bool halted; /**< A fault has stopped it for good */
    unsigned id;
    uint32_t type; /**< KFD_IOC_QUEUE_TYPE_ */
    int gpu;
    uint64_t ring;
    uint32_t ring_size;
    uint64_t *wptr;
    uint64_t *rptr;
    uint64_t position;
    uint64_t num_played; /**< Packets, for KFDCPU_STALL */
    uint32_t *kept;      /**< SDMA: copies that no fence has come behind */
    size_t num_kept;
    bool is_late; /**< The kernel that runs leaves its bytes in the L2 */
};

/** Wait a little for memory to change. @return false when the queue has to end. */
bool kfd_queue_relax(kfd_queue_t *queue, unsigned *turns);

/** Whether KFDCPU_STALL holds the queue in front of its next packet. */
bool kfd_queue_stalls(kfd_queue_t *queue);

/** Whether there is a packet at the queue's position. */
bool kfd_aql_has(const kfd_queue_t *queue);
bool kfd_sdma_has(const kfd_queue_t *queue);

/** Play it. @return false: the queue ends or is halted in the middle of it. */
bool kfd_aql_play(kfd_queue_t *queue);
bool kfd_sdma_play(kfd_queue_t *queue);


/** The queue whose kernel the calling thread plays. */
kfd_queue_t *kfd_running_queue(void);


/* kfd_access.c: a GPU's accesses to memory; false: not mapped, the queue is halted */

bool kfd_may(kfd_queue_t *queue, uint64_t address, uint64_t length, bool is_write);
bool kfd_copy(kfd_queue_t *queue, uint64_t dst, uint64_t src, uint64_t length);
bool kfd_fill(kfd_queue_t *queue, uint64_t dst, const void *pattern, size_t size,
              uint64_t count);
bool kfd_store32(kfd_queue_t *queue, uint64_t address, uint32_t value);
bool kfd_store64(kfd_queue_t *queue, uint64_t address, uint64_t value);
bool kfd_load32(kfd_queue_t *queue, uint64_t address, uint32_t *value);
bool kfd_load64(kfd_queue_t *queue, uint64_t address, uint64_t *value);
bool kfd_add64(kfd_queue_t *queue, uint64_t address, uint64_t value, uint64_t *old);


/* kfd_late.c: bytes that stay in a GPU's L2, by KFDCPU_RELEASE */

/** Whether the bytes of this kernel stay in the L2 at its end. */
bool kfd_late_has(const char *kernel);

/** Copy into the L2. */
void kfd_late_keep(int gpu, uint64_t dst, uint64_t src, uint64_t length);

/** Write the L2 back. */
void kfd_late_land(int gpu);

/** Begin a kernel: its reads see the contents of the L2. */
void kfd_late_begin(int gpu, const char *kernel);

/** A kernel has ended. */
void kfd_late_end(int gpu, const char *kernel);

/** Whether a packet with this header writes the L2 back. */
bool kfd_late_releases(uint16_t header);


/* kfd_fault.c */

/** Error that KFDCPU_FAIL has for this call of an ioctl; 0: none. */
int kfd_fault_take(const char *name);

/** Packets of an "sdma" queue, or dispatches of a kernel with this symbol, that are
 * played before a queue stalls; -1: all. */
int64_t kfd_fault_stall(const char *what);


/* kfd_ioctl.c */

/** ioctl(2) of /dev/kfd. */
int kfd_ioctl(unsigned long request, void *arg);

/** Whether an ioctl that is played has this name (amdkfd's, without AMDKFD_IOC_). */
bool kfd_ioctl_exists(const char *name);


/* kfd_maps.c */

/** Open /proc/self/maps as it is on a machine with GPUs. */
int kfd_maps_open(void);


/* kfd_calls.c */

/** The C library's mmap(2), which UCX and others patch to see mappings. */
void *kfd_next_mmap(void *address, size_t length, int prot, int flags, int fd,
                    off_t offset);

/** Whether @a fd is a render node of ours, and of which GPU. */
bool kfd_is_render(int fd, int *gpu);

#endif
