/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_TUNING_H
#define MUCT_TUNING_H

/**
 * @file
 * Constants whose choice needs knowledge of the code, so they are not options.
 * perf/README.md has the measurements. A test that needs another value sets the member
 * of the interface or of the queue's configuration that the constant initializes.
 */

/* ---- mori_xgmi: lists of copies of one device and direction ---- */

/** Lists that can exist at a time: twice MUCT_XGMI_MAX_STARTED, so that new lists are
 * filled while others run. A larger value only uses more pinned memory. */
#define MUCT_XGMI_LISTS 8

/** Started lists after which copies are gathered instead. With two launch streams, four
 * started lists take 98 to 110 us for 4096 blocks of 4 KiB, two take 119 to 122 us. */
#define MUCT_XGMI_MAX_STARTED 4

/** Entries from which the posting thread starts a list. 512 and 768 were not faster
 * and launch more often. */
#define MUCT_XGMI_EARLY_START 1024

/** Entries up to which a list is copied by one call each. A launch costs more than one
 * copy call, and less than several. */
#define MUCT_XGMI_MAX_CALLS 2

/** Launches that may run at a time. With one, each launch waited 23 us for the last
 * blocks of the one before it; three and four were not faster than two. */
#define MUCT_XGMI_LAUNCH_STREAMS 2

/** Thread blocks added for each further peer of a launch where each peer has a link of
 * its own: seven links need more bytes under way than one. Not measured on AMD GPUs. */
#define MUCT_XGMI_PEER_BLOCKS 4

/** Thread blocks of a launch to several peers. Seven peers reach it with the default of
 * BLOCKS: 8 + 6 * 4. More would take compute units from the model. */
#define MUCT_XGMI_MOST_BLOCKS 32


/* ---- mori_xgmi: peers' memory ---- */

/** Time after which copies stop waiting for memory that is being opened. ROCm 7.2 never
 * returns from opening memory that its owner has freed; other openings last
 * milliseconds. */
#define MUCT_XGMI_OPEN_LIMIT_MS 30000

/** Time after which copies that have not ended are reported. */
#define MUCT_XGMI_LATE_MS 30000


/* ---- mori_rdma ---- */

/** Receives of a new endpoint, which gets twice as many whenever as many messages have
 * arrived. An endpoint that carries puts and gets alone keeps this number, which
 * determines the memory of a large job: 356 MB for 1000 peers by eight NICs. */
#define MUCT_RDMA_RX_FIRST 4

/** Work requests of one doorbell when POST_BATCH is auto. An entry of a list takes 356
 * instructions in a doorbell of its own, 65 in one of 16, and 51 to 56 in 32 and 64. */
#define MUCT_RDMA_POST_BATCH_AUTO 32

#endif
