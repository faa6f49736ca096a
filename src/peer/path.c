/* SPDX-License-Identifier: BSD-3-Clause */

#include "peer/path.h"

#include "peer/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MKV_PATH_INFO_SIZE 1024

typedef struct mkv_path {
    mkv_list_t list; /* peer->paths */
    mkv_path_key_t key;
    mkv_backend_t backend;
    bool is_emulated, is_missing;
    bool may_be_pulled; /* the call's owner can request the peer to get instead */
    char text[128];     /* text of UCX */
} mkv_path_t;

static const char *mkv_call_name(mkv_call_kind_t kind)
{
    static const char *const names[] = {"put", "get", "list put"};

    return names[kind];
}

static const char *mkv_memory_name(ucs_memory_type_t type)
{
    static const char *const names[UCS_MEMORY_TYPE_LAST] = {
        [UCS_MEMORY_TYPE_HOST] = "host",
        [UCS_MEMORY_TYPE_CUDA] = "cuda",
        [UCS_MEMORY_TYPE_CUDA_MANAGED] = "cuda-managed",
        [UCS_MEMORY_TYPE_ROCM] = "rocm",
        [UCS_MEMORY_TYPE_ROCM_MANAGED] = "rocm-managed",
    };

    return (((unsigned)type < UCS_MEMORY_TYPE_LAST) && (names[type] != NULL))
               ? names[type]
               : "other";
}

/* ---- UCX's text of a path -------------------------------------------------------- */

/*
 * Cut the text to the protocol in "{FLAGS} put(multi) from host memory length 4096
 * software emulation tcp/lo 97.8 MB/s 39.94 us": the text between the length and the
 * two numbers. UCX prints the numbers only for protocols that it can estimate.
 */
static void mkv_path_cut(char *info, char *text, size_t size)
{
    char *from = strstr(info, " length ");
    char *end;

    from = (from != NULL) ? from + strlen(" length ") : info;
    from += strspn(from, "0123456789 ");
    end = strstr(from, " - not available");
    if (end == NULL) {
        end = strstr(from, " MB/s");
        while ((end != NULL) && (end > from) && (*--end != ' ')) {
        }
    }
    if (end != NULL) {
        *end = '\0';
    }
    mkv_text(text, size, "%s", from);
}

static bool mkv_path_query(void *request, char *text, size_t size)
{
    char info[MKV_PATH_INFO_SIZE] = "";
    ucp_request_attr_t attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_INFO_STRING |
                                             UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
                               .debug_string = info,
                               .debug_string_size = sizeof(info)};

    if (ucp_request_query(request, &attr) != UCS_OK) {
        return false;
    }
    info[sizeof(info) - 1] = '\0';
    mkv_path_cut(info, text, size);
    return true;
}

mkv_backend_t mkv_path_of(void *request, char *text, size_t size)
{
    return mkv_path_query(request, text, size) ? mkv_backend_of_text(text)
                                               : MKV_BACKEND_UNKNOWN;
}

static bool mkv_path_read(mkv_path_t *path, void *request)
{
    if (!mkv_path_query(request, path->text, sizeof(path->text))) {
        return false;
    }
    path->backend = mkv_backend_of_text(path->text);
    path->is_emulated = (strstr(path->text, "emulation") != NULL);
    path->is_missing = (strstr(path->text, "stub protocol") != NULL);
    return true;
}

/* ---- Why GPU memory takes a slow path -------------------------------------------- */

static uint64_t mkv_inode_of(const char *path)
{
    struct stat st;

    return (stat(path, &st) == 0) ? (uint64_t)st.st_ino : 0;
}

void mkv_spaces_self(mkv_spaces_t *spaces, const char *shm_dir)
{
    struct stat st;

    memset(spaces, 0, sizeof(*spaces));
    spaces->user = (uint32_t)geteuid() + 1;
    if (stat(shm_dir, &st) == 0) {
        spaces->shm = ((uint64_t)st.st_dev * 0x100000001b3ull) ^ (uint64_t)st.st_ino;
    }
    spaces->network = mkv_inode_of("/proc/self/ns/net");
    spaces->pids = mkv_inode_of("/proc/self/ns/pid");
}

static bool mkv_differ(uint64_t mine, uint64_t theirs)
{
    return (mine != 0) && (theirs != 0) && (mine != theirs);
}

/* In the order of mori_xgmi's own checks; the network counts for some runtimes only. */
mkv_slow_t mkv_process_apart(const mkv_process_t *self, const mkv_process_t *process,
                             char *text, size_t size)
{
    const mkv_spaces_t *mine = &self->spaces, *theirs = &process->spaces;

    if (mkv_differ(mine->shm, theirs->shm)) {
        mkv_text(text, size,
                 "it has another /dev/shm; containers need one (docker --ipc=host)");
        return MKV_SLOW_SHM;
    }
    if (mkv_differ(mine->user, theirs->user)) {
        mkv_text(text, size,
                 "it runs as user %" PRIu32 " and this process as user %" PRIu32
                 "; run both as one user",
                 theirs->user - 1, mine->user - 1);
        return MKV_SLOW_USER;
    }
    if ((self->pid == process->pid) && mkv_differ(mine->pids, theirs->pids)) {
        mkv_text(text, size,
                 "it has the same pid %" PRIu32
                 " in another pid namespace, and the GPU "
                 "runtime refuses IPC handles of its own pid (docker --pid=host, or "
                 "--init in one container)",
                 process->pid);
        return MKV_SLOW_PID;
    }
    if (mkv_differ(mine->network, theirs->network)) {
        mkv_text(
            text, size,
            "it has another network namespace; IPC of ROCm 7.2 and later needs one "
            "(docker --network=host)");
        return MKV_SLOW_NETWORK;
    }
    return MKV_SLOW_NO;
}

/* Allowed transports of this process, and the name of the setting */
static const char *mkv_tls(const mkv_peer_t *peer, const char **name_p)
{
    const char *tls = mkv_config_tls(peer->ctx->config);

    if (tls[0] != '\0') {
        *name_p = (peer->ctx->opts->tls[0] != '\0') ? "TLS" : "BACKEND, for UCX_TLS";
        return tls;
    }
    *name_p = "UCX_TLS";
    tls = getenv("UCX_TLS");
    return (tls != NULL) ? tls : "";
}

/* UCX_PLUGIN_PATH has folders between colons. */
static bool mkv_has_module(const char *plugins)
{
    char file[512];
    size_t length;

    for (; *plugins != '\0'; plugins += length + (plugins[length] == ':')) {
        length = strcspn(plugins, ":");
        snprintf(file, sizeof(file), "%.*s/libuct_mori.so.0", (int)length, plugins);
        if (access(file, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static mkv_slow_t mkv_slow_setting(const mkv_peer_t *peer, char *text, size_t size)
{
    const char *plugins = getenv("UCX_PLUGIN_PATH");
    const char *name, *tls = mkv_tls(peer, &name);

    if ((tls[0] != '\0') && (tls[0] != '^') && (strcmp(tls, "all") != 0) &&
        (strstr(tls, "mori") == NULL)) {
        mkv_text(text, size, "%s=%.64s leaves mori_xgmi and mori_rdma out: add them",
                 name, tls);
        return MKV_SLOW_TLS;
    }
    if (plugins == NULL) {
        mkv_text(text, size, "UCX_PLUGIN_PATH is not set: mori_env prints what to set");
        return MKV_SLOW_MODULE;
    }
    if (!mkv_has_module(plugins)) {
        mkv_text(text, size,
                 "UCX_PLUGIN_PATH=%.128s has no libuct_mori.so.0 that can be read: "
                 "mori_env prints what to set",
                 plugins);
        return MKV_SLOW_MODULE;
    }
    return MKV_SLOW_NO;
}

mkv_slow_t mkv_slow_reason(const mkv_peer_t *peer, char *text, size_t size)
{
    mkv_slow_t reason;

    if (strstr(peer->transports, "mori_") != NULL) {
        mkv_text(text, size, "mori_doctor shows what mori's transports reach here");
        return MKV_SLOW_OTHER;
    }
    reason = mkv_slow_setting(peer, text, size);
    if ((reason == MKV_SLOW_NO) && peer->is_same_host) {
        reason = mkv_process_apart(&peer->ctx->process, &peer->process, text, size);
    }
    if (reason == MKV_SLOW_NO) {
        mkv_text(text, size, "mori_doctor shows why mori's transports are missing");
        reason = MKV_SLOW_OTHER;
    }
    return reason;
}

/* ---- Log texts ------------------------------------------------------------------- */

/* "put of rocm memory to host memory", as this side sees it */
static void mkv_path_call_text(const mkv_path_key_t *key, char *text, size_t size)
{
    mkv_text(text, size, "%s of %s memory %s %s memory", mkv_call_name(key->kind),
             mkv_memory_name((key->kind == MKV_CALL_GET) ? key->remote : key->local),
             (key->kind == MKV_CALL_GET) ? "into" : "to",
             mkv_memory_name((key->kind == MKV_CALL_GET) ? key->local : key->remote));
}

/* A GPU's fabric needs GPU memory at both ends */
static bool mkv_path_is_of_gpus(const mkv_path_key_t *key)
{
    return (key->local != UCS_MEMORY_TYPE_HOST) &&
           (key->remote != UCS_MEMORY_TYPE_HOST);
}

static void mkv_path_describe(const mkv_peer_t *peer, const mkv_path_t *path,
                              char *text, size_t size)
{
    mkv_backend_t wanted = (mkv_backend_t)peer->ctx->opts->backend;
    char what[96], remedy[MKV_SLOW_TEXT_SIZE];

    mkv_path_call_text(&path->key, what, sizeof(what));
    if (((wanted == MKV_BACKEND_XGMI) || (wanted == MKV_BACKEND_IPC)) &&
        !mkv_path_is_of_gpus(&path->key)) {
        mkv_text(remedy, sizeof(remedy), "%s is for GPU memory on both sides",
                 mkv_backend_string(wanted));
    } else {
        (void)mkv_slow_reason(peer, remedy, sizeof(remedy));
    }
    if (path->is_missing) {
        mkv_text(text, size, "UCX has no way for a %s over [%s]; %s", what,
                 peer->transports, remedy);
    } else if (wanted != MKV_BACKEND_UNKNOWN) {
        mkv_text(text, size, "backend %s wanted, but %s carries a %s: %s; %s",
                 mkv_backend_string(wanted), mkv_backend_string(path->backend), what,
                 path->text, remedy);
    } else {
        mkv_text(text, size, "a %s is slow: %s; %s", what, path->text, remedy);
    }
}

/* Shared memory and sockets always emulate. A GPU's fabric or a NIC that emulates is
 * not in use */
static bool mkv_path_is_as_wanted(const mkv_peer_t *peer, const mkv_path_t *path)
{
    mkv_backend_t wanted = (mkv_backend_t)peer->ctx->opts->backend;

    return (wanted == MKV_BACKEND_UNKNOWN) ||
           ((path->backend == wanted) &&
            (!path->is_emulated || (wanted >= MKV_BACKEND_SHM)));
}

/* Such a put is a trial: if it is emulated, the owner gets, and logs how */
static bool mkv_path_is_trial(const mkv_peer_t *peer, const mkv_path_t *path)
{
    return path->may_be_pulled && (path->key.kind == MKV_CALL_PUT) &&
           path->is_emulated && (path->key.remote == UCS_MEMORY_TYPE_HOST) &&
           peer->is_same_host && (peer->ctx->opts->read_by != MKV_READ_GET) &&
           mkv_peer_has_feature(peer, MKV_FEATURE_PUSH);
}

static bool mkv_path_is_slow_gpu(const mkv_peer_t *peer, const mkv_path_t *path)
{
    return (path->is_emulated || (path->backend >= MKV_BACKEND_SHM)) &&
           ((path->key.local != UCS_MEMORY_TYPE_HOST) ||
            (path->key.remote != UCS_MEMORY_TYPE_HOST)) &&
           !mkv_path_is_trial(peer, path);
}

static void mkv_path_log(mkv_peer_t *peer, const mkv_path_t *path)
{
    bool is_as_wanted = mkv_path_is_as_wanted(peer, path);
    char text[768], what[96];

    if (path->is_missing && (path->key.kind == MKV_CALL_LIST)) {
        return; /* pieces follow and log their own path */
    }
    if (is_as_wanted && !path->is_missing && !mkv_path_is_slow_gpu(peer, path)) {
        mkv_path_call_text(&path->key, what, sizeof(what));
        mkv_log_info(peer->ctx, "peer %s: %s carries a %s: %s", peer->name,
                     mkv_backend_string(path->backend), what, path->text);
        return;
    }
    mkv_path_describe(peer, path, text, sizeof(text));
    if (mkv_path_is_of_gpus(&path->key) && (peer->slow == MKV_SLOW_NO)) {
        peer->slow = mkv_slow_reason(peer, peer->slow_text, sizeof(peer->slow_text));
    }
    if (!is_as_wanted && !path->is_missing && peer->ctx->opts->strict) {
        peer->paths_refused[path->key.kind][path->key.local] |=
            (uint16_t)(1u << path->key.remote);
    }
    mkv_log_warn(peer->ctx, "peer %s: %s", peer->name, text);
}

/* ---- Recording a path ------------------------------------------------------------ */

void mkv_path_note(mkv_peer_t *peer, const mkv_path_key_t *key, bool may_be_pulled,
                   void *request)
{
    mkv_path_t *path;

    _Static_assert(UCS_MEMORY_TYPE_LAST <= 16, "a bit for each type");
    if (mkv_path_is_known(peer, key)) {
        return;
    }
    peer->paths_known[key->kind][key->local] |= (uint16_t)(1u << key->remote);
    path = calloc(1, sizeof(*path));
    if (path == NULL) {
        return;
    }
    path->key = *key;
    path->may_be_pulled = may_be_pulled;
    if (!mkv_path_read(path, request)) {
        mkv_text(path->text, sizeof(path->text), "not reported by UCX");
    }
    mkv_list_add_tail(&peer->paths, &path->list);
    mkv_path_log(peer, path);
}

/* UCX 1.23 puts by rendezvous through fragments of its own, where 1.22 has messages */
static bool mkv_text_is_emulated(const char *text)
{
    return (strstr(text, "emulation") != NULL) || (strstr(text, "rndv") != NULL);
}

mkv_rmem_lists_t mkv_path_lists(const mkv_peer_t *peer, void *request)
{
    char text[128];

    if (!mkv_path_query(request, text, sizeof(text)) ||
        mkv_text_takes_lists(text, peer->ctx->ucp_version)) {
        return MKV_RMEM_LISTS_TAKEN;
    }
    return mkv_text_is_emulated(text) ? MKV_RMEM_LISTS_EMULATED : MKV_RMEM_LISTS_NONE;
}

static const mkv_path_t *mkv_path_find(const mkv_peer_t *peer,
                                       const mkv_path_key_t *key)
{
    const mkv_path_t *path;

    mkv_list_for_each(path, &peer->paths, list)
    {
        if ((path->key.kind == key->kind) && (path->key.local == key->local) &&
            (path->key.remote == key->remote)) {
            return path;
        }
    }
    return NULL;
}

bool mkv_path_is_emulated(const mkv_peer_t *peer, const mkv_path_key_t *key)
{
    const mkv_path_t *path = mkv_path_find(peer, key);

    return (path != NULL) && (path->is_missing || mkv_text_is_emulated(path->text));
}

void mkv_path_reason(const mkv_peer_t *peer, const mkv_path_key_t *key, char *text,
                     size_t size)
{
    const mkv_path_t *path = mkv_path_find(peer, key);

    text[0] = '\0';
    if ((path != NULL) && (path->is_missing || mkv_path_is_refused(peer, key))) {
        mkv_path_describe(peer, path, text, size);
    }
}

void mkv_paths_text(const mkv_peer_t *peer, char *text, size_t size)
{
    const mkv_path_t *path;
    size_t length = 0;

    text[0] = '\0';
    mkv_list_for_each(path, &peer->paths, list)
    {
        if (path->is_missing) {
            continue;
        }
        mkv_text(text + length, size - length, "%s%s %s>%s: %s (%s)",
                 length > 0 ? "; " : "", mkv_call_name(path->key.kind),
                 mkv_memory_name((path->key.kind == MKV_CALL_GET) ? path->key.remote
                                                                  : path->key.local),
                 mkv_memory_name((path->key.kind == MKV_CALL_GET) ? path->key.local
                                                                  : path->key.remote),
                 mkv_backend_string(path->backend), path->text);
        length = strlen(text);
    }
}

mkv_backend_t mkv_paths_backend(const mkv_peer_t *peer)
{
    mkv_backend_t backend = MKV_BACKEND_UNKNOWN;
    const mkv_path_t *path;

    mkv_list_for_each(path, &peer->paths, list)
    {
        if (!path->is_missing && (path->backend > backend)) {
            backend = path->backend;
        }
    }
    return backend;
}

bool mkv_paths_use(const mkv_peer_t *peer, mkv_backend_t backend)
{
    const mkv_path_t *path;

    mkv_list_for_each(path, &peer->paths, list)
    {
        if (path->backend == backend) {
            return true;
        }
    }
    return false;
}

bool mkv_paths_put_directly(const mkv_peer_t *peer)
{
    bool is_direct = false;
    const mkv_path_t *path;

    mkv_list_for_each(path, &peer->paths, list)
    {
        if ((path->key.kind == MKV_CALL_GET) || path->is_missing) {
            continue;
        }
        if (path->is_emulated) {
            return false;
        }
        is_direct = true;
    }
    return is_direct;
}

void mkv_paths_cleanup(mkv_peer_t *peer)
{
    mkv_path_t *path;

    while (!mkv_list_is_empty(&peer->paths)) {
        path = mkv_list_head(&peer->paths, mkv_path_t, list);
        mkv_list_del(&path->list);
        free(path);
    }
}
