/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Lines: ordered queues of work, each with a thread that starts with the first piece of
 * work and does one after the other.
 *
 * Positions count from 1; position 0 is over. A piece of work stays at the head of the
 * queue while it runs, so that a search for users of memory finds it. It ends exactly
 * once: done is raised under the lock after run() came back.
 *
 * Locks. hipcpu_lines_lock guards the list of lines and their references, each line's
 * lock its queue. The first may be held when the second is taken. Work that runs inside
 * the lock of its line takes no other one.
 *
 * After fork(2) the child's lines are empty, since the parent's threads do the work,
 * and get threads of their own with the next piece of work.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct hipcpu_line {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hipcpu_op_t *head;
    hipcpu_op_t **tail;
    uint64_t last; /* position of the newest work */
    uint64_t done; /* position up to which all is over */
    int device;
    bool is_blocking; /* waits for the default stream and is waited for by it */
    bool is_default;
    bool is_held;
    bool has_thread;
    bool is_stopping;
    pthread_t thread;
    unsigned refs;
    hipcpu_line_t *next;
};

static pthread_mutex_t hipcpu_lines_lock = PTHREAD_MUTEX_INITIALIZER;
static hipcpu_line_t *hipcpu_lines;
static hipcpu_line_t *hipcpu_defaults[HIPCPU_MAX_DEVICES];
static bool hipcpu_all_held;


static void hipcpu_before_fork(void)
{
    pthread_mutex_lock(&hipcpu_lines_lock);
}

static void hipcpu_after_fork(void)
{
    pthread_mutex_unlock(&hipcpu_lines_lock);
}

static void hipcpu_in_child(void)
{
    hipcpu_line_t *line;
    hipcpu_op_t *op;

    for (line = hipcpu_lines; line != NULL; line = line->next) {
        pthread_mutex_init(&line->lock, NULL);
        pthread_cond_init(&line->changed, NULL);
        line->has_thread = false;
        line->done = line->last;
        while ((op = line->head) != NULL) {
            line->head = op->next;
            free(op->waits);
            free(op);
        }
        line->tail = &line->head;
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
}

static void __attribute__((constructor)) hipcpu_watch_fork(void)
{
    pthread_atfork(hipcpu_before_fork, hipcpu_after_fork, hipcpu_in_child);
}

hipcpu_line_t *hipcpu_line_create(int device, bool is_blocking)
{
    hipcpu_line_t *line = calloc(1, sizeof(*line));

    if (line == NULL) {
        return NULL;
    }

    pthread_mutex_init(&line->lock, NULL);
    pthread_cond_init(&line->changed, NULL);
    line->tail = &line->head;
    line->device = device;
    line->is_blocking = is_blocking;
    line->refs = 1;
    pthread_mutex_lock(&hipcpu_lines_lock);
    line->is_held = hipcpu_all_held;
    line->next = hipcpu_lines;
    hipcpu_lines = line;
    pthread_mutex_unlock(&hipcpu_lines_lock);
    return line;
}

hipcpu_line_t *hipcpu_line_default(int device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    pthread_mutex_lock(&lock);
    if (hipcpu_defaults[device] == NULL) {
        hipcpu_defaults[device] = hipcpu_line_create(device, true);
        if (hipcpu_defaults[device] == NULL) {
            hipcpu_misuse("no memory for the default stream");
        }
        hipcpu_defaults[device]->is_default = true;
    }
    pthread_mutex_unlock(&lock);
    return hipcpu_defaults[device];
}

hipcpu_line_t *hipcpu_line_get(hipcpu_line_t *line)
{
    pthread_mutex_lock(&hipcpu_lines_lock);
    ++line->refs;
    pthread_mutex_unlock(&hipcpu_lines_lock);
    return line;
}

void hipcpu_line_put(hipcpu_line_t *line)
{
    hipcpu_line_t **link;
    bool is_last;

    pthread_mutex_lock(&hipcpu_lines_lock);
    is_last = (--line->refs == 0);
    if (is_last) {
        for (link = &hipcpu_lines; *link != line; link = &(*link)->next) {
        }
        *link = line->next;
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
    if (is_last) {
        pthread_mutex_destroy(&line->lock);
        pthread_cond_destroy(&line->changed);
        free(line);
    }
}

static void hipcpu_op_drop_waits(hipcpu_op_t *op)
{
    unsigned i;

    for (i = 0; i < op->num_waits; ++i) {
        hipcpu_line_put(op->waits[i].line);
    }
    free(op->waits);
    op->waits = NULL;
    op->num_waits = 0;
}

/* Locked. A file holds the lines of processes that a test did not write itself. */
static bool hipcpu_line_is_held(const hipcpu_line_t *line)
{
    return line->is_held || ((hipcpu_config.hold_file != NULL) &&
                             (access(hipcpu_config.hold_file, F_OK) == 0));
}

/* Locked. The wait has a limit, because the removal of a file is not reported. */
static void hipcpu_line_sleep(hipcpu_line_t *line)
{
    struct timespec until;

    if (hipcpu_config.hold_file == NULL) {
        pthread_cond_wait(&line->changed, &line->lock);
        return;
    }

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 2000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&line->changed, &line->lock, &until);
}

static void hipcpu_op_run(hipcpu_op_t *op)
{
    struct timespec delay = {.tv_sec = hipcpu_config.delay_us / 1000000,
                             .tv_nsec = (hipcpu_config.delay_us % 1000000) * 1000L};
    unsigned i;

    for (i = 0; i < op->num_waits; ++i) {
        hipcpu_line_wait(op->waits[i].line, op->waits[i].seq);
    }
    if (hipcpu_config.delay_us != 0) {
        nanosleep(&delay, NULL);
    }
    op->run(op);
}

static void *hipcpu_line_main(void *arg)
{
    const struct timespec late = {.tv_nsec = HIPCPU_LATE_NS};
    hipcpu_line_t *line = arg;
    hipcpu_op_t *op;

    pthread_mutex_lock(&line->lock);
    for (;;) {
        while (!line->is_stopping &&
               ((line->head == NULL) || hipcpu_line_is_held(line))) {
            hipcpu_line_sleep(line);
        }
        op = line->head;
        if (line->is_stopping) {
            break;
        }
        pthread_mutex_unlock(&line->lock);
        hipcpu_op_run(op);
        if (hipcpu_rule(HIPCPU_RULE_LATE_END)) {
            nanosleep(&late, NULL);
        }
        hipcpu_op_drop_waits(op);
        pthread_mutex_lock(&line->lock);
        line->head = op->next;
        if (line->head == NULL) {
            line->tail = &line->head;
        }
        line->done = op->seq;
        free(op);
        pthread_cond_broadcast(&line->changed);
    }
    pthread_mutex_unlock(&line->lock);
    return NULL;
}

static void hipcpu_line_start(hipcpu_line_t *line)
{
    if (pthread_create(&line->thread, NULL, hipcpu_line_main, line) != 0) {
        hipcpu_misuse("no thread for a stream: %d", errno);
    }
    line->has_thread = true;
}

/* End the thread; the queue must be empty or of no interest any more. */
static void hipcpu_line_stop(hipcpu_line_t *line)
{
    bool has_thread;

    pthread_mutex_lock(&line->lock);
    has_thread = line->has_thread;
    line->is_stopping = true;
    line->has_thread = false;
    pthread_cond_broadcast(&line->changed);
    pthread_mutex_unlock(&line->lock);
    if (has_thread) {
        pthread_join(line->thread, NULL);
    }
}

bool hipcpu_line_retire(hipcpu_line_t *line)
{
    bool is_idle;

    pthread_mutex_lock(&line->lock);
    is_idle = (line->head == NULL);
    pthread_mutex_unlock(&line->lock);
    if (is_idle) {
        hipcpu_line_stop(line);
    }
    return is_idle;
}

static bool hipcpu_op_is_ready(const hipcpu_op_t *op)
{
    unsigned i;

    for (i = 0; i < op->num_waits; ++i) {
        if (!hipcpu_line_is_done(op->waits[i].line, op->waits[i].seq)) {
            return false;
        }
    }
    return true;
}

static void hipcpu_op_wait_for(hipcpu_op_t *op, hipcpu_line_t *line, uint64_t seq)
{
    op->waits = realloc(op->waits, (op->num_waits + 1) * sizeof(*op->waits));
    if (op->waits == NULL) {
        hipcpu_misuse("no memory for a dependency");
    }
    op->waits[op->num_waits++] = (hipcpu_wait_t){.line = line, .seq = seq};
}

/* The default stream and blocking streams of a device take turns. */
static void hipcpu_op_take_turns(hipcpu_op_t *op, const hipcpu_line_t *line)
{
    hipcpu_line_t *other;
    uint64_t seq;

    if (!line->is_blocking) {
        return;
    }

    pthread_mutex_lock(&hipcpu_lines_lock);
    for (other = hipcpu_lines; other != NULL; other = other->next) {
        if ((other == line) || (other->device != line->device) || !other->is_blocking ||
            (other->is_default == line->is_default)) {
            continue;
        }
        seq = hipcpu_line_last(other);
        if (!hipcpu_line_is_done(other, seq)) {
            ++other->refs;
            hipcpu_op_wait_for(op, other, seq);
        }
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
}

/* Locked. */
static uint64_t hipcpu_line_queue(hipcpu_line_t *line, const hipcpu_op_t *op)
{
    hipcpu_op_t *copy = malloc(sizeof(*copy));

    if (copy == NULL) {
        hipcpu_misuse("no memory for a piece of work");
    }
    *copy = *op;
    copy->next = NULL;
    copy->seq = ++line->last;
    *line->tail = copy;
    line->tail = &copy->next;
    if (!line->has_thread) {
        hipcpu_line_start(line);
    }
    pthread_cond_broadcast(&line->changed);
    return copy->seq;
}

uint64_t hipcpu_line_submit(hipcpu_line_t *line, const hipcpu_op_t *template)
{
    hipcpu_op_t op;
    uint64_t seq;

    if (!hipcpu_config.is_copy_on || hipcpu_config.is_inline) {
        pthread_mutex_lock(&line->lock);
        if ((line->head == NULL) && !line->is_held && (template->num_waits == 0)) {
            /* inside the lock, so that no other thread's work comes between */
            template->run((hipcpu_op_t *)(uintptr_t)template);
            seq = line->done = ++line->last;
            pthread_mutex_unlock(&line->lock);
            return seq;
        }
        pthread_mutex_unlock(&line->lock);
    }

    op = *template;
    hipcpu_op_take_turns(&op, line);
    if ((op.num_waits > 0) && hipcpu_op_is_ready(&op)) {
        hipcpu_op_drop_waits(&op);
    }
    pthread_mutex_lock(&line->lock);
    seq = hipcpu_line_queue(line, &op);
    pthread_mutex_unlock(&line->lock);
    return seq;
}

uint64_t hipcpu_line_last(hipcpu_line_t *line)
{
    uint64_t last;

    pthread_mutex_lock(&line->lock);
    last = line->last;
    pthread_mutex_unlock(&line->lock);
    return last;
}

bool hipcpu_line_is_done(hipcpu_line_t *line, uint64_t seq)
{
    bool is_done;

    pthread_mutex_lock(&line->lock);
    is_done = (line->done >= seq);
    pthread_mutex_unlock(&line->lock);
    return is_done;
}

void hipcpu_line_wait(hipcpu_line_t *line, uint64_t seq)
{
    struct timespec until;
    int error = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HIPCPU_PATIENCE;
    pthread_mutex_lock(&line->lock);
    while ((line->done < seq) && (error != ETIMEDOUT)) {
        error = pthread_cond_timedwait(&line->changed, &line->lock, &until);
    }
    if (line->done < seq) {
        hipcpu_misuse("waited %d s for a stream that does not go on", HIPCPU_PATIENCE);
    }
    pthread_mutex_unlock(&line->lock);
}

size_t hipcpu_line_pending(hipcpu_line_t *line)
{
    size_t pending;

    pthread_mutex_lock(&line->lock);
    pending = line->last - line->done;
    pthread_mutex_unlock(&line->lock);
    return pending;
}

void hipcpu_line_hold(hipcpu_line_t *line, bool is_held)
{
    pthread_mutex_lock(&line->lock);
    line->is_held = is_held;
    pthread_cond_broadcast(&line->changed);
    pthread_mutex_unlock(&line->lock);
}

void hipcpu_lines_hold(bool is_held)
{
    hipcpu_line_t *line;

    pthread_mutex_lock(&hipcpu_lines_lock);
    hipcpu_all_held = is_held;
    for (line = hipcpu_lines; line != NULL; line = line->next) {
        hipcpu_line_hold(line, is_held);
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
}

/* A referenced line with unfinished work, or NULL. */
static hipcpu_line_t *hipcpu_lines_find_busy(int device)
{
    hipcpu_line_t *line;

    pthread_mutex_lock(&hipcpu_lines_lock);
    for (line = hipcpu_lines; line != NULL; line = line->next) {
        if (((device < 0) || (line->device == device)) &&
            (hipcpu_line_pending(line) > 0)) {
            ++line->refs;
            break;
        }
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
    return line;
}

void hipcpu_lines_drain(int device)
{
    hipcpu_line_t *line;

    while ((line = hipcpu_lines_find_busy(device)) != NULL) {
        hipcpu_line_wait(line, hipcpu_line_last(line));
        hipcpu_line_put(line);
    }
    hipcpu_late_land_all();
}

void hipcpu_lines_check(const char *function, uintptr_t base, size_t size)
{
    const hipcpu_op_t *op;
    hipcpu_line_t *line;

    pthread_mutex_lock(&hipcpu_lines_lock);
    for (line = hipcpu_lines; line != NULL; line = line->next) {
        pthread_mutex_lock(&line->lock);
        for (op = line->head; op != NULL; op = op->next) {
            if ((op->uses != NULL) && !op->is_flagged && op->uses(op, base, size)) {
                hipcpu_misuse("%s(%p): unfinished work uses that memory", function,
                              (void *)base);
            }
        }
        pthread_mutex_unlock(&line->lock);
    }
    pthread_mutex_unlock(&hipcpu_lines_lock);
}

/* Threads that sleep at exit look like leaks to valgrind. */
static void __attribute__((destructor)) hipcpu_lines_end(void)
{
    int i;

    for (i = 0; i < HIPCPU_MAX_DEVICES; ++i) {
        if ((hipcpu_defaults[i] != NULL) && hipcpu_line_retire(hipcpu_defaults[i])) {
            hipcpu_line_put(hipcpu_defaults[i]);
            hipcpu_defaults[i] = NULL;
        }
    }
}
