/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/mkv_check.h"
#include "test/support/xgmi_owner.h"

#include "xgmi/xgmi_inval.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum owner_what { OWNER_ALLOC, OWNER_FREE, OWNER_INVALIDATE } owner_what_t;

typedef struct owner_command {
    owner_what_t what;
    size_t length;
    unsigned timeout_ms;
    muct_xgmi_key_t key;
} owner_command_t;

typedef struct owner_answer {
    ucs_status_t status;
    muct_xgmi_key_t key;
} owner_answer_t;


const muct_gpu_t *xgmi_owner_gpu(void)
{
    static muct_gpu_t gpu;

    if (gpu.num_devices == 0) {
        ck_assert_int_eq(muct_gpu_bind(HIPCPU_PATH, &gpu), UCS_OK);
    }

    return &gpu;
}

static void owner_export(const muct_gpu_t *gpu, uint64_t self, size_t length,
                         owner_answer_t *answer)
{
    muct_hip_ipc_mem_handle_t handle;
    muct_xgmi_key_t *key = &answer->key;
    void *memory;

    answer->status = UCS_ERR_NO_MEMORY;
    if ((gpu->mem_alloc(&memory, length) != MUCT_HIP_SUCCESS) ||
        (gpu->ipc_get_mem_handle(&handle, memory) != MUCT_HIP_SUCCESS)) {
        return;
    }

    memset(key, 0, sizeof(*key));
    key->kind = MUCT_XGMI_KEY_REMOTE;
    key->owner = self;
    key->address = (uintptr_t)memory;
    key->length = length;
    key->base = (uintptr_t)memory;
    key->alloc_length = length;
    key->buffer_id = muct_gpu_buffer_id(gpu, memory);
    memcpy(key->handle, &handle, sizeof(key->handle));
    answer->status = muct_xgmi_slot_alloc(&key->slot, &key->generation);
}

static void owner_do(const muct_gpu_t *gpu, uint64_t self,
                     const owner_command_t *command, owner_answer_t *answer)
{
    switch (command->what) {
    case OWNER_ALLOC:
        owner_export(gpu, self, command->length, answer);
        break;
    case OWNER_FREE:
        answer->status =
            (gpu->mem_free((void *)(uintptr_t)command->key.base) == MUCT_HIP_SUCCESS)
                ? UCS_OK
                : UCS_ERR_INVALID_ADDR;
        break;
    case OWNER_INVALIDATE:
        answer->status = muct_xgmi_inval_wait(command->key.slot, command->timeout_ms);
        break;
    }
}

static void owner_main(const char *dir, int commands, int answers)
{
    owner_command_t command;
    owner_answer_t answer;
    muct_xgmi_self_t self;
    muct_gpu_t gpu;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((muct_gpu_bind(HIPCPU_PATH, &gpu) != UCS_OK) ||
        (muct_xgmi_self_open(dir, &self) != UCS_OK)) {
        _exit(1);
    }

    while (read(commands, &command, sizeof(command)) == (ssize_t)sizeof(command)) {
        memset(&answer, 0, sizeof(answer));
        owner_do(&gpu, self.owner, &command, &answer);
        if (write(answers, &answer, sizeof(answer)) != (ssize_t)sizeof(answer)) {
            break;
        }
    }
    _exit(0);
}

void xgmi_owner_start(xgmi_owner_t *owner, const char *dir)
{
    int commands[2], answers[2];

    ck_assert_int_eq(pipe(commands), 0);
    ck_assert_int_eq(pipe(answers), 0);
    owner->pid = fork();
    ck_assert_int_ge(owner->pid, 0);
    if (owner->pid == 0) {
        close(commands[1]);
        close(answers[0]);
        owner_main(dir, commands[0], answers[1]);
    }

    close(commands[0]);
    close(answers[1]);
    owner->commands = commands[1];
    owner->answers = answers[0];
}

static void owner_run(xgmi_owner_t *owner, const owner_command_t *command,
                      owner_answer_t *answer)
{
    ck_assert_int_eq(write(owner->commands, command, sizeof(*command)),
                     (ssize_t)sizeof(*command));
    ck_assert_int_eq(read(owner->answers, answer, sizeof(*answer)),
                     (ssize_t)sizeof(*answer));
}

void xgmi_owner_alloc(xgmi_owner_t *owner, size_t length, muct_xgmi_key_t *key)
{
    owner_command_t command = {.what = OWNER_ALLOC, .length = length};
    owner_answer_t answer;

    owner_run(owner, &command, &answer);
    ck_assert_int_eq(answer.status, UCS_OK);
    *key = answer.key;
}

void xgmi_owner_free(xgmi_owner_t *owner, const muct_xgmi_key_t *key)
{
    owner_command_t command = {.what = OWNER_FREE, .key = *key};
    owner_answer_t answer;

    owner_run(owner, &command, &answer);
    ck_assert_int_eq(answer.status, UCS_OK);
}

ucs_status_t xgmi_owner_invalidate(xgmi_owner_t *owner, const muct_xgmi_key_t *key,
                                   unsigned timeout_ms)
{
    owner_command_t command = {
        .what = OWNER_INVALIDATE, .key = *key, .timeout_ms = timeout_ms};
    owner_answer_t answer;

    owner_run(owner, &command, &answer);
    return answer.status;
}

void xgmi_owner_kill(xgmi_owner_t *owner)
{
    int status;

    kill(owner->pid, SIGKILL);
    ck_assert_int_eq(waitpid(owner->pid, &status, 0), owner->pid);
    close(owner->commands);
    close(owner->answers);
}
