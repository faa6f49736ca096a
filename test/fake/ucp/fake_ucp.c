/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/fake/ucp/fake_ucp.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKERS 16
#define DIE(...) fake_die(__func__, __VA_ARGS__)

struct ucp_mem {
    char *base;
    size_t length;
    unsigned num_ops;
    int is_own; /* UCP has allocated it */
};

struct ucp_rkey {
    char *base;
    size_t length;
    ucp_ep_h ep;
    unsigned num_ops; /* context whose requests hold it */
};

struct ucp_ep {
    ucp_worker_h worker, remote;
    ucp_ep_params_t params;
    int is_closed, is_broken;
    unsigned num_callbacks; /* of its operations, that have not returned */
    struct ucp_ep *next;
};

struct ucp_context {
    int dummy;
};

struct ucp_worker {
    ucp_am_handler_param_t handler;
    int is_stopped;
    int is_settling;
    unsigned index;
    ucp_ep_h eps;
    ucp_worker_h next_left;
};

typedef struct piece {
    char *local, *remote;
    size_t length;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
} piece_t;

/* An operation; its address is the request */
typedef struct op {
    struct op *next;
    unsigned kind;
    ucp_ep_h ep;
    unsigned long serial;
    ucp_request_param_t param;
    piece_t *pieces;
    size_t num_pieces;
    ucp_dt_local_sgl_t local; /* the caller's arrays, of a list */
    ucp_dt_remote_sgl_t remote;
    ucs_status_t status;
    int is_done;
    void *data; /* of a message: its header, and then its bytes */
    size_t length, header_length;
} op_t;

/* A message on its way */
typedef struct message {
    struct message *next;
    ucp_worker_h to;
    uint8_t *data; /* as the operation's */
    size_t length, header_length;
    uint64_t recv_attr;
} message_t;

static struct {
    ucp_worker_h workers[MAX_WORKERS];
    unsigned num_workers;
    op_t *ops;
    message_t *messages;
    unsigned long serial;
    unsigned inline_kinds, held, seed;
    unsigned fail_kind, fail_skip;
    ucs_status_t fail_status;
    unsigned fail_map, fail_unmap;
    unsigned lose, twice; /* the n-th message from now on */
    unsigned repeats;     /* of each message */
    size_t key_length;
    int refuses_lists, is_copying;
    unsigned version;
    const char *transport, *other_transport, *loop_transport, *path;
    const char *no_way; /* base of keys without a lane */
    unsigned calls[6], num_memh, num_rkeys, num_pieces, num_progress;
    unsigned num_arms;
    int efd_plus_1;       /* 0: there is none */
    ucp_worker_h held_to; /* operations to it are held */
    ucp_worker_h blocked; /* worker whose progress does not return */
    unsigned num_blocked; /* threads inside it */
} fake;

/* Abandoned workers still exist, as in UCX, and are no leak of a caller. */
static ucp_worker_h workers_left;

/* Workers of several contexts meet here, each under its own context's lock. Callbacks
 * run with it held, and call again. */
static pthread_mutex_t fake_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;

static int fake_lock(void)
{
    return pthread_mutex_lock(&fake_mutex);
}

static void fake_unlock(const int *guard)
{
    (void)guard;
    (void)pthread_mutex_unlock(&fake_mutex);
}

/* Hold the lock to the end of the function */
#define FAKE_GUARD                                                                     \
    const int fake_guard __attribute__((cleanup(fake_unlock), unused)) = fake_lock()

static void fake_die(const char *where, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));

static void fake_die(const char *where, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "fake_ucp: %s: ", where);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

static void *must_alloc(size_t size)
{
    void *p = calloc(1, size + (size == 0));

    if (p == NULL) {
        DIE("no memory");
    }
    return p;
}

/* ---- The test's side ------------------------------------------------------------- */

void fake_ucp_reset(void)
{
    message_t *message;

    if (fake.num_memh != 0) {
        DIE("%u registrations are left", fake.num_memh);
    }
    if (fake.num_rkeys != 0) {
        DIE("%u keys of peers are left", fake.num_rkeys);
    }
    if (fake.ops != NULL) {
        DIE("operations are left, the first of kind 0x%x", fake.ops->kind);
    }
    while ((message = fake.messages) != NULL) {
        fake.messages = message->next;
        free(message->data);
        free(message);
    }
    while (fake.num_workers > 0) {
        free(fake.workers[--fake.num_workers]);
    }
    fake_ucp_abandon();
}

void fake_ucp_abandon(void)
{
    ucp_worker_h worker;

    while (fake.num_workers > 0) {
        worker = fake.workers[--fake.num_workers];
        worker->next_left = workers_left;
        workers_left = worker;
    }
    memset(&fake, 0, sizeof(fake));
    fake.version = 23;
    fake.transport = "mori_xgmi";
    fake.other_transport = NULL;
    fake.loop_transport = "mori_xgmi";
    fake.path = NULL;
}

void fake_ucp_set_inline(unsigned kinds)
{
    FAKE_GUARD;
    fake.inline_kinds = kinds;
}

void fake_ucp_hold(unsigned kinds)
{
    FAKE_GUARD;
    fake.held = kinds;
}

void fake_ucp_set_copying(int is_copying)
{
    fake.is_copying = is_copying;
}

void fake_ucp_shuffle(unsigned seed)
{
    fake.seed = seed;
}

void fake_ucp_fail(unsigned kind, unsigned skip, ucs_status_t status)
{
    fake.fail_kind = kind;
    fake.fail_skip = skip;
    fake.fail_status = status;
}

void fake_ucp_lose_message(unsigned n)
{
    fake.lose = n;
}

void fake_ucp_double_message(unsigned n)
{
    fake.twice = n;
}

void fake_ucp_repeat_messages(unsigned times)
{
    fake.repeats = times;
}

void fake_ucp_fail_map(unsigned n)
{
    fake.fail_map = n;
}

void fake_ucp_fail_unmap(unsigned n)
{
    fake.fail_unmap = n;
}

void fake_ucp_set_key_length(size_t length)
{
    fake.key_length = length;
}

void fake_ucp_set_lists(int are_taken)
{
    fake.refuses_lists = !are_taken;
}

void fake_ucp_set_version(unsigned minor)
{
    fake.version = minor;
}

void fake_ucp_set_transport(const char *name)
{
    fake.transport = name;
}

void fake_ucp_add_transport(const char *name)
{
    fake.other_transport = name;
}

void fake_ucp_set_loop(const char *name)
{
    fake.loop_transport = name;
}

void fake_ucp_close_way(const void *base)
{
    fake.no_way = base;
}

void fake_ucp_set_path(const char *words)
{
    fake.path = words;
}

void fake_ucp_stop_worker(ucp_worker_h worker, int is_stopped)
{
    FAKE_GUARD;
    worker->is_stopped = is_stopped;
}

void fake_ucp_hold_peer(ucp_worker_h worker)
{
    FAKE_GUARD;
    fake.held_to = worker;
}

void fake_ucp_block(ucp_worker_h worker)
{
    FAKE_GUARD;
    fake.blocked = worker;
    pthread_cond_broadcast(&fake_changed);
}

void fake_ucp_wait_blocked(void)
{
    FAKE_GUARD;
    while (fake.num_blocked == 0) {
        pthread_cond_wait(&fake_changed, &fake_mutex);
    }
}

ucp_worker_h fake_ucp_worker(unsigned n)
{
    return fake.workers[n];
}

unsigned fake_ucp_num_calls(unsigned kinds)
{
    FAKE_GUARD;
    unsigned count = 0;
    unsigned i;

    for (i = 0; i < 6; ++i) {
        count += (kinds & (1u << i)) ? fake.calls[i] : 0;
    }
    return count;
}

void fake_ucp_set_efd(int fd)
{
    FAKE_GUARD;
    fake.efd_plus_1 = fd + 1;
}

unsigned fake_ucp_num_arms(void)
{
    FAKE_GUARD;
    return fake.num_arms;
}

unsigned fake_ucp_num_progress(void)
{
    FAKE_GUARD;
    return fake.num_progress;
}

unsigned fake_ucp_num_waiting(unsigned kinds)
{
    FAKE_GUARD;
    unsigned count = 0;
    op_t *op;

    for (op = fake.ops; op != NULL; op = op->next) {
        count += !op->is_done && (op->kind & kinds);
    }
    return count;
}

unsigned fake_ucp_num_memh(void)
{
    return fake.num_memh;
}

unsigned fake_ucp_num_rkeys(void)
{
    return fake.num_rkeys;
}

unsigned fake_ucp_num_pieces(void)
{
    FAKE_GUARD;
    return fake.num_pieces;
}

static int ep_is_loop(ucp_ep_h ep)
{
    return ep->worker == ep->remote;
}

void fake_ucp_break(ucs_status_t status)
{
    FAKE_GUARD;
    unsigned i;
    ucp_ep_h ep;
    op_t *op;

    for (op = fake.ops; op != NULL; op = op->next) {
        if (!op->is_done && (op->kind != FAKE_UCP_CLOSE) && !ep_is_loop(op->ep)) {
            op->status = status;
        }
    }
    for (i = 0; i < fake.num_workers; ++i) {
        for (ep = fake.workers[i]->eps; ep != NULL; ep = ep->next) {
            if (!ep->is_closed && !ep->is_broken && !ep_is_loop(ep)) {
                ep->is_broken = 1;
                ep->params.err_handler.cb(ep->params.err_handler.arg, ep, status);
            }
        }
    }
}

/* ---- Operations ------------------------------------------------------------------ */

static int kind_index(unsigned kind)
{
    return __builtin_ctz(kind);
}

static ucs_status_t op_fault(unsigned kind)
{
    if ((fake.fail_kind != kind) || (fake.fail_status == UCS_OK)) {
        return UCS_OK;
    }
    if (fake.fail_skip > 0) {
        --fake.fail_skip;
        return UCS_OK;
    }
    fake.fail_kind = 0;
    return fake.fail_status;
}

static void check_inside(const char *base, size_t length, const char *p, size_t bytes,
                         const char *what)
{
    if ((p < base) || (bytes > length) || ((size_t)(p - base) > length - bytes)) {
        DIE("%s: %zu bytes at %p are outside %zu bytes at %p", what, bytes,
            (const void *)p, length, (const void *)base);
    }
}

static op_t *op_new(ucp_ep_h ep, unsigned kind, const ucp_request_param_t *param)
{
    op_t *op = must_alloc(sizeof(*op));
    op_t **tail;

    if (ep->is_closed) {
        DIE("operation of kind 0x%x on a closed endpoint", kind);
    }
    ++fake.calls[kind_index(kind)];
    op->kind = kind;
    op->ep = ep;
    op->param = *param;
    op->serial = ++fake.serial;
    op->status = ep->is_broken ? UCS_ERR_CONNECTION_RESET : op_fault(kind);
    for (tail = &fake.ops; *tail != NULL; tail = &(*tail)->next) {
    }
    *tail = op;
    return op;
}

static void op_unlink(op_t *op)
{
    op_t **at;

    for (at = &fake.ops; *at != op; at = &(*at)->next) {
        if (*at == NULL) {
            DIE("request %p is unknown", (void *)op);
        }
    }
    *at = op->next;
}

static void op_free(op_t *op)
{
    op_unlink(op);
    free(op->pieces);
    free(op->data);
    free(op);
}

/* UCX reads the arrays until the operation completes, when and as often as it likes */
static void op_check_list(const op_t *op)
{
    const piece_t *piece;
    size_t i;

    for (i = 0; i < op->num_pieces; ++i) {
        piece = &op->pieces[i];
        if ((op->local.buffers[i] != piece->local) ||
            (op->local.lengths[i] != piece->length) ||
            (op->local.memhs[i] != piece->memh) ||
            (op->remote.remote_addrs[i] != (uintptr_t)piece->remote) ||
            (op->remote.rkeys[i] != piece->rkey)) {
            DIE("piece %zu of %zu: the list has changed in flight", i, op->num_pieces);
        }
    }
}

/* Whether an armed fault applies to this operation */
static unsigned is_due(unsigned *n)
{
    return (*n > 0) && (--*n == 0);
}

static void message_send(const op_t *op)
{
    message_t *message = must_alloc(sizeof(*message));
    message_t **tail;

    message->to = op->ep->remote;
    message->length = op->length;
    message->header_length = op->header_length;
    message->data = must_alloc(op->header_length + op->length);
    memcpy(message->data, op->data, op->header_length + op->length);
    message->recv_attr = ((op->param.op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) &&
                          (op->param.flags & UCP_AM_SEND_FLAG_RNDV))
                             ? UCP_AM_RECV_ATTR_FLAG_RNDV
                             : 0;
    for (tail = &fake.messages; *tail != NULL; tail = &(*tail)->next) {
    }
    *tail = message;
}

static void message_arrive(const op_t *op)
{
    unsigned num = fake.repeats;

    num += !is_due(&fake.lose);
    num += is_due(&fake.twice);
    while (num-- > 0) {
        message_send(op);
    }
}

/* Let the bytes arrive */
static void op_move(op_t *op)
{
    size_t i;

    if (op->kind == FAKE_UCP_LIST) {
        op_check_list(op);
    }
    for (i = 0; i < op->num_pieces; ++i) {
        --op->pieces[i].memh->num_ops;
        --op->pieces[i].rkey->num_ops;
        if (op->status != UCS_OK) {
            continue;
        }
        if (op->kind == FAKE_UCP_GET) {
            memcpy(op->pieces[i].local, op->pieces[i].remote, op->pieces[i].length);
        } else {
            memcpy(op->pieces[i].remote, op->pieces[i].local, op->pieces[i].length);
        }
    }
    if ((op->kind == FAKE_UCP_AM) && (op->status == UCS_OK)) {
        message_arrive(op);
    }
}

static void op_complete(op_t *op)
{
    ucp_ep_h ep = op->ep; /* the callback may free the request */

    op_move(op);
    op->is_done = 1;
    if (op->param.op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK) {
        ++ep->num_callbacks;
        op->param.cb.send(op, op->status, op->param.user_data);
        --ep->num_callbacks;
    }
}

static ucs_status_ptr_t op_start(op_t *op)
{
    ucs_status_t status;

    if (!(fake.inline_kinds & op->kind)) {
        return op;
    }
    if (op->param.op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
        op_complete(op); /* it may free op; UCX returns the address all the same */
        return op;
    }
    op_move(op);
    status = op->status;
    op_free(op);
    return UCS_STATUS_PTR(status);
}

static int op_is_copied(const op_t *op)
{
    return fake.is_copying && !op->is_done && (fake.held & op->kind);
}

static int op_may_complete(const op_t *op, ucp_worker_h worker)
{
    const op_t *other;

    if (op->is_done || (op->ep->worker != worker)) {
        return 0;
    }
    if ((op->status != UCS_OK) && !op_is_copied(op)) {
        return 1; /* held operations fail as well */
    }
    if ((fake.held & op->kind) || (fake.held_to == op->ep->remote)) {
        return 0;
    }
    if (!(op->kind & (FAKE_UCP_FLUSH | FAKE_UCP_CLOSE))) {
        return 1;
    }
    for (other = fake.ops; other != NULL; other = other->next) {
        if ((other->ep == op->ep) && !other->is_done && (other->serial < op->serial)) {
            return 0;
        }
    }
    return 1;
}

static op_t *pick_op(ucp_worker_h worker)
{
    unsigned count = 0, chosen;
    op_t *op;

    for (op = fake.ops; op != NULL; op = op->next) {
        count += op_may_complete(op, worker);
    }
    if (count == 0) {
        return NULL;
    }
    chosen = 0;
    if (fake.seed != 0) {
        fake.seed = fake.seed * 1103515245u + 12345u;
        chosen = (fake.seed >> 8) % count;
    }
    for (op = fake.ops; op != NULL; op = op->next) {
        if (op_may_complete(op, worker) && (chosen-- == 0)) {
            return op;
        }
    }
    return NULL;
}

/* ---- Context, worker ------------------------------------------------------------- */

void ucp_get_version(unsigned *major, unsigned *minor, unsigned *release)
{
    *major = 1;
    *minor = fake.version;
    *release = 0;
}

ucs_status_t ucp_config_read(const char *prefix, const char *file,
                             ucp_config_t **config)
{
    (void)prefix;
    (void)file;
    *config = must_alloc(1);
    return UCS_OK;
}

ucs_status_t ucp_config_modify(ucp_config_t *config, const char *name,
                               const char *value)
{
    (void)config;
    (void)name;
    (void)value;
    return UCS_OK;
}

void ucp_config_release(ucp_config_t *config)
{
    free(config);
}

ucs_status_t ucp_init_version(unsigned major, unsigned minor,
                              const ucp_params_t *params, const ucp_config_t *config,
                              ucp_context_h *context)
{
    (void)major;
    (void)minor;
    (void)params;
    (void)config;
    *context = must_alloc(sizeof(**context));
    return UCS_OK;
}

void ucp_cleanup(ucp_context_h context)
{
    free(context);
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params,
                               ucp_worker_h *worker)
{
    FAKE_GUARD;
    (void)context;
    (void)params;
    *worker = must_alloc(sizeof(**worker));
    (*worker)->index = fake.num_workers;
    fake.workers[fake.num_workers++] = *worker;
    return UCS_OK;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    FAKE_GUARD;
    const op_t *op;
    ucp_ep_h ep;

    if (worker->is_settling) {
        DIE("worker %u has a flush or lanes that are not over", worker->index);
    }
    for (op = fake.ops; op != NULL; op = op->next) {
        if ((op->ep->worker == worker) && (op->kind == FAKE_UCP_CLOSE) &&
            !op->is_done) {
            DIE("worker %u has an endpoint whose close is not over", worker->index);
        }
    }
    while ((ep = worker->eps) != NULL) {
        if (!ep->is_closed) {
            DIE("worker %u has an open endpoint", worker->index);
        }
        worker->eps = ep->next;
        free(ep);
    }
    worker->is_stopped = 1; /* the address stays valid for messages on their way */
}

ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
    attr->address_length = sizeof(worker);
    attr->address = must_alloc(sizeof(worker));
    memcpy(attr->address, &worker, sizeof(worker));
    return UCS_OK;
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address)
{
    (void)worker;
    free(address);
}

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd)
{
    FAKE_GUARD;
    (void)worker;
    if (fake.efd_plus_1 == 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    *fd = fake.efd_plus_1 - 1;
    return UCS_OK;
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    FAKE_GUARD;
    (void)worker;
    ++fake.num_arms;
    return UCS_OK;
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker,
                                            const ucp_am_handler_param_t *param)
{
    FAKE_GUARD;
    worker->handler = *param;
    return UCS_OK;
}

/* Deliver one message; shuffled, any of them */
static unsigned deliver(ucp_worker_h worker)
{
    ucp_am_recv_param_t param;
    message_t **at, *message;
    unsigned count = 0, chosen = 0;

    for (message = fake.messages; message != NULL; message = message->next) {
        count += (message->to == worker);
    }
    if (count == 0) {
        return 0;
    }
    if (fake.seed != 0) {
        fake.seed = fake.seed * 1103515245u + 12345u;
        chosen = (fake.seed >> 8) % count;
    }
    for (at = &fake.messages; ((*at)->to != worker) || (chosen-- > 0);
         at = &(*at)->next) {
    }
    message = *at;
    *at = message->next;
    if (worker->handler.cb != NULL) {
        param = (ucp_am_recv_param_t){.recv_attr = message->recv_attr};
        worker->handler.cb(
            worker->handler.arg, (message->header_length > 0) ? message->data : NULL,
            message->header_length, message->data + message->header_length,
            message->length, &param);
    }
    free(message->data);
    free(message);
    return 1;
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    FAKE_GUARD;
    unsigned count = 0;
    op_t *op;

    ++fake.num_progress;
    while (fake.blocked == worker) {
        ++fake.num_blocked;
        pthread_cond_broadcast(&fake_changed);
        pthread_cond_wait(&fake_changed, &fake_mutex);
        --fake.num_blocked;
    }
    if (worker->is_stopped) {
        return 0;
    }
    while ((op = pick_op(worker)) != NULL) {
        op_complete(op);
        ++count;
    }
    while (deliver(worker)) {
        ++count;
    }
    return count;
}

/* ---- Memory ---------------------------------------------------------------------- */

ucs_status_t ucp_mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
                         ucp_mem_h *memh)
{
    FAKE_GUARD;
    (void)context;
    if ((fake.fail_map > 0) && (--fake.fail_map == 0)) {
        return UCS_ERR_IO_ERROR;
    }
    if (!(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE)) {
        DIE("no memory type given");
    }
    *memh = must_alloc(sizeof(**memh));
    (*memh)->is_own = (params->field_mask & UCP_MEM_MAP_PARAM_FIELD_FLAGS) &&
                      (params->flags & UCP_MEM_MAP_ALLOCATE);
    (*memh)->base = (*memh)->is_own ? must_alloc(params->length) : params->address;
    (*memh)->length = params->length;
    ++fake.num_memh;
    return UCS_OK;
}

ucs_status_t ucp_mem_query(ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    attr->address = memh->base;
    attr->length = memh->length;
    return UCS_OK;
}

ucs_status_t ucp_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    FAKE_GUARD;
    (void)context;
    if (memh->num_ops != 0) {
        DIE("%u operations use the memory", memh->num_ops);
    }
    --fake.num_memh;
    if (memh->is_own) {
        free(memh->base);
    }
    free(memh);
    return is_due(&fake.fail_unmap) ? UCS_ERR_IO_ERROR : UCS_OK;
}

ucs_status_t ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh, void **buffer,
                           size_t *length)
{
    (void)context;
    *length = (fake.key_length > sizeof(*memh)) ? fake.key_length : sizeof(*memh);
    *buffer = must_alloc(*length);
    memcpy(*buffer, memh, sizeof(*memh));
    return UCS_OK;
}

void ucp_rkey_buffer_release(void *buffer)
{
    free(buffer);
}

ucs_status_t ucp_ep_rkey_unpack(ucp_ep_h ep, const void *buffer, ucp_rkey_h *rkey)
{
    struct ucp_mem mem;

    memcpy(&mem, buffer, sizeof(mem));
    *rkey = must_alloc(sizeof(**rkey));
    (*rkey)->base = mem.base;
    (*rkey)->length = mem.length;
    (*rkey)->ep = ep;
    FAKE_GUARD;
    ++fake.num_rkeys;
    return UCS_OK;
}

void ucp_rkey_destroy(ucp_rkey_h rkey)
{
    FAKE_GUARD;
    if (rkey->num_ops != 0) {
        DIE("%u operations use the key", rkey->num_ops);
    }
    --fake.num_rkeys;
    free(rkey);
}

/* ---- Endpoint -------------------------------------------------------------------- */

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params,
                           ucp_ep_h *ep)
{
    FAKE_GUARD;
    if ((params->err_mode != UCP_ERR_HANDLING_MODE_PEER) ||
        (params->err_handler.cb == NULL)) {
        DIE("no peer failure handling asked for");
    }
    if (fake.held & FAKE_UCP_MAKE) {
        worker->is_settling = 1;
        return UCS_ERR_UNREACHABLE;
    }
    *ep = must_alloc(sizeof(**ep));
    (*ep)->worker = worker;
    (*ep)->params = *params;
    memcpy(&(*ep)->remote, params->address, sizeof((*ep)->remote));
    (*ep)->next = worker->eps;
    worker->eps = *ep;
    return UCS_OK;
}

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
    attr->transports.entries[0].transport_name =
        ep_is_loop(ep) ? fake.loop_transport : fake.transport;
    attr->transports.entries[0].device_name = "fake0";
    attr->transports.num_entries = 1;
    if ((fake.other_transport != NULL) && !ep_is_loop(ep)) {
        attr->transports.entries[1].transport_name = fake.other_transport;
        attr->transports.entries[1].device_name = "fake1";
        attr->transports.num_entries = 2;
    }
    return UCS_OK;
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    FAKE_GUARD;
    return op_start(op_new(ep, FAKE_UCP_FLUSH, param));
}

/* Endpoints that were closed by force have nothing left here */
ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker,
                                      const ucp_request_param_t *param)
{
    FAKE_GUARD;
    (void)param;
    worker->is_settling |= (fake.held & FAKE_UCP_SETTLE) != 0;
    return worker->is_settling ? &worker->is_settling : NULL;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    FAKE_GUARD;
    op_t *op, *close = op_new(ep, FAKE_UCP_CLOSE, param);

    if (ep->num_callbacks > 0) {
        DIE("an endpoint is closed below a callback of its own operation");
    }
    /* Its flush over tcp sends the peer one more request if UCX itself has sent
     * anything since the last one (uct_tcp_ep_flush()). A second close, by force, is
     * refused (ucp_ep_close_nbx()): a peer that is stopped holds the close for ever. */
    if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ||
        !(param->flags & UCP_EP_CLOSE_FLAG_FORCE)) {
        DIE("an endpoint is closed with a flush, which nothing can cut");
    }
    ep->is_closed = 1;
    close->status = UCS_OK;
    for (op = fake.ops; op != NULL; op = op->next) {
        if ((op->ep == ep) && ep->is_broken && op_is_copied(op)) {
            DIE("a failed endpoint is closed before its operations end");
        }
        if ((op->ep == ep) && !op->is_done && (op != close)) {
            op->status = UCS_ERR_CANCELED;
        }
    }
    return op_start(close);
}

/* ---- Moving bytes ---------------------------------------------------------------- */

static void op_add_piece(op_t *op, void *local, size_t length, uint64_t remote,
                         ucp_mem_h memh, ucp_rkey_h rkey)
{
    piece_t *piece = &op->pieces[op->num_pieces++];

    piece->local = local;
    piece->remote = (char *)(uintptr_t)remote;
    piece->length = length;
    piece->memh = memh;
    piece->rkey = rkey;
    ++memh->num_ops;
    ++rkey->num_ops;
    check_inside(memh->base, memh->length, local, length, "local");
    check_inside(rkey->base, rkey->length, piece->remote, length, "remote");
    if (rkey->ep != op->ep) {
        DIE("the key belongs to another endpoint");
    }
}

static ucs_status_ptr_t rma(ucp_ep_h ep, unsigned kind, void *buffer, size_t length,
                            uint64_t remote, ucp_rkey_h rkey,
                            const ucp_request_param_t *param)
{
    op_t *op;

    if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH)) {
        DIE("no memory handle given");
    }
    op = op_new(ep, kind, param);
    op->pieces = must_alloc(sizeof(*op->pieces));
    op_add_piece(op, buffer, length, remote, param->memh, rkey);
    return op_start(op);
}

static ucs_status_ptr_t put_list(ucp_ep_h ep, const void *buffer, size_t count,
                                 const ucp_request_param_t *param)
{
    const ucp_dt_local_sgl_t *local = buffer;
    const ucp_dt_remote_sgl_t *remote = param->remote;
    op_t *op;
    size_t i;

    if (fake.refuses_lists) {
        ++fake.calls[kind_index(FAKE_UCP_LIST)];
        return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
    }
    op = op_new(ep, FAKE_UCP_LIST, param);
    op->pieces = must_alloc(count * sizeof(*op->pieces));
    fake.num_pieces += (unsigned)count;
    for (i = 0; i < count; ++i) {
        if (local->lengths[i] != remote->lengths[i]) {
            DIE("piece %zu: lengths differ", i);
        }
        op_add_piece(op, local->buffers[i], local->lengths[i], remote->remote_addrs[i],
                     local->memhs[i], remote->rkeys[i]);
        if (remote->rkeys[i]->base == fake.no_way) {
            DIE("piece %zu: a list to memory that no lane reaches", i);
        }
    }
    op->local = *local;
    op->remote = *remote;
    return op_start(op);
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count,
                             uint64_t remote, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    FAKE_GUARD;
    if (param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE) {
        return put_list(ep, buffer, count, param);
    }
    return rma(ep, FAKE_UCP_PUT, (void *)(uintptr_t)buffer, count, remote, rkey, param);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote,
                             ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    FAKE_GUARD;
    return rma(ep, FAKE_UCP_GET, buffer, count, remote, rkey, param);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header,
                                 size_t header_length, const void *buffer, size_t count,
                                 const ucp_request_param_t *param)
{
    FAKE_GUARD;
    uint8_t *data;
    op_t *op;

    (void)id;
    op = op_new(ep, FAKE_UCP_AM, param);
    op->data = data = must_alloc(header_length + count);
    op->length = count;
    op->header_length = header_length;
    if (header_length > 0) {
        memcpy(data, header, header_length);
    }
    memcpy(data + header_length, buffer, count);
    return op_start(op);
}

static const char *fake_path(const op_t *op, char *text, size_t size)
{
    snprintf(text, size, "%s %s/fake0",
             ((fake.no_way != NULL) && (op->pieces[0].rkey->base == fake.no_way))
                 ? "rndv using zero-copy flushed write to remote"
                 : "zero-copy",
             ep_is_loop(op->ep) ? fake.loop_transport : fake.transport);
    return (fake.path != NULL) ? fake.path : text;
}

/* Path in UCX's words: the text set by fake_ucp_set_path(), or the one lane */
ucs_status_t ucp_request_query(void *request, ucp_request_attr_t *attr)
{
    FAKE_GUARD;
    const op_t *op = request;
    char text[96];

    if (attr->field_mask != (UCP_REQUEST_ATTR_FIELD_INFO_STRING |
                             UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE)) {
        DIE("ucp_request_query() of fields 0x%lx", (unsigned long)attr->field_mask);
    }
    snprintf(attr->debug_string, attr->debug_string_size,
             "{proto} %s(multi) from host memory length %zu %s 97.8 MB/s 39.94 us",
             (op->kind == FAKE_UCP_GET) ? "get" : "put", op->pieces[0].length,
             fake_path(op, text, sizeof(text)));
    return UCS_OK;
}

void ucp_request_free(void *request)
{
    FAKE_GUARD;
    op_t *op = request;

    if (!op->is_done) {
        DIE("request of kind 0x%x is not complete", op->kind);
    }
    op_free(op);
}
