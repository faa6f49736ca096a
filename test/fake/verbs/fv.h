/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FV_H
#define FV_H

#include "config.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "fake_verbs.h"

/*
 * Inside the fake. State that a peer's device must see lies on the wire: receive
 * queues, completion queues, keys and states, in memory that all processes of a wire
 * map. Send queues are private: a device runs its own send queue and accesses its
 * peer's memory (memcpy in one process, process_vm_writev() between two).
 *
 * One lock, wire->lock, guards all state, on the wire and off it. The lock is robust:
 * other processes continue when its holder dies. A holder that is stopped by a signal
 * is continued until it releases the lock, as a device does not stop with a process.
 */

#define FV_MAX_DEVICES 16
#define FV_MAX_QPS 4096
#define FV_MAX_CQS 4096
#define FV_MAX_SRQS 256
#define FV_MAX_MRS 65536
#define FV_MAX_CONTEXTS 256
#define FV_NAME_LEN 64
#define FV_INF UINT64_MAX
#define FV_MAX_SGE 64
#define FV_NUM_VECTORS 30    /* of ionic: 32 event queues, two of them for other ends */
#define FV_MAX_DATAGRAM 256u /* the least path MTU there is */

#define fv_container_of(_ptr, _type, _member)                                          \
    ((_type *)((char *)(_ptr) - offsetof(_type, _member)))

typedef struct fv_caps {
    const char *profile;
    uint32_t vendor_id;
    uint32_t part_id;
    bool ib; /* InfiniBand link layer, else Ethernet */
    int max_qp;
    int max_qp_wr;
    int max_sge;
    int max_inline;
    int inline_errno; /* error of ibv_create_qp() above max_inline */
    int max_cqe;
    int max_mr;
    uint64_t max_mr_size;
    int max_entries; /* of the page table, and max_mr_size is no limit; 0: many */
    uint32_t max_msg_sz;
    int max_rd_atom;
    int max_res_rd_atom; /* of all queue pairs, as reported; 0: max_rd_atom each */
    bool shares_rd_atom; /* and there are no more */
    int max_init_rd_atom;
    int max_srq; /* 0: of a driver that has none, the three */
    int max_srq_wr;
    int max_srq_sge;
    bool atomics;
    bool no_peermem;     /* EINVAL to memory of a GPU by its address */
    bool iwarp;          /* no InfiniBand and no RoCE */
    bool no_gpu_atomics; /* EINVAL to REMOTE_ATOMIC for memory of a GPU */
    bool dmabuf;
    bool efault;  /* ibv_create_qp() mostly fails off the main thread */
    bool td;      /* thread domains */
    bool forgets; /* ibv_modify_qp() to error flushes unpolled entries */
    uint32_t ece; /* options; 0: none */
    int ifindex;  /* of the network interface, where it is */
    int grh;      /* the port wants a global header on InfiniBand, too */
    int limited;  /* as many partitions before the full one, of limited members */
    uint8_t active_speed;
    uint8_t active_width;
} fv_caps_t;

typedef struct fv_device {
    struct ibv_device ibv;
    unsigned index;
    fv_caps_t caps;
    char pci[32];
    unsigned gid_swap[2]; /* entries that have changed places; equal: none */
    fake_verbs_stats_t stats;
} fv_device_t;

/* ---- on the wire ---- */

typedef struct fv_cqe {
    uint64_t wr_id;
    uint32_t status;
    uint32_t opcode;
    uint32_t byte_len;
    uint32_t imm_data;
    uint32_t qp_num;
    uint32_t src_qp;
    uint32_t wc_flags;
    uint32_t vendor_err;
    uint32_t queue_end; /* the queue is free up to here when this is polled */
    uint32_t srq;       /* or one entry of this one is, slot + 1 */
    bool is_recv;
    bool solicited;
} fv_cqe_t;

typedef struct fv_wire_cq {
    bool used;
    pid_t pid;
    bool attention; /* a send queue of it has to look at its state */
    bool broken;    /* takes no completion any more */
    uint32_t armed; /* 0 no, 1 next completion, 2 next solicited one */
    int notify_fd;  /* number in the owner's table, -1 without a channel */
    uint64_t owner; /* address of the owner's object */
    uint32_t size;
    uint32_t head; /* next to write */
    uint32_t tail; /* next to poll */
    uint64_t ring; /* offset of fv_cqe_t[size] */
} fv_wire_cq_t;

typedef struct fv_recv {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t index;
    struct ibv_sge sge[];
} fv_recv_t;

typedef struct fv_rq {
    uint32_t size;
    uint32_t max_sge;
    uint32_t head;  /* next to post */
    uint32_t taken; /* next to receive into */
    uint32_t tail;  /* next to be freed by a poll; of a shared one, how many were */
    uint64_t ring;  /* offset of size fv_recv_t */
} fv_rq_t;

typedef struct fv_wire_srq {
    bool used;
    pid_t pid;
    uint32_t pd;
    uint32_t limit; /* raise an event once when fewer are left; 0 never */
    fv_rq_t rq;
    int async_fd;
    uint64_t owner;
} fv_wire_srq_t;

typedef struct fv_wire_qp {
    bool used;
    bool lost;    /* packets to and from it are lost */
    bool limited; /* member of its partition */
    bool is_datagram;
    pid_t pid;
    uint32_t gen;
    uint32_t qp_num;
    uint32_t device;
    uint32_t pd;
    uint32_t state; /* enum ibv_qp_state */
    uint32_t access;
    uint32_t dest_qp_num;
    uint32_t qkey; /* of datagrams */
    uint32_t sq_psn;
    uint32_t rq_psn;
    uint32_t sgid_index;
    uint32_t dlid;
    bool is_global;
    union ibv_gid dgid;
    uint8_t path_mtu;
    uint8_t min_rnr_timer;
    uint8_t max_dest_rd_atomic;
    uint32_t ece; /* options in use since it is ready to receive */
    uint32_t recv_cq;
    uint32_t send_cq;
    fv_rq_t rq;    /* empty when srq is not */
    uint32_t srq;  /* slot + 1; 0: receives of its own */
    bool last_wqe; /* IBV_EVENT_QP_LAST_WQE_REACHED has been raised */
    int async_fd;
    uint64_t owner;
} fv_wire_qp_t;

typedef struct fv_wire_mr {
    bool used;
    uint8_t gen;
    pid_t pid;
    uint32_t device;
    uint32_t pd;
    uint32_t access;
    uint64_t iova;
    uint64_t length;
    uint64_t host;    /* where it is in the owner's address space */
    uint32_t entries; /* of the device's page table */
} fv_wire_mr_t;

typedef struct fv_wire_device {
    bool down;
    bool removed;
    bool lost; /* packets to and from it are lost */
    uint64_t bytes_out;
    uint64_t bytes_in;
} fv_wire_device_t;

/* An open device of some process: where its asynchronous events go. */
typedef struct fv_wire_context {
    bool used;
    pid_t pid;
    uint32_t device;
    int async_fd;
} fv_wire_context_t;

typedef struct fv_wire {
    uint64_t magic;
    uint64_t size;
    pthread_mutex_t lock;
    uint64_t arena_next;
    uint64_t arena_free[48]; /* by power of two */
    uint32_t next_pd;
    uint32_t next_qp;
    uint32_t next_mr;
    fv_wire_device_t device[FV_MAX_DEVICES];
    fv_wire_context_t context[FV_MAX_CONTEXTS];
    fv_wire_qp_t qp[FV_MAX_QPS];
    fv_wire_cq_t cq[FV_MAX_CQS];
    fv_wire_srq_t srq[FV_MAX_SRQS];
    fv_wire_mr_t mr[FV_MAX_MRS];
} fv_wire_t;

/* ---- objects of this process ---- */

typedef struct fv_context fv_context_t;
typedef struct fv_qp fv_qp_t;

typedef struct fv_td {
    struct ibv_td ibv;
    unsigned users;
} fv_td_t;

static inline fv_td_t *fv_td_of(struct ibv_td *td)
{
    return fv_container_of(td, fv_td_t, ibv);
}

typedef struct fv_pd {
    struct ibv_pd ibv;
    uint32_t id;
    unsigned users;
    struct fv_pd *parent; /* NULL of one that is its own */
    struct ibv_td *td;
} fv_pd_t;

typedef struct fv_mr {
    struct ibv_mr ibv;
    void *mapping; /* of a dma-buf, or pages of a GPU */
    size_t mapping_size;
    bool is_dmabuf;
} fv_mr_t;

typedef struct fv_channel {
    struct ibv_comp_channel ibv;
    int write_fd;
} fv_channel_t;

typedef struct fv_cq {
    struct ibv_cq ibv;
    fv_wire_cq_t *wire;
    unsigned users;
    uint32_t events_delivered;
    uint32_t async_delivered;
} fv_cq_t;

typedef struct fv_srq {
    struct ibv_srq ibv;
    fv_wire_srq_t *wire;
    unsigned users;
    uint32_t async_delivered;
    struct fv_srq *next;
} fv_srq_t;

typedef struct fv_ah {
    struct ibv_ah ibv;
    struct ibv_ah_attr attr;
    union ibv_gid sgid; /* of its place when it was made */
} fv_ah_t;

/* A write that was acknowledged and has not got to the GPU's memory. */
typedef struct fv_posted {
    struct fv_posted *next;
    unsigned gpu;
    uint32_t rkey;
    uint64_t address; /* the owner's */
    uint32_t length;
    char data[];
} fv_posted_t;

typedef struct fv_send {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    uint32_t imm_data;
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t compare_add;
    uint64_t swap;
    uint32_t num_sge;
    uint32_t length;
    enum ibv_wc_status status;
    struct ibv_ah_attr av; /* the four of a datagram */
    union ibv_gid sgid;
    uint32_t remote_qpn;
    uint32_t remote_qkey;
    bool is_executed; /* by the peer, and the acknowledgement was lost */
    void *late;       /* data of a read that has not landed */
    struct ibv_sge *sge;
    uint8_t *inline_data;
} fv_send_t;

struct fv_qp {
    struct ibv_qp ibv;
    fv_wire_qp_t *wire;
    struct ibv_qp_cap cap;
    struct ibv_qp_attr attr; /* as modified, for ibv_query_qp() */
    bool sq_sig_all;
    bool has_ece; /* the user has set some */
    uint32_t ece;
    fv_send_t *sq;
    uint8_t *sq_memory;
    size_t sq_stride; /* bytes of an entry in it */
    size_t sq_bytes;  /* of both */
    uint32_t sq_head; /* next to post; the four only grow */
    uint32_t sq_run;  /* next to run */
    uint32_t sq_done; /* next to complete */
    uint32_t sq_tail; /* next to be freed by a poll */
    unsigned late_reads;
    fv_posted_t *posted; /* oldest first */
    unsigned hold;       /* FAKE_VERBS_HOLD_* */
    unsigned may_send;
    unsigned may_complete;
    bool lose_acks;
    int lost_timer;       /* fake_verbs_lose_timer() */
    uint32_t silent_head; /* sq_head when work became silent by that, if is_silent */
    bool is_silent;
    bool running;     /* fv_qp_run() is on the stack */
    uint64_t stalled; /* -FV_STALL_* that the queue's head waits for, or 0 */
    uint64_t deadline;
    fake_verbs_stats_t stats;
    uint32_t async_delivered;
    fv_qp_t *next;
};

struct fv_context {
    int write_fd; /* of the async pipe */
    fv_wire_context_t *wire;
    unsigned users;
    uint32_t async_port_delivered;
    struct verbs_context verbs; /* last: ends in the ibv_context */
};

typedef struct fv_async_msg {
    uint32_t type;
    uint32_t port;
    uint64_t element;
} fv_async_msg_t;

typedef struct fv_process {
    pid_t pid;
    fv_wire_t *wire;
    bool shared; /* the wire has other processes */
    bool null_mode;
    bool late_mode;
    bool wrong_mode;      /* a byte of each larger write is another one */
    bool has_late_writes; /* each larger write lands with the next one */
    bool has_other_pages; /* a dma-buf's pages are not the memory's */
    bool no_peermem;
    unsigned num_strays; /* so many larger writes to come change a byte behind them */
    unsigned num_devices;
    fv_device_t device[FV_MAX_DEVICES];
    fv_qp_t *qps; /* oldest first */
    fv_srq_t *srqs;
    unsigned num_stalled;
    fake_verbs_objects_t objects;
    bool clock_stopped;
    uint64_t clock;
    pid_t thread_pid; /* process whose retry thread runs, 0 when none does */
} fv_process_t;

extern fv_process_t fv;

/* fv_gpu.c */
void fv_gpu_forget(void);

/* fv_wire.c */
void fv_init(void);
void fv_lock(void);
void fv_unlock(void);
void fv_abort(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *fv_at(uint64_t offset);
uint64_t fv_alloc(size_t size);
void fv_free(uint64_t offset, size_t size);
bool fv_alive(pid_t pid);
int fv_memory_write(pid_t pid, uint64_t to, const struct ibv_sge *from, unsigned count);
/* Write late, as a device may: data for memory that was freed meanwhile is lost. */
int fv_memory_write_late(pid_t pid, uint64_t to, const struct ibv_sge *from,
                         unsigned count);
int fv_memory_read(pid_t pid, uint64_t from, const struct ibv_sge *to, unsigned count);
void fv_notify(pid_t pid, int fd, const void *msg, size_t length);
uint64_t fv_now(void);

/* fv_profile.c */
void fv_devices_init(void);
bool fv_gid(const fv_device_t *device, unsigned index, union ibv_gid *gid,
            unsigned *type);
int fv_gid_owner(const union ibv_gid *gid);
uint16_t fv_lid(const fv_device_t *device);

/* fv_device.c */
fv_device_t *fv_device_of(const struct ibv_context *context);
fv_context_t *fv_context_of(struct ibv_context *context);
bool fv_gone(const struct ibv_context *context);
void fv_context_put(struct ibv_context *context);
void fv_async_port(unsigned device, enum ibv_event_type type);
void fv_async_qp(const fv_wire_qp_t *qp, enum ibv_event_type type);
void fv_async_srq(const fv_wire_srq_t *srq, enum ibv_event_type type);

/* fv_mr.c */
/* Whether it is memory of a GPU of libhipcpu. */
bool fv_is_gpu(const void *addr);

/* A second mapping of the pages under [addr, addr + length): memory of a GPU that peer
 * memory has pinned stays the device's when its addresses are mapped again. NULL when
 * that fails. */
void *fv_pages_pin(const void *addr, size_t length, size_t *size_p);

/* Entries of the page table that a region takes; 0 where the device has no limit. */
uint32_t fv_entries(const fv_caps_t *caps, const void *addr, size_t length,
                    bool is_dmabuf);

/* Locked. @return 0, or the errno value if the device has no more of them. */
int fv_entries_check(unsigned device, uint32_t entries);

const fv_wire_mr_t *fv_key_find(uint32_t key);
struct ibv_td *fv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int fv_dealloc_td(struct ibv_td *td);
struct ibv_pd *fv_alloc_parent_domain(struct ibv_context *context,
                                      struct ibv_parent_domain_init_attr *attr);

/* fv_cq.c */
/* The real call waits for the acknowledgement of every event that was delivered. */
void fv_wait_acked(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
                   uint32_t delivered, const char *what);
void fv_cq_push(fv_wire_cq_t *cq, const fv_cqe_t *cqe);
void fv_cq_poke(fv_wire_cq_t *cq);
void fv_cq_forget(fv_wire_cq_t *cq, uint32_t qp_num);
void fv_cq_flush(fv_wire_cq_t *cq, uint32_t qp_num);
int fv_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int fv_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* fv_qp.c */
fv_qp_t *fv_qp_find(uint32_t qp_num);
fv_wire_qp_t *fv_wire_qp_find(uint32_t qp_num);
void fv_qp_to_error(fv_wire_qp_t *wire);
struct ibv_qp *fv_create_qp_ex(struct ibv_context *context,
                               struct ibv_qp_init_attr_ex *attr);

/* fv_ece.c */
void fv_ece_enter(fv_qp_t *qp, enum ibv_qp_state state);
void fv_ece_check(const fv_qp_t *qp, const fv_wire_qp_t *peer);

/* fv_post.c */
int fv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* fv_recv.c: receive queues, of a queue pair or shared */
size_t fv_rq_bytes(const fv_rq_t *rq);
int fv_rq_post(fv_rq_t *rq, const struct ibv_recv_wr *wr);
fv_recv_t *fv_recv_next(const fv_wire_qp_t *qp); /* NULL: there is none */
bool fv_recv_resolve(const fv_wire_qp_t *qp, const fv_recv_t *recv, struct ibv_sge *out,
                     unsigned *count);
void fv_recv_take(fv_wire_qp_t *qp, fv_cqe_t *cqe); /* fills its part of cqe */
void fv_recv_flush(fv_wire_qp_t *qp);
void fv_recv_free(const fv_cqe_t *cqe);
int fv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                     struct ibv_recv_wr **bad);

/* fv_run.c: the device at work */
void fv_qp_run(fv_qp_t *qp);
void fv_run_cq(const fv_cq_t *cq);
void fv_run_all(void);
void fv_kick_senders(uint32_t qp_num);
void fv_kick_senders_of_srq(uint32_t srq);
void fv_thread_wake(void);

/* fv_respond.c: the peer's side of one work request */
#define FV_STALL_RNR (-1)
#define FV_STALL_SILENT (-2)
#define FV_STALL_READS (-3)
int fv_respond(fv_qp_t *qp, fv_send_t *send);
bool fv_local(const fv_qp_t *qp, const fv_send_t *send, unsigned access,
              struct ibv_sge *out, unsigned *count);
bool fv_resolve(pid_t pid, uint32_t pd, const struct ibv_sge *sge, unsigned count,
                unsigned access, struct ibv_sge *out, unsigned *out_count);
bool fv_cut(unsigned device);
void fv_land(fv_qp_t *qp, fv_send_t *send);

/* fv_datagram.c: unconnected messages, which may be lost */
int fv_check_av(const fv_device_t *device, const struct ibv_ah_attr *av);
int fv_datagram(fv_qp_t *qp, fv_send_t *send);

/* Shorter writes are always right: the module's own messages consist of them. */
#define FV_WRONG_FROM 4096

#define FV_STRAYS 16

/* fv_gpu.c: memory whose writes land after their completion */
int fv_gpu_write(fv_qp_t *qp, const fv_wire_mr_t *mr, const fv_send_t *send,
                 const struct ibv_sge *local, unsigned count);
void fv_gpu_push(fv_qp_t *qp, const fv_wire_mr_t *mr, const fv_send_t *send);
void fv_gpu_push_by_send(const fv_qp_t *qp, const fv_send_t *send);
void fv_gpu_push_for_all(const fv_wire_mr_t *mr, const fv_send_t *send);
void fv_gpu_push_all(fv_qp_t *qp);

/* fv_fault.c */
bool fv_call_fails(const char *name);

/* The same for a call that is a command to the device, and counted as such. */
bool fv_command_fails(const char *name);
enum ibv_wc_status fv_wr_fault(uint32_t qp_num, bool is_any); /* or named alone */
void fv_faults_init(void);

#endif
