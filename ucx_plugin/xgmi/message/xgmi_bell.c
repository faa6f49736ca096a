/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "xgmi/message/xgmi_bell.h"

#include "base/muct_log.h"
#include "xgmi/peer/xgmi_page.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int muct_xgmi_bell_open(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id)
{
    return muct_xgmi_page_open_iface(dir, owner, id, MUCT_XGMI_BELL_SUFFIX, S_IFIFO);
}

int muct_xgmi_bell_create(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id)
{
    char path[512];
    int fd, error;

    muct_xgmi_page_iface_path(dir, owner, id, MUCT_XGMI_BELL_SUFFIX, path,
                              sizeof(path));
    if (mkfifo(path, 0600) != 0) {
        return -1;
    }

    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        error = errno;
        unlink(path);
        errno = error;
    }
    return fd;
}

void muct_xgmi_bell_remove(const char *dir, uint64_t owner, muct_xgmi_iface_id_t id,
                           int fd)
{
    char path[512];

    muct_xgmi_page_iface_path(dir, owner, id, MUCT_XGMI_BELL_SUFFIX, path,
                              sizeof(path));
    unlink(path);
    close(fd);
}

void muct_xgmi_bell_ring(int fd)
{
    if (write(fd, "", 1) != 1) {
        muct_debug("write(bell %d) failed: %m", fd); /* a full pipe is readable
                                                      * anyway */
    }
}

void muct_xgmi_bell_silence(int fd)
{
    char bytes[256];

    while (read(fd, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes)) {
    }
}
