/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_nowait.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Calls that always wait; newer machines do not have the older ones. */
static const unsigned nowait_calls[] = {
#ifdef __NR_poll
    __NR_poll,
#endif
#ifdef __NR_select
    __NR_select,
#endif
#ifdef __NR_epoll_wait
    __NR_epoll_wait,
#endif
#ifdef __NR_pause
    __NR_pause,
#endif
    __NR_ppoll,         __NR_pselect6,        __NR_epoll_pwait, __NR_nanosleep,
    __NR_sched_yield,   __NR_clock_nanosleep, __NR_wait4,       __NR_waitid,
    __NR_rt_sigsuspend, __NR_rt_sigtimedwait, __NR_flock,       __NR_semtimedop,
    __NR_msgrcv,        __NR_mq_timedreceive, __NR_fsync,       __NR_accept4,
};

#define NOWAIT_NUM_CALLS (sizeof(nowait_calls) / sizeof(nowait_calls[0]))

enum { NOWAIT_MAX = 2 * NOWAIT_NUM_CALLS + 8 };

static void nowait_add(struct sock_fprog *prog, struct sock_filter filter)
{
    prog->filter[prog->len++] = filter;
}

/* The low word, which is all of them on machines of either order */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NOWAIT_ARG(_i) offsetof(struct seccomp_data, args[_i])
#else
#define NOWAIT_ARG(_i) (offsetof(struct seccomp_data, args[_i]) + 4)
#endif

static void nowait_build(struct sock_fprog *prog)
{
    const struct sock_filter trap = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
                             allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    size_t i;

    nowait_add(prog, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                  offsetof(struct seccomp_data, nr)));
    for (i = 0; i < NOWAIT_NUM_CALLS; ++i) {
        nowait_add(prog, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                      nowait_calls[i], 0, 1));
        nowait_add(prog, trap);
    }
    /* all operations of a futex but a wakeup */
    nowait_add(prog, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_futex,
                                                  0, 4));
    nowait_add(prog,
               (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NOWAIT_ARG(1)));
    nowait_add(prog,
               (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, FUTEX_CMD_MASK));
    nowait_add(prog, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE,
                                                  1, 0));
    nowait_add(prog, trap);
    nowait_add(prog, allow);
}

/* The locks inside libc, of the heap before all, are held for a few instructions,
 * during which their owner waits for nothing but a processor. glibc takes them in a
 * function of their own, which tries again after EAGAIN. */
static bool nowait_try_libc_lock_again(const siginfo_t *info, ucontext_t *context)
{
    Dl_info found;

    if ((dladdr(info->si_call_addr, &found) == 0) || (found.dli_sname == NULL) ||
        (strcmp(found.dli_sname, "__lll_lock_wait_private") != 0)) {
        return false;
    }
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RAX] = -EAGAIN;
    return true;
#elif defined(__aarch64__)
    context->uc_mcontext.regs[0] = -EAGAIN;
    return true;
#else
    (void)context;
    return false;
#endif
}

static void nowait_trapped(int sig, siginfo_t *info, void *arg)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "a thread waits: system call %d\n",
                          info->si_syscall);

    (void)sig;
    if (nowait_try_libc_lock_again(info, arg)) {
        return;
    }
    (void)!write(STDERR_FILENO, text, (size_t)length);
    _exit(MKV_NOWAIT_EXIT);
}

int mkv_nowait_begin(void)
{
    struct sigaction action = {.sa_sigaction = nowait_trapped, .sa_flags = SA_SIGINFO};
    struct sock_filter filters[NOWAIT_MAX];
    struct sock_fprog prog = {.filter = filters};

    nowait_build(&prog);
    if ((sigaction(SIGSYS, &action, NULL) != 0) ||
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)) {
        return -1;
    }
    return (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0) ? 0 : -1;
}
