/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/peer/xgmi_private.h"

#include "base/muct_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>


#define MUCT_XGMI_PRIVATE_PAGE ((size_t)sysconf(_SC_PAGESIZE))


uint64_t *muct_xgmi_private_share(uint64_t owner)
{
    uint64_t *word = mmap(NULL, MUCT_XGMI_PRIVATE_PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (word == MAP_FAILED) {
        muct_diag("mmap() of a page for copies of private memory failed: %m");
        return NULL;
    }
    if (madvise(word, MUCT_XGMI_PRIVATE_PAGE, MADV_DONTFORK) != 0) {
        muct_diag("madvise(MADV_DONTFORK) failed: %m");
        munmap(word, MUCT_XGMI_PRIVATE_PAGE);
        return NULL;
    }
    *word = owner;
    return word;
}

void muct_xgmi_private_unshare(uint64_t *word, pid_t pid)
{
    if ((word != NULL) && (pid == getpid())) { /* a forked child has no such page */
        munmap(word, MUCT_XGMI_PRIVATE_PAGE);
    }
}

/* @return 0, or an errno. ESRCH: the process has ended, or another one has its pid. */
static int muct_xgmi_private_identify(const muct_xgmi_private_t *private)
{
    uint64_t value = 0;
    const struct iovec to = {&value, sizeof(value)};
    const struct iovec from = {(void *)(uintptr_t)private->word, sizeof(value)};

    if (process_vm_readv(private->pid, &to, 1, &from, 1, 0) == sizeof(value)) {
        return (value == private->owner) ? 0 : ESRCH;
    }
    return (errno == EFAULT) ? ESRCH : errno;
}

/* Read both ends of the memory: the kernel cannot copy pages of a driver.
 * @return 0, or an errno. */
static int muct_xgmi_private_probe(const muct_xgmi_private_t *private, uint64_t address,
                                   uint64_t length)
{
    char bytes[2];
    const struct iovec to = {bytes, sizeof(bytes)};
    const struct iovec from[] = {{(void *)(uintptr_t)address, 1},
                                 {(void *)(uintptr_t)(address + length - 1), 1}};
    ssize_t num_read = process_vm_readv(private->pid, &to, 1, from, 2, 0);

    return (num_read == sizeof(bytes)) ? 0 : (num_read < 0) ? errno : EFAULT;
}

static const char *muct_xgmi_private_remedy(int error)
{
    return (error == EFAULT)
               ? "The memory is not mapped, or belongs to a driver"
               : "Both processes need the same user, PID namespace and "
                 "capabilities, and ptrace_scope 0, or 1 where UCX has cma";
}

static void muct_xgmi_private_report(const muct_xgmi_private_t *private, int error)
{
    static atomic_bool has_reported;

    if (!atomic_exchange(&has_reported, true)) {
        muct_info("private host memory of process 0x%" PRIx64
                  " (pid %d) is copied by messages, because process_vm_readv() fails: "
                  "%s. %s",
                  private->owner, (int)private->pid,
                  (error == EXDEV) ? "another PID namespace" : strerror(error),
                  muct_xgmi_private_remedy(error));
    }
}

ucs_status_t muct_xgmi_private_open(muct_xgmi_peer_t *peer, uint64_t address,
                                    uint64_t length, muct_xgmi_private_t *private)
{
    int error;

    private->pid = muct_xgmi_peer_pid(peer);
    private->owner = muct_xgmi_peer_owner(peer);
    error = (private->pid == 0) ? EXDEV : muct_xgmi_private_identify(private);
    if ((error == 0) && (length > 0)) {
        error = muct_xgmi_private_probe(private, address, length);
    }
    if ((error == 0) || ((error == ESRCH) && !muct_xgmi_peer_is_alive(peer))) {
        return UCS_OK;
    }

    muct_xgmi_private_report(private, error);
    return UCS_ERR_UNREACHABLE;
}

/* Transfer the owner's word and then the data in one call, which may copy only a part.
 * @return Bytes of data, or a negative errno. */
static ssize_t muct_xgmi_private_call(const muct_xgmi_private_t *private, bool is_put,
                                      uint64_t local, uint64_t remote, size_t length)
{
    uint64_t value = private->owner; /* a put writes the same value to the word */
    const struct iovec here[] = {{&value, sizeof(value)},
                                 {(void *)(uintptr_t)local, length}};
    const struct iovec there[] = {{(void *)(uintptr_t)private->word, sizeof(value)},
                                  {(void *)(uintptr_t)remote, length}};
    ssize_t part = is_put ? process_vm_writev(private->pid, here, 2, there, 2, 0)
                          : process_vm_readv(private->pid, here, 2, there, 2, 0);

    if (part < (ssize_t)sizeof(value)) { /* without the word it is another process */
        return ((part < 0) && (errno != EFAULT)) ? -errno : -ESRCH;
    }
    if (value != private->owner) {
        return -ESRCH;
    }
    part -= (ssize_t)sizeof(value);
    return (part > 0) ? part : -EFAULT;
}

ucs_status_t muct_xgmi_private_copy(const muct_xgmi_private_t *private, bool is_put,
                                    uint64_t local, uint64_t remote, size_t length)
{
    /* a get reads the word together with the data */
    int error = is_put ? muct_xgmi_private_identify(private) : 0;
    size_t done = 0;
    ssize_t part;

    while ((error == 0) && (done < length)) {
        part = muct_xgmi_private_call(private, is_put, local + done, remote + done,
                                      length - done);
        if (part > 0) {
            done += (size_t)part;
        } else {
            error = (int)-part;
        }
    }
    if (error == 0) {
        return UCS_OK;
    }
    if (error == ESRCH) {
        return UCS_ERR_CONNECTION_RESET;
    }

    muct_error("process_vm_%s(pid %d, 0x%" PRIx64
               ", length %zu) failed after %zu bytes: "
               "%s",
               is_put ? "writev" : "readv", (int)private->pid, remote, length, done,
               strerror(error));
    return UCS_ERR_IO_ERROR;
}
