/* SPDX-License-Identifier: BSD-3-Clause */

/* The memory domain: beside ROCm support of UCX's own, and host memory. */

#include "base/muct_lock.h"
#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"
#include "xgmi/copy/xgmi_mover.h"
#include "xgmi/copy/xgmi_stage.h"
#include "xgmi/xgmi_md.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LENGTH 65536
#define LARGE (32u << 20)

static unsigned num_rocm_domains;
static const muct_gpu_t *gpu;


static ucs_status_t query_rocm(uct_component_t *component,
                               uct_md_resource_desc_t **resources_p, unsigned *num_p)
{
    (void)component;
    *resources_p = calloc(1, sizeof(**resources_p));
    *num_p = num_rocm_domains;
    return UCS_OK;
}

static uct_component_t nic_component = {.name = "ib", .query_md_resources = query_rocm};

static uct_component_t cma_component = {.name = "cma",
                                        .query_md_resources = query_rocm};

static uct_component_t rocm_component = {.name = "rocm_cpy",
                                         .query_md_resources = query_rocm};

static uct_md_h open_md(void)
{
    uct_md_config_t *config;
    uct_md_h md;

    ck_assert_int_eq(
        uct_md_config_read(&muct_xgmi_component.super, NULL, NULL, &config), UCS_OK);
    ck_assert_int_eq(
        uct_md_open(&muct_xgmi_component.super, MUCT_XGMI_NAME, config, &md), UCS_OK);
    uct_config_release(config);
    ck_assert_int_eq(muct_gpu_get(&gpu), UCS_OK);
    return md;
}

/* Check the domain's claims when UCX's component has so many domains; the rest is the
 * same. */
static void claims(unsigned num_domains, uint64_t detected, uint64_t dmabuf)
{
    const uint64_t rocm = UCS_BIT(UCS_MEMORY_TYPE_ROCM);
    uct_md_mem_attr_v2_t where = {.field_mask = UCT_MD_MEM_ATTR_V2_FIELD_SYS_DEV};
    uct_md_attr_v2_t attr = {.flags = 0};
    void *memory;
    uct_md_h md;

    num_rocm_domains = num_domains;
    md = open_md();
    ck_assert_int_eq(md->ops->query(md, &attr), UCS_OK);
    ck_assert_msg(attr.detect_mem_types == detected, "%u domains, UCX_TLS=%s",
                  num_domains, getenv("UCX_TLS"));
    ck_assert_uint_eq(attr.dmabuf_mem_types, dmabuf);
    ck_assert_uint_eq(attr.reg_mem_types, rocm | UCS_BIT(UCS_MEMORY_TYPE_HOST));

    ck_assert_int_eq(gpu->mem_alloc(&memory, LENGTH), 0);
    ck_assert_int_eq(md->ops->mem_query(md, memory, LENGTH, &where), UCS_OK);
    ck_assert_uint_ne(where.sys_dev, UCS_SYS_DEVICE_ID_UNKNOWN);
    ck_assert_int_eq(gpu->mem_free(memory), 0);
    uct_md_close(md);
}

START_TEST(ucx_own_support_recognises_memory_where_it_is_used)
{
    const uint64_t rocm = UCS_BIT(UCS_MEMORY_TYPE_ROCM);

    uct_component_register(&rocm_component);
    claims(1, 0, 0);
    claims(0, rocm, rocm); /* it is there, and finds no device */
    setenv("UCX_TLS", "mori_xgmi,mori_copy,tcp", 1);
    claims(1, rocm, rocm); /* no other component may */
    setenv("UCX_TLS", "mori_xgmi,rocm_copy,tcp", 1);
    claims(1, 0, 0);
    uct_component_unregister(&rocm_component);
}
END_TEST

/* A shared mapping of a file in memory; its descriptor stays open if asked for */
static char *map_file(int *fd_p)
{
    int fd = memfd_create("test", 0);
    void *address;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, LENGTH), 0);
    address = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(address, MAP_FAILED);
    *fd_p = fd;
    return address;
}

static uct_mem_h reg_host(uct_md_h md, void *address, unsigned flags)
{
    uct_mem_h memh;

    ck_assert_int_eq(uct_md_mem_reg(md, address, LENGTH, flags, &memh), UCS_OK);
    return memh;
}

static bool is_pinned(void *address)
{
    void *found;

    return muct_gpu_forget(gpu, gpu->host_get_device_pointer(&found, address, 0)) == 0;
}

static muct_xgmi_key_t key_of(uct_md_h md, uct_mem_h memh)
{
    unsigned char packed[MUCT_XGMI_KEY_PACKED_SIZE];
    muct_xgmi_key_t key;

    ck_assert_int_eq(uct_md_mkey_pack(md, memh, packed), UCS_OK);
    ck_assert_int_eq(muct_xgmi_key_unpack(packed, sizeof(packed), &key), UCS_OK);
    return key;
}

/* What malloc() may give out again in other pieces stays as it is */
START_TEST(host_memory_is_pinned_when_it_is_mapped)
{
    uct_md_h md = open_md();
    char *memory;
    uct_mem_h memh;
    int fd;

    memory = map_file(&fd);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(is_pinned(memory) && is_pinned(memory + LENGTH - 1));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    ck_assert(!is_pinned(memory));

    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_LOCAL_READ);
    ck_assert(!muct_pin(gpu, &((muct_xgmi_mem_t *)memh)->pin));
    ck_assert(!is_pinned(memory));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);

    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_FLAG_NONBLOCK);
    ck_assert(!is_pinned(memory));                    /* its pages may not be there */
    ck_assert(((muct_xgmi_mem_t *)memh)->is_private); /* nor may a peer pin them */
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);

    memory = malloc(LENGTH);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(!is_pinned(memory));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    free(memory);

    memory =
        mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_int_eq(uct_md_mem_reg(md, memory, LARGE, UCT_MD_MEM_ACCESS_RMA, &memh),
                     UCS_OK);
    ck_assert(is_pinned(memory) && is_pinned(memory + LARGE - 1));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    uct_md_close(md);
}
END_TEST

/* One hipHostUnregister() would end the application's registration. A kernel would read
 * behind its end. */
START_TEST(host_memory_registered_in_part_is_left_to_copy_calls)
{
    uct_md_h md = open_md();
    char *memory;
    uct_mem_h memh;
    int fd;

    memory = map_file(&fd);
    ck_assert_int_eq(gpu->host_register(memory, LENGTH / 2, 0), 0);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(!muct_pin(gpu, &((muct_xgmi_mem_t *)memh)->pin));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    ck_assert(is_pinned(memory));
    ck_assert_int_eq(gpu->host_unregister(memory), 0);

    ck_assert_int_eq(gpu->host_register(memory, LENGTH, 0), 0);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(muct_pin(gpu, &((muct_xgmi_mem_t *)memh)->pin));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    ck_assert(is_pinned(memory));
    ck_assert_int_eq(gpu->host_unregister(memory), 0);
    uct_md_close(md);
}
END_TEST

/* Two contexts of UCX, or two transports, pin the same memory */
START_TEST(host_memory_stays_pinned_until_its_last_handle_ends)
{
    uct_md_h md = open_md();
    uct_mem_h first, second;
    uint64_t delta;
    char *memory;
    int fd;

    memory = map_file(&fd);
    first = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    second = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert_int_eq(uct_md_mem_dereg(md, first), UCS_OK);
    ck_assert(is_pinned(memory));
    ck_assert(muct_pin_use(gpu, &((muct_xgmi_mem_t *)second)->pin, &delta));
    ck_assert_int_eq(uct_md_mem_dereg(md, second), UCS_OK);
    ck_assert(!is_pinned(memory));
    uct_md_close(md);
}
END_TEST

/* UCX keeps its handle, and a kernel would use memory that is not pinned any more */
/* A registration that a smaller handle keeps covers memory that may be another's now.
 */
START_TEST(registration_of_a_handle_that_ended_is_not_shared)
{
    uct_md_h md = open_md();
    uct_mem_h whole, part, again;
    char *memory;
    int fd;

    memory = map_file(&fd);
    whole = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert_int_eq(
        uct_md_mem_reg(md, memory, LENGTH / 2, UCT_MD_MEM_ACCESS_RMA, &part), UCS_OK);
    ck_assert(muct_pin(gpu, &((muct_xgmi_mem_t *)part)->pin));
    ck_assert_int_eq(uct_md_mem_dereg(md, whole), UCS_OK);
    ck_assert(is_pinned(memory + LENGTH / 2));

    again = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(!muct_pin(gpu, &((muct_xgmi_mem_t *)again)->pin));
    ck_assert_int_eq(uct_md_mem_dereg(md, again), UCS_OK);
    ck_assert_int_eq(uct_md_mem_dereg(md, part), UCS_OK);
    ck_assert(!is_pinned(memory));
    munmap(memory, LENGTH);
    close(fd);
    uct_md_close(md);
}
END_TEST

START_TEST(host_memory_the_application_unregistered_is_left_to_copy_calls)
{
    uct_md_h md = open_md();
    uint64_t delta;
    char *memory;
    uct_mem_h memh;
    int fd;

    memory = map_file(&fd);
    ck_assert_int_eq(gpu->host_register(memory, LENGTH, 0), 0);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert(muct_pin_use(gpu, &((muct_xgmi_mem_t *)memh)->pin, &delta));
    ck_assert_int_eq(gpu->host_unregister(memory), 0);
    ck_assert(!muct_pin_use(gpu, &((muct_xgmi_mem_t *)memh)->pin, &delta));
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    uct_md_close(md);
}
END_TEST

START_TEST(key_names_a_file_that_others_can_map)
{
    char *memory, *private = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uct_md_h md = open_md();
    muct_xgmi_key_t key;
    void *peer = NULL;
    uct_mem_h memh;
    int fd;

    memory = map_file(&fd);
    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA);
    key = key_of(md, memh);
    ck_assert_int_eq(key.kind, MUCT_XGMI_KEY_FILE);
    close(fd); /* the domain has its own */
    ck_assert_int_eq(muct_xgmi_file_map(key.handle, getpid(), LENGTH, &peer), UCS_OK);
    memory[LENGTH - 1] = 7;
    ck_assert_int_eq(((char *)peer)[LENGTH - 1], 7);
    munmap(peer, LENGTH);
    ck_assert_int_eq(muct_xgmi_file_map(key.handle, getpid(), LENGTH + 1, &peer),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    ck_assert_int_eq(muct_xgmi_file_map(key.handle, getpid(), LENGTH, &peer),
                     UCS_ERR_UNSUPPORTED);

    memh = reg_host(md, memory, UCT_MD_MEM_ACCESS_RMA); /* no descriptor is left */
    ck_assert_int_eq(key_of(md, memh).kind, MUCT_XGMI_KEY_PRIVATE);
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);

    memh = reg_host(md, private, UCT_MD_MEM_ACCESS_RMA);
    ck_assert_int_eq(key_of(md, memh).kind, MUCT_XGMI_KEY_PRIVATE);
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);

    memh = reg_host(md, private, 0); /* of a message */
    ck_assert_int_eq(key_of(md, memh).kind, MUCT_XGMI_KEY_LOCAL);
    ck_assert_int_eq(uct_md_mem_dereg(md, memh), UCS_OK);
    uct_md_close(md);
}
END_TEST

static _Thread_local bool is_packing;
static _Thread_local pthread_mutex_t *last_locked;
static pthread_mutex_t *slots_lock;
static atomic_uint num_at_slots, num_blocked;

/* A thread that packs waits before it takes a slot, until the other one is there or
 * cannot come. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *mutex);
    unsigned empty = 0;
    int ret;

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    }
    last_locked = mutex;
    if (is_packing && (mutex == slots_lock)) {
        atomic_fetch_add(&num_at_slots, 1);
        while ((atomic_load(&num_at_slots) < 2) && (atomic_load(&num_blocked) == 0)) {
            mkv_test_pause(&empty);
        }
    }
    if (!is_packing || (pthread_mutex_trylock(mutex) != 0)) {
        atomic_fetch_add(&num_blocked, is_packing);
        ret = real(mutex);
        atomic_fetch_sub(&num_blocked, is_packing);
        return ret;
    }
    return 0;
}

static uct_md_h packing_md;
static uct_mem_h packed_memh;

static void *pack_second(void *arg)
{
    unsigned empty = 0;

    while (atomic_load(&num_at_slots) == 0) {
        mkv_test_pause(&empty);
    }
    is_packing = true;
    *(muct_xgmi_key_t *)arg = key_of(packing_md, packed_memh);
    return NULL;
}

/* A second slot would be taken for ever, and its key valid. */
START_TEST(first_keys_of_two_threads_have_one_slot)
{
    muct_xgmi_key_t first, second;
    uint32_t slot, generation;
    pthread_t thread;
    void *memory;

    packing_md = open_md();
    ck_assert_int_eq(gpu->mem_alloc(&memory, LENGTH), 0);
    packed_memh = reg_host(packing_md, memory, UCT_MD_MEM_ACCESS_RMA);
    ck_assert_int_eq(muct_xgmi_slot_alloc(&slot, &generation), UCS_OK);
    muct_xgmi_slot_free(slot);
    slots_lock = last_locked;
    num_at_slots = num_blocked = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, pack_second, &second), 0);
    is_packing = true;
    first = key_of(packing_md, packed_memh);
    is_packing = false;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(first.kind, MUCT_XGMI_KEY_REMOTE);
    ck_assert_uint_eq(first.slot, second.slot);
    ck_assert_uint_eq(first.generation, second.generation);
    ck_assert_int_eq(uct_md_mem_dereg(packing_md, packed_memh), UCS_OK);
    ck_assert_int_eq(gpu->mem_free(memory), 0);
    uct_md_close(packing_md);
}
END_TEST

/* The number of the owner's descriptor may be another file's by the time of opening */
START_TEST(other_file_than_the_keys_is_not_mapped)
{
    muct_xgmi_file_t file;
    unsigned char bytes[MUCT_XGMI_FILE_SIZE];
    void *peer = NULL;
    char *memory;
    int fd, other;

    memory = map_file(&fd);
    (void)map_file(&other);
    ck_assert_int_eq(muct_xgmi_file_find((uintptr_t)memory + 5000, 100, &file), UCS_OK);
    ck_assert_uint_eq(file.base, (uintptr_t)memory + 4096);
    ck_assert_uint_eq(file.length, 4096);
    ck_assert_uint_eq(file.offset, 4096);
    ck_assert_int_eq(dup2(other, file.fd), file.fd);
    muct_xgmi_file_pack(&file, bytes);
    ck_assert_int_eq(muct_xgmi_file_map(bytes, getpid(), 4096, &peer),
                     UCS_ERR_UNSUPPORTED);
    muct_xgmi_file_release(&file);

    ck_assert_int_eq(mprotect(memory, LENGTH, PROT_READ), 0);
    ck_assert_int_eq(muct_xgmi_file_find((uintptr_t)memory, LENGTH, &file),
                     UCS_ERR_UNSUPPORTED);
    ck_assert_int_eq(mprotect(memory, LENGTH, PROT_READ | PROT_WRITE), 0);
    munmap(memory + 8192, 4096); /* a hole */
    ck_assert_int_eq(muct_xgmi_file_find((uintptr_t)memory, LENGTH, &file),
                     UCS_ERR_UNSUPPORTED);
}
END_TEST

/* A key from outside must not have files of a disk mapped, which are written to then */
START_TEST(file_on_a_disk_is_not_mapped)
{
    unsigned char bytes[MUCT_XGMI_FILE_SIZE];
    muct_xgmi_file_t file = {.length = 4096};
    char path[] = "./xgmi_md.XXXXXX";
    void *peer = NULL;
    struct statfs fs;
    struct stat st;
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(fstatfs(fd, &fs), 0);
    file.device = st.st_dev;
    file.inode = st.st_ino;
    file.fd = fd;
    muct_xgmi_file_pack(&file, bytes);
    ck_assert_int_eq(muct_xgmi_file_map(bytes, getpid(), 4096, &peer),
                     (fs.f_type == TMPFS_MAGIC) ? UCS_OK : UCS_ERR_UNSUPPORTED);
    close(fd);
}
END_TEST

static bool is_old_kernel; /* before Linux 5.14 */

/* In place of libc's */
int madvise(void *address, size_t length, int advice)
{
    if (is_old_kernel && (advice == 23)) { /* MADV_POPULATE_WRITE */
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, length, advice);
}

/* Processors would be sent SIGBUS. Loop index: an old kernel */
START_TEST(pages_that_cannot_be_had_are_found)
{
    unsigned char there[LENGTH / 4096];
    char *memory;
    size_t i;
    int fd;

    is_old_kernel = _i;
    memory = map_file(&fd);
    ck_assert(muct_xgmi_file_populate(memory, LENGTH));
    ck_assert_int_eq(mincore(memory, LENGTH, there), 0);
    for (i = 0; i < sizeof(there); ++i) {
        ck_assert_uint_eq(there[i] & 1, 1);
    }
    ck_assert_int_eq(ftruncate(fd, LENGTH / 2), 0);
    ck_assert(!muct_xgmi_file_populate(memory, LENGTH));
}
END_TEST

/* ---- Registrations at once ------------------------------------------------------- */

static void *slow; /* its registration waits */
static sem_t has_entered, may_go;
static unsigned num_registered;

static int register_slowly(void *address, size_t length, unsigned flags)
{
    if (address == slow) {
        ++num_registered;
        sem_post(&has_entered);
        sem_wait(&may_go);
    }
    return gpu->host_register(address, length, flags);
}

static int unregister_slowly(void *address)
{
    sem_post(&has_entered);
    sem_wait(&may_go);
    return gpu->host_unregister(address);
}

static muct_gpu_t slow_gpu;

static void *pin_it(void *arg)
{
    return (void *)(uintptr_t)muct_pin(&slow_gpu, arg);
}

/* slow_gpu registers this memory slowly */
static void slow_down(char *memory)
{
    slow_gpu = *gpu;
    slow_gpu.host_register = register_slowly;
    slow = memory;
    sem_init(&has_entered, 0, 0);
    sem_init(&may_go, 0, 0);
}

/* A call of the runtime for other memory lets this thread in; of the same it waits */
START_TEST(registration_of_other_memory_does_not_wait)
{
    char *memory = mmap(NULL, 3 * LENGTH, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    muct_pin_t pins[3], *const of_threads[] = {&pins[0], &pins[0], &pins[1]};
    pthread_t threads[3];
    void *is_done;
    uct_md_h md = open_md();
    unsigned i;

    slow_down(memory);
    muct_pin_init(&pins[0], memory, LENGTH, MUCT_PIN_UNTRIED);
    muct_pin_init(&pins[1], memory, LENGTH, MUCT_PIN_UNTRIED);
    muct_pin_init(&pins[2], memory + 2 * LENGTH, LENGTH, MUCT_PIN_UNTRIED);
    for (i = 0; i < 3; ++i) { /* the same pin twice, and a second one */
        ck_assert_int_eq(pthread_create(&threads[i], NULL, pin_it, of_threads[i]), 0);
    }
    sem_wait(&has_entered);
    ck_assert(muct_pin(&slow_gpu, &pins[2]));
    ck_assert(is_pinned(memory + 2 * LENGTH) && !is_pinned(memory));
    usleep(20000); /* for threads that do not wait; no result depends on it */
    ck_assert_int_eq(atomic_load(&pins[0].state), MUCT_PIN_UNTRIED);
    ck_assert_int_eq(atomic_load(&pins[1].state), MUCT_PIN_UNTRIED);
    sem_post(&may_go);
    for (i = 0; i < 3; ++i) {
        ck_assert_int_eq(pthread_join(threads[i], &is_done), 0);
        ck_assert_ptr_nonnull(is_done);
    }
    ck_assert_uint_eq(num_registered, 1);
    muct_pin_drop(gpu, &pins[2]);
    muct_pin_drop(gpu, &pins[0]);
    ck_assert(is_pinned(memory));
    muct_pin_drop(gpu, &pins[1]);
    ck_assert(!is_pinned(memory));
    uct_md_close(md);
}
END_TEST

/* The thread that registers is not in the child; a child that waits for it is killed */
START_TEST(a_child_forked_during_a_registration_registers)
{
    char *memory =
        mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uct_md_h md = open_md();
    muct_pin_t pins[2];
    pthread_t thread;
    int status;
    pid_t child;

    muct_lock_watch_forks();
    slow_down(memory);
    muct_pin_init(&pins[0], memory, LENGTH, MUCT_PIN_UNTRIED);
    muct_pin_init(&pins[1], memory, LENGTH, MUCT_PIN_UNTRIED);
    ck_assert_int_eq(pthread_create(&thread, NULL, pin_it, &pins[0]), 0);
    sem_wait(&has_entered);
    child = fork();
    if (child == 0) {
        (void)alarm(60);
        _exit(!muct_pin(gpu, &pins[1]));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    sem_post(&may_go);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    muct_pin_drop(gpu, &pins[0]);
    uct_md_close(md);
}
END_TEST

static void *drop_it(void *arg)
{
    muct_pin_drop(&slow_gpu, arg);
    return NULL;
}

/* A range that is being unregistered would stay in the child for ever. */
START_TEST(a_child_forked_during_an_unregistration_registers)
{
    char *memory =
        mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uct_md_h md = open_md();
    muct_pin_t pins[2];
    pthread_t thread;
    int status;
    pid_t child;

    muct_lock_watch_forks();
    slow_down(NULL);
    slow_gpu.host_unregister = unregister_slowly;
    muct_pin_init(&pins[0], memory, LENGTH, MUCT_PIN_UNTRIED);
    muct_pin_init(&pins[1], memory, LENGTH, MUCT_PIN_UNTRIED);
    ck_assert(muct_pin(gpu, &pins[0]));
    ck_assert_int_eq(pthread_create(&thread, NULL, drop_it, &pins[0]), 0);
    sem_wait(&has_entered);
    child = fork();
    if (child == 0) {
        (void)alarm(60);
        (void)gpu->host_unregister(
            memory); /* the parent's thread does not do it here */
        _exit(!muct_pin(gpu, &pins[1]) ||
              (atomic_load(&pins[1].state) != MUCT_PIN_OURS));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    sem_post(&may_go);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!is_pinned(memory));
    uct_md_close(md);
}
END_TEST

static int malloc_device; /* Current device of the allocation */

static int note_malloc(void **memory_p, size_t size, unsigned flags)
{
    ck_assert_int_eq(gpu->get_device(&malloc_device), 0);
    return gpu->host_malloc(memory_p, size, flags);
}

/* The runtime allocates on the node of the current device, which may be any */
START_TEST(buffers_are_near_the_device_that_uses_them)
{
    muct_xgmi_buffer_t *buffer;
    muct_xgmi_stage_t stage;
    uct_md_h md = open_md();
    muct_gpu_t noting = *gpu;
    int device;

    noting.host_malloc = note_malloc;
    ck_assert_int_eq(gpu->set_device(0), 0);
    muct_xgmi_stage_init(&stage, &noting, 256, 2);
    ck_assert_int_eq(muct_xgmi_stage_get(&stage, 1, &buffer), UCS_OK);
    ck_assert_int_eq(malloc_device, 1);
    ck_assert_int_eq(gpu->get_device(&device), 0);
    ck_assert_int_eq(device, 0);
    muct_xgmi_stage_put(buffer);
    muct_xgmi_stage_cleanup(&stage);
    uct_md_close(md);
}
END_TEST

typedef struct left_case {
    const char *tls;
    bool is_left;
} left_case_t;

static void leaves_host(uct_component_t *beside, const left_case_t *cases, size_t num)
{
    uct_md_attr_v2_t attr = {.flags = 0};
    uct_md_h md;
    size_t i;

    num_rocm_domains = 1;
    uct_component_register(beside);
    for (i = 0; i < num; ++i) {
        setenv("UCX_TLS", cases[i].tls, 1);
        md = open_md();
        ck_assert_int_eq(md->ops->query(md, &attr), UCS_OK);
        ck_assert_msg(!(attr.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST)) ==
                          cases[i].is_left,
                      "UCX_TLS=%s beside %s", cases[i].tls, beside->name);
        uct_md_close(md);
    }
    uct_component_unregister(beside);
}

/* UCP takes the fastest lane for host memory, and these reach private memory, too */
START_TEST(host_memory_is_left_to_what_reaches_all_of_it)
{
    static const left_case_t nic[] = {
        {"all", true},     {"mori_xgmi,tcp", false}, {"rc_mlx5,mori_xgmi", true},
        {"^rc", true}, /* ud and dc remain */
        {"^sm,ib", false}, {"^tcp,sm", true}};
    static const left_case_t cma[] = {{"all", true},
                                      {"mori_xgmi,\\cma,tcp", true},
                                      {"mori_xgmi,sm,tcp", true},
                                      {"mori_xgmi,posix,tcp", false},
                                      {"^ib", true},
                                      {"^ib,shm", false}};

    leaves_host(&nic_component, nic, sizeof(nic) / sizeof(nic[0]));
    leaves_host(&cma_component, cma, sizeof(cma) / sizeof(cma[0]));
}
END_TEST

/* The next read of another process unmaps this page behind itself, or NULL */
static void *lost_page;

/* As of libc, which has no other definition for this program */
ssize_t process_vm_readv(pid_t pid, const struct iovec *here, unsigned long num_here,
                         const struct iovec *there, unsigned long num_there,
                         unsigned long flags)
{
    ssize_t num_read =
        syscall(SYS_process_vm_readv, pid, here, num_here, there, num_there, flags);

    if (lost_page != NULL) {
        munmap(lost_page, (size_t)sysconf(_SC_PAGESIZE));
        lost_page = NULL;
    }
    return num_read;
}

static ucs_status_t private_copy(const muct_xgmi_private_t *owner, bool is_put,
                                 char *here, char *there)
{
    return muct_xgmi_private_copy(owner, is_put, (uintptr_t)here, (uintptr_t)there, 4);
}

/* Under the owner's pid there may be another process by now, or none. */
START_TEST(private_memory_of_another_owner_is_not_touched)
{
    uint64_t *word = muct_xgmi_private_share(7);
    muct_xgmi_private_t owner = {.pid = getpid(), .owner = 7, .word = (uintptr_t)word};
    char here[] = "new", there[] = "old";

    ck_assert_ptr_nonnull(word);
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_OK);
    ck_assert_str_eq(there, "new");

    strcpy(here, "bad");
    *word = 8; /* another incarnation */
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(private_copy(&owner, false, here, there),
                     UCS_ERR_CONNECTION_RESET);
    strcpy(here, "bad");
    *word = 7;
    owner.word = 4096; /* another program */
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_ERR_CONNECTION_RESET);
    owner.word = (uintptr_t)word;
    owner.pid = fork();
    if (owner.pid == 0) {
        _exit(0);
    }
    ck_assert_int_eq(waitpid(owner.pid, NULL, 0), owner.pid);
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_ERR_CONNECTION_RESET);
    ck_assert_str_eq(there, "new");
}
END_TEST

/* A child has the owner's memory at the same addresses, and may get its pid later. */
START_TEST(private_memory_of_a_forked_child_is_not_touched)
{
    uint64_t *word = muct_xgmi_private_share(7);
    muct_xgmi_private_t owner = {.owner = 7, .word = (uintptr_t)word};
    char here[] = "bad", there[] = "old";
    int status;

    owner.pid = fork();
    if (owner.pid == 0) {
        raise(SIGSTOP);
        _exit(strcmp(there, "old"));
    }
    ck_assert_int_eq(waitpid(owner.pid, &status, WUNTRACED), owner.pid);
    ck_assert(WIFSTOPPED(status));
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_ERR_CONNECTION_RESET);
    ck_assert_int_eq(private_copy(&owner, false, here, there),
                     UCS_ERR_CONNECTION_RESET);
    kill(owner.pid, SIGCONT);
    ck_assert_int_eq(waitpid(owner.pid, &status, 0), owner.pid);
    ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
    ck_assert_str_eq(here, "bad");
    muct_xgmi_private_unshare(word, getpid());
}
END_TEST

/* The owner may end between the read of its word and the copy. */
START_TEST(private_memory_behind_a_lost_word_is_not_touched)
{
    uint64_t *word = muct_xgmi_private_share(7);
    const muct_xgmi_private_t owner = {
        .pid = getpid(), .owner = 7, .word = (uintptr_t)word};
    char here[] = "bad", there[] = "old";

    lost_page = word;
    ck_assert_int_eq(private_copy(&owner, true, here, there), UCS_ERR_CONNECTION_RESET);
    ck_assert_ptr_null(lost_page);
    ck_assert_str_eq(there, "old");
}
END_TEST

/* A child opens its own context, and its word may lie where its parent's was. */
START_TEST(child_that_closes_what_it_has_inherited_keeps_its_word)
{
    const pid_t parent = getpid();
    uint64_t *word = muct_xgmi_private_share(7), *own;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    muct_xgmi_self_t self;
    int status;
    pid_t pid;

    ck_assert_int_eq(muct_xgmi_self_open("/dev/shm", &self), UCS_OK);
    pid = fork();
    if (pid == 0) {
        if (muct_xgmi_self_open("/dev/shm", &self) != UCS_OK) {
            _exit(2);
        }
        own = mmap(word, page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (own != word) {
            _exit(3);
        }
        muct_xgmi_private_unshare(word, parent);
        *own = 8;
        muct_xgmi_private_unshare(own, getpid());
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
    muct_xgmi_private_unshare(word, parent);
    muct_xgmi_self_close();
}
END_TEST

static int num_cpus; /* 0: those of the machine */

/* As of libc */
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    long length;
    int i;

    memset(set, 0, size);
    if (num_cpus == 0) {
        length = syscall(SYS_sched_getaffinity, pid, size, set);
        return (length < 0) ? -1 : 0;
    }
    for (i = 0; i < num_cpus; ++i) {
        CPU_SET(i, set);
    }
    return 0;
}

/* A thread for each of several CPUs, of those that the process may use. */
START_TEST(mover_has_threads_for_the_cpus_of_the_process)
{
    muct_xgmi_mover_t mover;

    num_cpus = MUCT_XGMI_MAX_MOVERS;
    muct_xgmi_mover_init(&mover, NULL);
    ck_assert_uint_eq(mover.max_threads, 1);
    muct_xgmi_mover_cleanup(&mover);
    num_cpus = MUCT_XGMI_MAX_MOVERS + 1;
    muct_xgmi_mover_init(&mover, NULL);
    ck_assert_uint_eq(mover.max_threads, MUCT_XGMI_MAX_MOVERS);
    muct_xgmi_mover_cleanup(&mover);
}
END_TEST

static int num_of_mover;
static sem_t has_run;

static void count_cpus(muct_xgmi_job_t *job)
{
    cpu_set_t set;

    (void)job;
    ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    num_of_mover = CPU_COUNT(&set);
    sem_post(&has_run);
}

/* An engine may bind its thread to a CPU before the first copy, behind the opening. */
START_TEST(mover_keeps_the_cpus_of_the_opening)
{
    muct_xgmi_job_t job = {.run = count_cpus};
    muct_xgmi_mover_t mover;
    muct_xgmi_wake_t wake;
    cpu_set_t all, one;
    int cpu = 0;

    ck_assert_int_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all)) {
        ++cpu;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sem_init(&has_run, 0, 0), 0);
    muct_xgmi_mover_init(&mover, &wake);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    muct_xgmi_mover_add(&mover, &job);
    ck_assert_int_eq(sem_wait(&has_run), 0);
    muct_xgmi_mover_cleanup(&mover);
    ck_assert_int_eq(num_of_mover, CPU_COUNT(&all));
    ck_assert_int_eq(sched_setaffinity(0, sizeof(all), &all), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xgmi_md");
    TCase *tcase = tcase_create("xgmi_md");

    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    tcase_add_test(tcase, ucx_own_support_recognises_memory_where_it_is_used);
    tcase_add_test(tcase, host_memory_is_pinned_when_it_is_mapped);
    tcase_add_test(tcase, host_memory_registered_in_part_is_left_to_copy_calls);
    tcase_add_test(tcase, host_memory_stays_pinned_until_its_last_handle_ends);
    tcase_add_test(tcase, registration_of_a_handle_that_ended_is_not_shared);
    tcase_add_test(tcase,
                   host_memory_the_application_unregistered_is_left_to_copy_calls);
    tcase_add_test(tcase, registration_of_other_memory_does_not_wait);
    tcase_add_test(tcase, a_child_forked_during_a_registration_registers);
    tcase_add_test(tcase, a_child_forked_during_an_unregistration_registers);
    tcase_add_test(tcase, buffers_are_near_the_device_that_uses_them);
    tcase_add_test(tcase, key_names_a_file_that_others_can_map);
    tcase_add_test(tcase, first_keys_of_two_threads_have_one_slot);
    tcase_add_test(tcase, other_file_than_the_keys_is_not_mapped);
    tcase_add_test(tcase, file_on_a_disk_is_not_mapped);
    tcase_add_loop_test(tcase, pages_that_cannot_be_had_are_found, 0, 2);
    tcase_add_test(tcase, host_memory_is_left_to_what_reaches_all_of_it);
    tcase_add_test(tcase, private_memory_of_another_owner_is_not_touched);
    tcase_add_test(tcase, private_memory_of_a_forked_child_is_not_touched);
    tcase_add_test(tcase, private_memory_behind_a_lost_word_is_not_touched);
    tcase_add_test(tcase, child_that_closes_what_it_has_inherited_keeps_its_word);
    tcase_add_test(tcase, mover_has_threads_for_the_cpus_of_the_process);
    tcase_add_test(tcase, mover_keeps_the_cpus_of_the_opening);
    suite_add_tcase(suite, tcase);
    return mkv_check_run_forked(suite);
}
