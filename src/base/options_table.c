/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/options_table.h"

static const char *const mkv_backend_names[] = {"auto", "xgmi", "ipc", "rdma",
                                                "shm",  "tcp",  NULL};
static const char *const mkv_sgl_names[] = {"no", "yes", "try", NULL};
static const char *const mkv_read_by_names[] = {"auto", "get", "push", NULL};
static const char *const mkv_fence_names[] = {"none", "flush", NULL};
static const char *const mkv_overlap_names[] = {"allow", "warn", "refuse", NULL};
static const char *const mkv_level_names[] = {"error", "warn",  "info",
                                              "debug", "trace", NULL};

#define MKV_OPT(_member) offsetof(mkv_options_t, _member)

const mkv_opt_t mkv_opts[] = {
    {"BACKEND", "auto",
     "Backend that carries the data: auto, xgmi, ipc, rdma, shm or tcp. Anything but\n"
     "auto also chooses the transports of an own UCX context, unless UCX_TLS is set.",
     MKV_OPT(backend), MKV_OPT_ENUM, mkv_backend_names, 0, 0},
    {"STRICT", "n",
     "Refuse a peer that BACKEND cannot carry, and fail transfers that UCX carries otherwise\n"
     "after their first call, instead of warning. Set it where slow is worse than an error.",
     MKV_OPT(strict), MKV_OPT_BOOL, NULL, 0, 0},
    {"TLS", "",
     "Transports of an own UCX context, as UCX_TLS; empty: by BACKEND or UCX_TLS.",
     MKV_OPT(tls), MKV_OPT_STRING, NULL, 0, 0},
    {"NET_DEVICES", "",
     "Network devices of an own UCX context, as UCX_NET_DEVICES; empty: UCX decides.",
     MKV_OPT(net_devices), MKV_OPT_STRING, NULL, 0, 0},
    {"LANES", "0",
     "Rails of one operation in an own UCX context, as UCX_MAX_RMA_RAILS; 0: UCX\n"
     "decides. Raise it to use several NICs for one buffer.",
     MKV_OPT(lanes), MKV_OPT_UINT, NULL, 0, MKV_NO_LIMIT},
    {"SGL", "try",
     "Whether a WRITE post is one scatter-gather call of UCX: try (where UCX and the\n"
     "transport are known to do it), yes, or no (one put per piece).",
     MKV_OPT(sgl), MKV_OPT_ENUM, mkv_sgl_names, 0, 0},
    {"READ_BY", "auto",
     "How a READ moves: get (a call of UCX for each piece), push (the owner of the\n"
     "blocks puts them as lists, in its progress), or auto (push where that is one\n"
     "call of UCX). Unless get, the owner of host memory also gets what a WRITE from\n"
     "GPU memory would send it in messages. An owner with get does neither: set it\n"
     "where the owner makes progress too rarely.",
     MKV_OPT(read_by), MKV_OPT_ENUM, mkv_read_by_names, 0, 0},
    {"STAGE_BELOW", "0",
     "Average length of pieces, in bytes, below which a list of GPU memory over RDMA is\n"
     "gathered into staging memory and put as a whole. The peer's GPU scatters it in the\n"
     "peer's progress, if the peer has the option as well; 0: no list. It takes 4 MiB of\n"
     "either side for each peer and direction.\n"
     "The memory is on the device which is current in the thread that posts or makes\n"
     "progress first, so that has to be the device of the regions.\n"
     "Set it where the rate of work requests is the bound of a NIC.",
     MKV_OPT(stage_below), MKV_OPT_SIZE, NULL, 0, MKV_NO_LIMIT},
    {"FENCE", "none",
     "Fence between the last byte in GPU memory and DONE: none (the transport's\n"
     "flush is enough), or flush (the side that put over RDMA then reads a byte back\n"
     "from each GPU allocation of the peer). Set it where kernels see old bytes after\n"
     "DONE.",
     MKV_OPT(fence), MKV_OPT_ENUM, mkv_fence_names, 0, 0},
    {"OVERLAP", "warn",
     "Reaction to blocks that are exposed for writing by two transfers at once, of\n"
     "which the first is not quiet: allow (no check), warn in the log of the first\n"
     "such block, or refuse the second transfer.",
     MKV_OPT(overlap), MKV_OPT_ENUM, mkv_overlap_names, 0, 0},
    {"MAX_INFLIGHT_OPS", "4096",
     "UCX calls in flight to one peer, in calls; the rest waits in order. Lower it\n"
     "when a transport's queues are short on memory.",
     MKV_OPT(max_inflight_ops), MKV_OPT_UINT, NULL, 1, MKV_NO_LIMIT},
    {"MAX_INFLIGHT_BYTES", "4g",
     "Data in flight to one peer, in bytes. Lower it so that small transfers need not\n"
     "wait behind large ones.",
     MKV_OPT(max_inflight_bytes), MKV_OPT_SIZE, NULL, 1, MKV_NO_LIMIT},
    {"MAX_MESSAGE", "64m",
     "Largest control or user message, in bytes, either way. The smaller value of the\n"
     "two sides holds.",
     MKV_OPT(max_message), MKV_OPT_SIZE, NULL, 4096, UINT32_MAX - 1},
    {"MAX_QUEUED", "256m",
     "Messages waiting per peer, sent or received and not polled, in bytes.",
     MKV_OPT(max_queued), MKV_OPT_SIZE, NULL, 0, MKV_NO_LIMIT},
    {"MAX_PEERS", "16384",
     "Connections that exist at once, those not closed yet included; more are\n"
     "refused. Each takes a UCX endpoint, and up to MAX_QUEUED bytes of each kind.",
     MKV_OPT(max_peers), MKV_OPT_UINT, NULL, 1, MKV_NO_LIMIT},
    {"BIND_TIMEOUT", "60s",
     "Time for the other side to open its half, for a peer to answer, and for a\n"
     "message that later ones have overtaken, in ms unless a unit is given (ms, s, m).",
     MKV_OPT(bind_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"XFER_TIMEOUT", "300s",
     "Time from bound to complete, in ms unless a unit is given.",
     MKV_OPT(xfer_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"RELEASE_TIMEOUT", "300s",
     "READ, source: time from bound until all readers released, in ms unless a unit\n"
     "is given.",
     MKV_OPT(release_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"DRAIN_TIMEOUT", "30s",
     "Time from an error until both sides are quiet, in ms unless a unit is given. A\n"
     "peer that does not answer is cut off after twice this time.",
     MKV_OPT(drain_timeout), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"PEER_CHECK", "500",
     "Interval of checks whether a peer's process on this host is gone, in ms; 0: only\n"
     "beside other checks, or when the kernel reports its end as an event.",
     MKV_OPT(peer_check), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"PEER_DEAD", "0",
     "Fail a peer that has sent nothing for this time, although it was pinged, in ms\n"
     "unless a unit is given; 0: never, leave it to UCX. Set it where UCX's\n"
     "transports have no keepalive, above the longest time in which an application\n"
     "makes no progress.",
     MKV_OPT(peer_dead), MKV_OPT_TIME, NULL, 0, MKV_NO_LIMIT},
    {"SHM_DIR", "/dev/shm",
     "Folder in shared memory for the lock files by which processes of one host prove\n"
     "that they cannot touch each other's memory any more. Change it on all sides if\n"
     "containers share a different folder.",
     MKV_OPT(shm_dir), MKV_OPT_STRING, NULL, 0, 0},
    {"WAKEUP", "y", "Whether an own UCX context supports mkv_event_fd().",
     MKV_OPT(wakeup), MKV_OPT_BOOL, NULL, 0, 0},
    {"PROGRESS_THREADS", "0",
     "Threads that make progress, 0 to 64, so that the application need not call\n"
     "mkv_progress(). They serve one worker in turn, so one is enough. Needs an own\n"
     "UCX context and WAKEUP.",
     MKV_OPT(progress_threads), MKV_OPT_UINT, NULL, 0, MKV_MAX_PROGRESS_THREADS},
    {"AM_ID", "77",
     "UCX active message id, below 65536; change it on all sides when an attached\n"
     "worker's owner uses it.",
     MKV_OPT(am_id), MKV_OPT_UINT, NULL, 0, UINT16_MAX},
    {"LOG_LEVEL", "warn", "error, warn, info, debug or trace.", MKV_OPT(log_level),
     MKV_OPT_ENUM, mkv_level_names, 0, 0},
};

_Static_assert(sizeof(mkv_opts) / sizeof(mkv_opts[0]) == MKV_NUM_OPTS,
               "the header says how many there are");
