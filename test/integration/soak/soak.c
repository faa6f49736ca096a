/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The main process, the gardener, starts prefills and decodes. For a while it kills,
 * stops and restarts them, and makes them drop their regions. Then all end, and their
 * findings are added up.
 *
 *   soak SECONDS [--early] [--no-kill]
 *
 * --early is the control: blocks are free when a transfer has ended instead of when it
 * is quiet, and the run must be red. --no-kill is for transports over which UCX ends a
 * process whose peer is killed (docs/morikv.md, "What UCX decides").
 *
 * MKV_TEST_MEM=gpu as in kv_run.sh; SOAK_WINDOW is the number of transfers at once over
 * all, SOAK_SEED repeats the gardener's actions.
 */

#include "soak.h"

#include "test/support/mkv_proc.h"
#include "test/support/mkv_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SOAK_WINDOW 1024u

typedef struct gardener {
    soak_shared_t *shared;
    mkv_proc_t procs[SOAK_WORKERS];
    bool is_killed[SOAK_WORKERS];
    uint64_t go_on_ms[SOAK_WORKERS];   /* stopped until then; 0: not */
    uint64_t restart_ms[SOAK_WORKERS]; /* ended until then; 0: not */
    uint64_t spared_ms[SOAK_WORKERS];  /* started not long ago */
    uint64_t random;
    bool kills;
    unsigned num_killed, num_stopped, num_left, num_slept, num_died, num_ended_by_ucx;
} gardener_t;

static struct {
    soak_shared_t *shared;
    unsigned index;
} next_worker;

static void path_of_output(const soak_shared_t *shared, unsigned index, char *path,
                           size_t size)
{
    snprintf(path, size, "%s/%u.output", shared->dir, index);
}

/* The worker's output goes to a file, so that the gardener can look for reasons */
static int run_worker(int fd, void *arg)
{
    char path[192];
    int output;

    (void)fd;
    (void)arg;
    path_of_output(next_worker.shared, next_worker.index, path, sizeof(path));
    output = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (output >= 0) {
        (void)dup2(output, STDOUT_FILENO);
        (void)dup2(output, STDERR_FILENO);
    }
    return soak_work(next_worker.shared, next_worker.index);
}

/* Print the kernel's state of a process that does not end, and the call that it may
 * wait in */
static void print_living(const soak_shared_t *shared, unsigned index, pid_t pid)
{
    static const char *const names[] = {"stat", "wchan", "syscall"};
    char path[64], line[512];
    FILE *file;
    size_t i;

    printf("worker %u did not end: phase %d, %llu open, %s\n", index, shared->phase,
           (unsigned long long)shared->slots[index].open_now,
           shared->slots[index].is_drained ? "drained" : "not drained");
    for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
        file = fopen(path, "r");
        if ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
            line[strcspn(line, "\n")] = '\0';
            printf("    %s: %s\n", names[i], line);
        }
        if (file != NULL) {
            fclose(file);
        }
    }
}

/* Known crashes of UCX 1.23 in the progress of its tcp, when peers are killed or
 * stopped (docs/morikv.md, "What UCX decides"); no call of ours is involved. Each ends
 * one process, and the others must survive it. */
static const char *const ucx_ends[] = {
    "(ucp_wireup_ep_progress_pending) on ep",
    "Assertion `!(ep->flags & UCT_TCP_EP_FLAG_CTX_TYPE_TX)' failed",
    "Assertion `ep->flags & UCT_TCP_EP_FLAG_PUT_TX_WAITING_ACK' failed",
    /* it resumes a flush of an endpoint that was freed meanwhile
     * (ucp_ep_flush_resume_slow_path_callback()) */
    "failed: &worker->ep_config index=",
    /* it answers an emulated put (as of memory with a handle that no longer opens) to a
     * peer behind a failed lane (ucp_request_try_send()) */
    "Fatal: unexpected error: ",
};

static bool is_end_by_ucx(const char *line)
{
    bool result = false;
    size_t i;

    for (i = 0; i < sizeof(ucx_ends) / sizeof(ucx_ends[0]); ++i) {
        result |= strstr(line, ucx_ends[i]) != NULL;
    }
    return result;
}

/* Print the output of a worker. @return It contains one of these texts. */
static bool has_ucx_ended(const soak_shared_t *shared, unsigned index)
{
    char path[192], line[512];
    bool result = false;
    FILE *file;

    path_of_output(shared, index, path, sizeof(path));
    file = fopen(path, "r");
    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        result |= is_end_by_ucx(line);
        fputs(line, stdout);
    }
    if (file != NULL) {
        fclose(file);
    }
    (void)unlink(path);
    return result;
}

static void path_of_blob(const gardener_t *gardener, unsigned index, char *path,
                         size_t size)
{
    snprintf(path, size, "%s/%u.blob", gardener->shared->dir, index);
}

static void start(gardener_t *gardener, unsigned index)
{
    next_worker.shared = gardener->shared;
    next_worker.index = index;
    gardener->is_killed[index] = false;
    gardener->restart_ms[index] = 0;
    gardener->spared_ms[index] = mkv_test_now_ms() + 1000;
    gardener->shared->slots[index].must_leave = false;
    gardener->shared->slots[index].must_sleep = false;
    gardener->shared->slots[index].rss_kib[0] = 0; /* of the previous worker */
    gardener->shared->slots[index].fds[0] = 0;
    if (mkv_proc_fork(&gardener->procs[index], run_worker, NULL) != 0) {
        perror("soak: fork");
        exit(1);
    }
}

/* A worker must have ended on request or by a kill; any other end is a failure */
static void collect(gardener_t *gardener, unsigned index)
{
    mkv_proc_t *proc = &gardener->procs[index];
    char path[192];
    bool is_by_ucx;
    int status;

    if ((proc->pid <= 0) || (waitpid(proc->pid, &status, WNOHANG) != proc->pid)) {
        return;
    }
    proc->pid = -1;
    mkv_proc_cleanup(proc);
    path_of_blob(gardener, index, path, sizeof(path));
    (void)unlink(path);
    is_by_ucx = has_ucx_ended(gardener->shared, index) && WIFSIGNALED(status) &&
                (WTERMSIG(status) == SIGABRT);
    gardener->num_ended_by_ucx += is_by_ucx;
    if (!gardener->is_killed[index] && !is_by_ucx &&
        (!WIFEXITED(status) || WEXITSTATUS(status))) {
        ++gardener->num_died;
        printf("worker %u died: status 0x%x\n", index, (unsigned)status);
    }
    gardener->restart_ms[index] = mkv_test_now_ms() + 200;
    gardener->go_on_ms[index] = 0;
}

/* A worker of each kind runs from the beginning to the end, while the others come and
 * go: its memory shows whether it grows */
static bool is_spared(unsigned index)
{
    return (index == 0) || (index == SOAK_PREFILLS);
}

/* A stop is up to three seconds: some longer than DRAIN_TIMEOUT */
static void disturb(gardener_t *gardener)
{
    unsigned index = (unsigned)(mkv_test_random(&gardener->random) >> 8) % SOAK_WORKERS;
    unsigned what = (unsigned)(mkv_test_random(&gardener->random) >> 8) % 10;
    uint64_t now = mkv_test_now_ms();

    if ((gardener->procs[index].pid <= 0) || (gardener->go_on_ms[index] != 0) ||
        (now < gardener->spared_ms[index])) {
        return;
    }
    if (is_spared(index)) {
        what = 3 + what % 5;
    }
    if ((what < 3) && gardener->kills) {
        gardener->is_killed[index] = true;
        mkv_proc_kill(&gardener->procs[index], SIGKILL);
        ++gardener->num_killed;
    } else if (what < 6) {
        mkv_proc_kill(&gardener->procs[index], SIGSTOP);
        gardener->go_on_ms[index] =
            now + 100 + (mkv_test_random(&gardener->random) >> 8) % 2800;
        ++gardener->num_stopped;
    } else if (what < 8) {
        gardener->shared->slots[index].must_sleep = true;
        ++gardener->num_slept;
    } else {
        gardener->shared->slots[index].must_leave = true;
        ++gardener->num_left;
    }
}

static void tend(gardener_t *gardener, bool restarts)
{
    uint64_t now = mkv_test_now_ms();
    unsigned i;

    for (i = 0; i < SOAK_WORKERS; ++i) {
        collect(gardener, i);
        if (now >= gardener->go_on_ms[i]) {
            /* Repeat the resume: the fake device resumes a process that was stopped
             * with its lock, and stops it again later, even if its time was over
             * meanwhile */
            mkv_proc_resume(&gardener->procs[i]);
            gardener->go_on_ms[i] = 0;
        }
        if (restarts && (gardener->restart_ms[i] != 0) &&
            (now >= gardener->restart_ms[i])) {
            start(gardener, i);
        }
    }
    usleep(10000);
}

static void run(gardener_t *gardener, uint64_t ms)
{
    uint64_t begin = mkv_test_now_ms(), next = begin + 1000, now = begin;

    for (; now < begin + ms; now = mkv_test_now_ms()) {
        gardener->shared->quarter = (unsigned)((now - begin) * 4 / ms);
        tend(gardener, true);
        if (now >= next) {
            disturb(gardener);
            next = now + 200 + (mkv_test_random(&gardener->random) >> 8) % 800;
        }
    }
}

/* All living workers that were not ordered to leave have drained */
static bool is_drained(const gardener_t *gardener)
{
    bool result = true;
    unsigned i;

    for (i = SOAK_PREFILLS; i < SOAK_WORKERS; ++i) {
        result = result && ((gardener->procs[i].pid <= 0) ||
                            gardener->shared->slots[i].is_drained);
    }
    return result;
}

static bool has_ended(const gardener_t *gardener)
{
    unsigned i;

    for (i = 0; (i < SOAK_WORKERS) && (gardener->procs[i].pid <= 0); ++i) {
    }
    return i == SOAK_WORKERS;
}

static bool wait_for(gardener_t *gardener, uint64_t limit_ms,
                     bool (*condition)(const gardener_t *))
{
    uint64_t begin = mkv_test_now_ms();

    while (!condition(gardener)) {
        tend(gardener, false);
        if (mkv_test_now_ms() - begin > limit_ms) {
            return false;
        }
    }
    return true;
}

/* Workers have the same limit for their waits, and print the cause at its end */
static bool wind_up(gardener_t *gardener)
{
    uint64_t limit_ms = (uint64_t)mkv_test_limit_ms();
    bool is_over;
    unsigned i;

    gardener->shared->phase = SOAK_DRAIN;
    is_over = wait_for(gardener, limit_ms, is_drained);
    gardener->shared->phase = SOAK_CLOSE;
    is_over = wait_for(gardener, limit_ms + 15000, has_ended) && is_over;
    for (i = 0; i < SOAK_WORKERS; ++i) {
        if (gardener->procs[i].pid > 0) {
            print_living(gardener->shared, i, gardener->procs[i].pid);
            (void)has_ucx_ended(gardener->shared, i);
        }
    }
    return is_over;
}

/* Check a worker that has lived since the second quarter. In a short run it still grows
 * to the size that its window and its peers need, so a run of seconds proves nothing.
 */
static bool is_flat(const volatile soak_slot_t *slot, uint64_t seconds)
{
    uint64_t slack_kib = (seconds < 240) ? 65536 : 16384;

    return (seconds < 60) || (slot->rss_kib[0] == 0) || (slot->rss_kib[1] == 0) ||
           ((slot->rss_kib[1] <= slot->rss_kib[0] + slack_kib) &&
            (slot->fds[1] <= slot->fds[0] + 16));
}

#define SUM(_shared, _member) sum_of(_shared, offsetof(soak_slot_t, _member))

static unsigned long long sum_of(const soak_shared_t *shared, size_t offset)
{
    unsigned long long sum = 0;
    unsigned i;

    for (i = 0; i < SOAK_WORKERS; ++i) {
        sum += *(const volatile uint64_t *)((const volatile char *)&shared->slots[i] +
                                            offset);
    }
    return sum;
}

static int report(const gardener_t *gardener, bool is_over, uint64_t seconds)
{
    soak_shared_t *shared = gardener->shared;
    unsigned num_growing = 0, i;
    unsigned long long bad;

    for (i = 0; i < SOAK_WORKERS; ++i) {
        num_growing += !is_flat(&shared->slots[i], seconds);
        printf(
            "%s %u: opened %llu, done %llu, aborted %llu, failed %llu, at once %llu, "
            "quarantined at once %llu, RSS %llu to %llu KiB, descriptors %llu to "
            "%llu\n",
            (i < SOAK_PREFILLS) ? "prefill" : "decode", i,
            (unsigned long long)shared->slots[i].opened,
            (unsigned long long)shared->slots[i].done,
            (unsigned long long)shared->slots[i].aborted,
            (unsigned long long)shared->slots[i].failed,
            (unsigned long long)shared->slots[i].open_most,
            (unsigned long long)shared->slots[i].quarantined_most,
            (unsigned long long)shared->slots[i].rss_kib[0],
            (unsigned long long)shared->slots[i].rss_kib[1],
            (unsigned long long)shared->slots[i].fds[0],
            (unsigned long long)shared->slots[i].fds[1]);
    }
    printf("%u killed, %u stopped, %u left and came again, %u dropped their regions\n",
           gardener->num_killed, gardener->num_stopped, gardener->num_left,
           gardener->num_slept);
    printf("%llu wrong blocks, %llu blocks written to after quiet, %llu blocks lost, "
           "%llu complaints, %u died, %u more by bugs of UCX's tcp, %u grow%s\n",
           SUM(shared, wrong), SUM(shared, late), SUM(shared, lost),
           SUM(shared, complaints), gardener->num_died, gardener->num_ended_by_ucx,
           num_growing, is_over ? "" : ", and not all came to an end");
    bad = SUM(shared, wrong) + SUM(shared, late);
    if (!shared->frees_early) { /* control that must be red by written blocks */
        bad += SUM(shared, lost) + SUM(shared, complaints) + gardener->num_died +
               num_growing + !is_over;
    }
    if (SUM(shared, done) == 0) {
        printf("nothing was moved\n");
    }
    return ((bad == 0) && (SUM(shared, done) > 0)) ? 0 : 1;
}

static void set_options(void)
{
    static const char *const options[][2] = {
        {"MORIKV_BIND_TIMEOUT", "3s"},  {"MORIKV_XFER_TIMEOUT", "5s"},
        {"MORIKV_DRAIN_TIMEOUT", "2s"}, {"MORIKV_RELEASE_TIMEOUT", "5s"},
        {"MORIKV_PEER_CHECK", "50"},    {"MORIKV_LOG_LEVEL", "error"},
    };
    size_t i;

    for (i = 0; i < sizeof(options) / sizeof(options[0]); ++i) {
        setenv(options[i][0], options[i][1], 0);
    }
}

/* Memory shared by all processes, which outlives the killed ones */
static soak_shared_t *share(void)
{
    const char *memory = getenv("MKV_TEST_MEM"), *window = getenv("SOAK_WINDOW");
    soak_shared_t *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        perror("soak: mmap");
        exit(1);
    }
    snprintf(shared->dir, sizeof(shared->dir), "%s/soak.XXXXXX",
             (getenv("TMPDIR") != NULL) ? getenv("TMPDIR") : "/tmp");
    if (mkdtemp(shared->dir) == NULL) {
        perror(shared->dir);
        exit(1);
    }
    shared->is_gpu = (memory != NULL) && !strcmp(memory, "gpu");
    shared->window =
        ((window != NULL) ? (unsigned)atoi(window) : SOAK_WINDOW) / SOAK_DECODES;
    return shared;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SOAK_SEED");
    uint64_t seconds = (argc > 1) ? strtoull(argv[1], NULL, 0) : 30;
    gardener_t gardener = {.kills = true};
    bool is_over;
    unsigned i;
    int ret;

    mkv_test_init();
    set_options();
    gardener.shared = share();
    gardener.random = (seed != NULL) ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    for (i = 2; i < (unsigned)argc; ++i) {
        gardener.shared->frees_early |= !strcmp(argv[i], "--early");
        gardener.kills &= strcmp(argv[i], "--no-kill") != 0;
    }
    if (gardener.shared->frees_early) {
        setenv("MORIKV_OVERLAP", "allow", 1);
    }
    printf("soak: SOAK_SEED=%llu\n", (unsigned long long)gardener.random);
    for (i = 0; i < SOAK_WORKERS; ++i) {
        start(&gardener, i);
    }
    run(&gardener, seconds * 1000);
    is_over = wind_up(&gardener);
    ret = report(&gardener, is_over, seconds);
    for (i = 0; i < SOAK_WORKERS; ++i) {
        mkv_proc_cleanup(&gardener.procs[i]);
    }
    (void)rmdir(gardener.shared->dir);
    return ret;
}
