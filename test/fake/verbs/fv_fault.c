/* SPDX-License-Identifier: BSD-3-Clause */
#include "fv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The test's switches: faults, holding, links, time, and counters. */

#define FV_MAX_FAULTS 32

typedef struct fv_call_fault {
    char name[40];
    unsigned skip;
    unsigned count;
    int err;
    bool has_failed; /* at least once */
} fv_call_fault_t;

typedef struct fv_wr_fault_entry {
    uint32_t qp_num;
    unsigned skip;
    enum ibv_wc_status status;
} fv_wr_fault_entry_t;

static pthread_mutex_t fv_fault_lock = PTHREAD_MUTEX_INITIALIZER;
static fv_call_fault_t fv_call_faults[FV_MAX_FAULTS];
static unsigned fv_num_call_faults; /* read without the lock; 0: none is armed */
static fv_wr_fault_entry_t fv_wr_faults[FV_MAX_FAULTS];

bool fv_call_fails(const char *name)
{
    fv_call_fault_t *fault;
    bool fails = false;
    unsigned i;

    if (__atomic_load_n(&fv_num_call_faults, __ATOMIC_RELAXED) == 0) {
        return false;
    }

    pthread_mutex_lock(&fv_fault_lock);
    for (i = 0; i < FV_MAX_FAULTS; i++) {
        fault = &fv_call_faults[i];
        if ((fault->count == 0) || (strcmp(fault->name, name) != 0)) {
            continue;
        }
        if (fault->skip > 0) {
            fault->skip--;
            continue;
        }
        errno = fault->err;
        fault->has_failed = true;
        fails = true;
        if (--fault->count == 0) {
            __atomic_fetch_sub(&fv_num_call_faults, 1, __ATOMIC_RELAXED);
        }
    }
    pthread_mutex_unlock(&fv_fault_lock);
    return fails;
}

bool fv_command_fails(const char *name)
{
    __atomic_fetch_add(&fv.objects.commands, 1, __ATOMIC_RELAXED);
    return fv_call_fails(name);
}

void fake_verbs_fail_call(const char *name, unsigned nth, unsigned count, int err)
{
    unsigned i;

    if ((nth == 0) || (count == 0) || (err <= 0) || (strlen(name) >= 40)) {
        fv_abort("fake_verbs_fail_call(%s, nth %u, count %u, errno %d): none may be 0",
                 name, nth, count, err);
    }

    pthread_mutex_lock(&fv_fault_lock);
    for (i = 0; (i < FV_MAX_FAULTS) && (fv_call_faults[i].count != 0); i++) {
    }
    if (i == FV_MAX_FAULTS) {
        fv_abort("more than %d faults are armed", FV_MAX_FAULTS);
    }
    strcpy(fv_call_faults[i].name, name);
    fv_call_faults[i].skip = nth - 1;
    fv_call_faults[i].count = count;
    fv_call_faults[i].err = err;
    fv_call_faults[i].has_failed = false;
    __atomic_fetch_add(&fv_num_call_faults, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&fv_fault_lock);
}

unsigned fake_verbs_faults_unmet(void)
{
    unsigned i, num = 0;

    pthread_mutex_lock(&fv_fault_lock);
    for (i = 0; i < FV_MAX_FAULTS; i++) {
        num += (fv_call_faults[i].count != 0) && !fv_call_faults[i].has_failed;
    }
    pthread_mutex_unlock(&fv_fault_lock);
    return num;
}

enum ibv_wc_status fv_wr_fault(uint32_t qp_num, bool is_any)
{
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    fv_wr_fault_entry_t *fault;
    unsigned i;

    for (i = 0; i < FV_MAX_FAULTS; i++) {
        fault = &fv_wr_faults[i];
        if ((fault->status == IBV_WC_SUCCESS) ||
            ((fault->qp_num == FAKE_VERBS_ANY_QP) ? !is_any
                                                  : (fault->qp_num != qp_num))) {
            continue;
        }
        if (fault->skip > 0) {
            fault->skip--;
        } else if (status == IBV_WC_SUCCESS) {
            status = fault->status;
            fault->status = IBV_WC_SUCCESS;
        }
    }

    return status;
}

static void fv_wr_fault_arm(uint32_t qp_num, unsigned nth, enum ibv_wc_status status)
{
    unsigned i;

    if ((nth == 0) || (status == IBV_WC_SUCCESS)) {
        fv_abort("fake_verbs_fail_wr(nth %u, status %d): none may be 0", nth, status);
    }

    for (i = 0; (i < FV_MAX_FAULTS) && (fv_wr_faults[i].status != 0); i++) {
    }
    if (i == FV_MAX_FAULTS) {
        fv_abort("more than %d faults are armed", FV_MAX_FAULTS);
    }
    fv_wr_faults[i].qp_num = qp_num;
    fv_wr_faults[i].skip = nth - 1;
    fv_wr_faults[i].status = status;
}

void fake_verbs_fail_wr(uint32_t qp_num, unsigned nth, enum ibv_wc_status status)
{
    fv_init();
    fv_lock();
    fv_wr_fault_arm(qp_num, nth, status);
    fv_unlock();
}

void fv_faults_init(void)
{
    const char *env = getenv("FAKE_VERBS_FAULTS");
    char *copy, *entry, *save, name[40];
    unsigned nth, value;

    if (env == NULL) {
        return;
    }

    copy = strdup(env);
    for (entry = strtok_r(copy, ",", &save); entry != NULL;
         entry = strtok_r(NULL, ",", &save)) {
        if (sscanf(entry, "call:%39[^:]:%u:%u", name, &nth, &value) == 3) {
            fake_verbs_fail_call(name, nth, 1, (int)value);
        } else if (sscanf(entry, "wr:%u:%u", &nth, &value) == 2) {
            fv_wr_fault_arm(FAKE_VERBS_ANY_QP, nth, (enum ibv_wc_status)value);
        } else {
            fv_abort("FAKE_VERBS_FAULTS: expected call:NAME:N:ERRNO or wr:N:STATUS, "
                     "got '%s'",
                     entry);
        }
    }
    free(copy);
}

typedef void (*fv_visit_t)(fv_qp_t *qp, void *arg);

static void fv_each_qp(uint32_t qp_num, fv_visit_t visit, void *arg)
{
    bool found = false;
    fv_qp_t *qp;

    fv_init();
    fv_lock();
    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if (((qp_num == FAKE_VERBS_ANY_QP) && !qp->wire->is_datagram) ||
            (qp->ibv.qp_num == qp_num)) {
            found = true;
            visit(qp, arg);
        }
    }
    fv_unlock();
    if (!found && (qp_num != FAKE_VERBS_ANY_QP)) {
        fv_abort("the test names queue pair 0x%x, which does not exist", qp_num);
    }
}

static void fv_hold_one(fv_qp_t *qp, void *arg)
{
    qp->hold |= *(unsigned *)arg;
}

void fake_verbs_hold(uint32_t qp_num, unsigned what)
{
    fv_each_qp(qp_num, fv_hold_one, &what);
}

typedef struct fv_release {
    unsigned what;
    unsigned count;
    unsigned released;
} fv_release_t;

static void fv_release_one(fv_qp_t *qp, void *arg)
{
    const uint32_t run = qp->sq_run, done = qp->sq_done;
    fv_release_t *release = arg;

    qp->may_send = (release->what & FAKE_VERBS_HOLD_SEND) ? release->count : 0;
    qp->may_complete = (release->what & FAKE_VERBS_HOLD_CQE) ? release->count : 0;
    fv_qp_run(qp);
    qp->may_send = qp->may_complete = 0;
    release->released +=
        (release->what & FAKE_VERBS_HOLD_SEND) ? qp->sq_run - run : qp->sq_done - done;
}

unsigned fake_verbs_release(uint32_t qp_num, unsigned what, unsigned count)
{
    fv_release_t release = {.what = what, .count = count};

    fv_each_qp(qp_num, fv_release_one, &release);
    return release.released;
}

static void fv_unhold_one(fv_qp_t *qp, void *arg)
{
    (void)arg;
    qp->hold = 0;
    fv_qp_run(qp);
}

void fake_verbs_unhold(uint32_t qp_num)
{
    fv_each_qp(qp_num, fv_unhold_one, NULL);
}

static void fv_lose_one(fv_qp_t *qp, void *arg)
{
    qp->wire->lost = *(int *)arg != 0;
    if (!qp->wire->lost) {
        fv_run_all();
    }
}

void fake_verbs_lose(uint32_t qp_num, int lose)
{
    fv_each_qp(qp_num, fv_lose_one, &lose);
}

static void fv_lose_acks_one(fv_qp_t *qp, void *arg)
{
    qp->lose_acks = *(int *)arg != 0;
    fv_qp_run(qp);
}

void fake_verbs_lose_acks(uint32_t qp_num, int lose)
{
    fv_each_qp(qp_num, fv_lose_acks_one, &lose);
}

static void fv_lose_timer_one(fv_qp_t *qp, void *arg)
{
    qp->lost_timer = *(int *)arg;
    qp->is_silent = false;
    fv_qp_run(qp);
}

void fake_verbs_lose_timer(uint32_t qp_num, int mode)
{
    fv_each_qp(qp_num, fv_lose_timer_one, &mode);
}

static void fv_fatal_one(fv_qp_t *qp, void *arg)
{
    (void)arg;
    fv_async_qp(qp->wire, IBV_EVENT_QP_FATAL);
    fv_qp_to_error(qp->wire);
}

void fake_verbs_qp_fatal(uint32_t qp_num)
{
    fv_each_qp(qp_num, fv_fatal_one, NULL);
}

static void fv_cq_fatal_one(fv_qp_t *qp, void *arg)
{
    (void)arg;
    fv.wire->cq[qp->wire->send_cq].broken = true;
    fv_async_qp(qp->wire, IBV_EVENT_CQ_ERR);
}

void fake_verbs_cq_fatal(uint32_t qp_num)
{
    fv_each_qp(qp_num, fv_cq_fatal_one, NULL);
}

static unsigned fv_device_index(const char *name)
{
    unsigned i;

    fv_init();
    for (i = 0; i < fv.num_devices; i++) {
        if (strcmp(fv.device[i].ibv.name, name) == 0) {
            return i;
        }
    }

    fv_abort("the test names device '%s', which does not exist", name);
}

void fake_verbs_device_cqs_fatal(const char *device)
{
    const unsigned index = fv_device_index(device);
    fv_qp_t *qp;

    fv_lock();
    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if (qp->wire->device == index) {
            fv_cq_fatal_one(qp, NULL);
        }
    }
    fv_unlock();
}

void fake_verbs_link(const char *name, int up)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    if (fv.wire->device[index].down == (up != 0)) {
        fv.wire->device[index].down = !up;
        fv_async_port(index, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
        fv_run_all();
    }
    fv_unlock();
}

void fake_verbs_lose_device(const char *name, int lose)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    fv.wire->device[index].lost = lose != 0;
    fv_run_all();
    fv_unlock();
}

void fake_verbs_wire_bytes(const char *name, uint64_t *out, uint64_t *in)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    *out = fv.wire->device[index].bytes_out;
    *in = fv.wire->device[index].bytes_in;
    fv_unlock();
}

void fake_verbs_remove(const char *name)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    fv.wire->device[index].removed = true;
    fv_async_port(index, IBV_EVENT_DEVICE_FATAL);
    fv_unlock();
}

void fake_verbs_async(const char *name, enum ibv_event_type event)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    fv_async_port(index, event);
    fv_unlock();
}

void fake_verbs_swap_gids(const char *name, unsigned index1, unsigned index2)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    fv.device[index].gid_swap[0] = index1;
    fv.device[index].gid_swap[1] = index2;
    fv_unlock();
}

void fake_verbs_stop_clock(void)
{
    fv_init();
    fv_lock();
    fv.clock = fv_now();
    fv.clock_stopped = true;
    fv_unlock();
}

void fake_verbs_advance(uint64_t nsec)
{
    fv_init();
    fv_lock();
    if (!fv.clock_stopped) {
        fv_abort("fake_verbs_advance() of a clock that runs");
    }
    fv.clock += nsec;
    fv_run_all();
    fv_unlock();
}

void fake_verbs_qp_stats(uint32_t qp_num, fake_verbs_stats_t *stats)
{
    const fv_qp_t *qp;

    fv_init();
    memset(stats, 0, sizeof(*stats));
    fv_lock();
    qp = fv_qp_find(qp_num);
    if (qp != NULL) {
        *stats = qp->stats;
    }
    fv_unlock();
}

void fake_verbs_device_stats(const char *name, fake_verbs_stats_t *stats)
{
    const unsigned index = fv_device_index(name);

    fv_lock();
    *stats = fv.device[index].stats;
    fv_unlock();
}

enum ibv_qp_state fake_verbs_qp_state(uint32_t qp_num)
{
    enum ibv_qp_state state = IBV_QPS_UNKNOWN;
    const fv_wire_qp_t *wire;

    fv_init();
    fv_lock();
    wire = fv_wire_qp_find(qp_num);
    if (wire != NULL) {
        state = (enum ibv_qp_state)wire->state;
    }
    fv_unlock();
    return state;
}

int fake_verbs_qp_retries(uint32_t qp_num, uint8_t *timeout, uint8_t *retry_count)
{
    const fv_qp_t *qp;

    fv_init();
    fv_lock();
    for (qp = fv.qps; (qp != NULL) && (qp->ibv.qp_num != qp_num); qp = qp->next) {
    }
    if (qp != NULL) {
        *timeout = qp->attr.timeout;
        *retry_count = qp->attr.retry_cnt;
    }
    fv_unlock();
    return qp != NULL;
}

unsigned fake_verbs_qp_list(uint32_t *qp_nums, unsigned max)
{
    unsigned count = 0;
    const fv_qp_t *qp;

    fv_init();
    fv_lock();
    for (qp = fv.qps; qp != NULL; qp = qp->next) {
        if (qp->wire->is_datagram) {
            continue;
        }
        if (count < max) {
            qp_nums[count] = qp->ibv.qp_num;
        }
        count++;
    }
    fv_unlock();
    return count;
}

void fake_verbs_objects(fake_verbs_objects_t *objects)
{
    fv_init();
    fv_lock();
    *objects = fv.objects;
    fv_unlock();
}

void fake_verbs_reset(void)
{
    unsigned i;

    fv_init();
    pthread_mutex_lock(&fv_fault_lock);
    memset(fv_call_faults, 0, sizeof(fv_call_faults));
    __atomic_store_n(&fv_num_call_faults, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&fv_fault_lock);

    fv_lock();
    memset(fv_wr_faults, 0, sizeof(fv_wr_faults));
    fv.clock_stopped = false;
    for (i = 0; i < fv.num_devices; i++) {
        fv.wire->device[i].removed = false;
        fv.wire->device[i].down = false;
        fv.wire->device[i].lost = false;
    }
    fv_unlock();
    fake_verbs_lose(FAKE_VERBS_ANY_QP, 0);
    fake_verbs_lose_acks(FAKE_VERBS_ANY_QP, 0);
    fake_verbs_lose_timer(FAKE_VERBS_ANY_QP, 0);
    fake_verbs_unhold(FAKE_VERBS_ANY_QP);
}
