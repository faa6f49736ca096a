/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "test/support/fake_hip.h"
#include "test/support/mkv_check.h"

#include <dlfcn.h>
#include <string.h>

void *fake_hip_symbol(const char *name)
{
    void *lib = dlopen(HIPCPU_PATH, RTLD_NOW | RTLD_LOCAL);
    void *symbol;

    ck_assert_msg(lib != NULL, "%s", dlerror());
    symbol = dlsym(lib, name);
    ck_assert_msg(symbol != NULL, "%s has no %s", HIPCPU_PATH, name);
    return symbol;
}

void fake_hip_fail(const char *function, unsigned nth, int error)
{
    void (*arm)(const char *, unsigned, int);
    void *symbol = fake_hip_symbol("hipcpu_fail");

    memcpy(&arm, &symbol, sizeof(arm));
    arm(function, nth, error);
}

void fake_hip_set_version(int major, int minor)
{
    void (*set)(int, int);
    void *symbol = fake_hip_symbol("hipcpu_set_version");

    memcpy(&set, &symbol, sizeof(set));
    set(major, minor);
}

void fake_hip_set_rule(const char *name, bool is_on)
{
    void (*set)(const char *, bool);
    void *symbol = fake_hip_symbol("hipcpu_set_rule");

    memcpy(&set, &symbol, sizeof(set));
    set(name, is_on);
}

unsigned long fake_hip_calls(const char *function)
{
    unsigned long (*calls)(const char *);
    void *symbol = fake_hip_symbol("hipcpu_calls");

    memcpy(&calls, &symbol, sizeof(calls));
    return calls(function);
}

size_t fake_hip_live(int kind)
{
    size_t (*live)(int);
    void *symbol = fake_hip_symbol("hipcpu_live");

    memcpy(&live, &symbol, sizeof(live));
    return live(kind);
}

void fake_hip_hold(const char *name, void *stream)
{
    void (*hold)(void *);
    void *symbol = fake_hip_symbol(name);

    memcpy(&hold, &symbol, sizeof(hold));
    hold(stream);
}

static int fake_hip_call(const char *name, void *arg)
{
    int (*call)(void *);
    void *symbol = fake_hip_symbol(name);

    memcpy(&call, &symbol, sizeof(call));
    return call(arg);
}

static void *fake_hip_capture_main(void *arg)
{
    fake_hip_capture_t *capture = arg;
    void *symbols[] = {fake_hip_symbol("hipStreamBeginCapture"),
                       fake_hip_symbol("hipStreamEndCapture")};
    int (*begin)(void *, int);
    int (*end)(void *, void **);
    void *stream, *graph;

    memcpy(&begin, &symbols[0], sizeof(begin));
    memcpy(&end, &symbols[1], sizeof(end));
    ck_assert_int_eq(fake_hip_call("hipStreamCreate", &stream), 0);
    ck_assert_int_eq(begin(stream, 0), 0);
    pthread_barrier_wait(&capture->barrier);
    pthread_barrier_wait(&capture->barrier);
    capture->result = end(stream, &graph);
    if (capture->result == 0) {
        ck_assert_int_eq(fake_hip_call("hipGraphDestroy", graph), 0);
    }
    ck_assert_int_eq(fake_hip_call("hipStreamDestroy", stream), 0);
    return NULL;
}

void fake_hip_capture_start(fake_hip_capture_t *capture)
{
    ck_assert_int_eq(pthread_barrier_init(&capture->barrier, NULL, 2), 0);
    ck_assert_int_eq(
        pthread_create(&capture->thread, NULL, fake_hip_capture_main, capture), 0);
    pthread_barrier_wait(&capture->barrier);
}

int fake_hip_capture_end(fake_hip_capture_t *capture)
{
    pthread_barrier_wait(&capture->barrier);
    ck_assert_int_eq(pthread_join(capture->thread, NULL), 0);
    ck_assert_int_eq(pthread_barrier_destroy(&capture->barrier), 0);
    return capture->result;
}
