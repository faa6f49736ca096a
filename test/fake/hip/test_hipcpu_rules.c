/* SPDX-License-Identifier: BSD-3-Clause */

/* What libhipcpu does when it is told to be as strict as AMD's runtimes. */

#include "hipcpu.h"
#include "hipcpu_abi.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 8192
#define LIMIT_S 60

/* A process that exports memory, as often as it is asked. */
typedef struct exporter {
    pid_t pid;
    int commands;
    int answers;
} exporter_t;

static void ok(hipError_t error)
{
    ck_assert_msg(error == hipSuccess, "%s", hipGetErrorName(error));
}

static void exporter_main(int commands, int answers)
{
    hipIpcMemHandle_t handle;
    char command;
    void *memory = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(commands, &command, 1) == 1) {
        if ((memory != NULL) && (hipFree(memory) != hipSuccess)) {
            _exit(1);
        }
        if ((hipMalloc(&memory, SIZE) != hipSuccess) ||
            (hipMemset(memory, command, SIZE) != hipSuccess) ||
            (hipIpcGetMemHandle(&handle, memory) != hipSuccess) ||
            (write(answers, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))) {
            _exit(1);
        }
    }
    _exit(0);
}

static void exporter_start(exporter_t *exporter)
{
    int commands[2], answers[2];

    ck_assert_int_eq(pipe(commands), 0);
    ck_assert_int_eq(pipe(answers), 0);
    exporter->pid = fork();
    ck_assert_int_ge(exporter->pid, 0);
    if (exporter->pid == 0) {
        close(commands[1]);
        exporter_main(commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    exporter->commands = commands[1];
    exporter->answers = answers[0];
}

/* Memory full of a character; what it had before is freed. */
static hipIpcMemHandle_t exporter_alloc(const exporter_t *exporter, char fill)
{
    hipIpcMemHandle_t handle;

    ck_assert_int_eq(write(exporter->commands, &fill, 1), 1);
    ck_assert_int_eq(read(exporter->answers, &handle, sizeof(handle)),
                     (ssize_t)sizeof(handle));
    return handle;
}

static void exporter_end(const exporter_t *exporter)
{
    int status;

    close(exporter->commands);
    ck_assert_int_eq(waitpid(exporter->pid, &status, 0), exporter->pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_buffer_has_a_number_that_never_comes_again)
{
    unsigned first = 0, second = 0;
    char *memory, *again;

    ok(hipMalloc((void **)&memory, SIZE));
    ok(hipPointerGetAttribute(&first, HIP_POINTER_ATTRIBUTE_BUFFER_ID, memory + 5));
    ok(hipFree(memory));
    ok(hipMalloc((void **)&again, SIZE));
    ok(hipPointerGetAttribute(&second, HIP_POINTER_ATTRIBUTE_BUFFER_ID, again));
    ck_assert_ptr_eq(memory, again);
    ck_assert_uint_ne(first, second);
    ok(hipFree(again));
    ck_assert_int_eq(
        hipPointerGetAttribute(&first, HIP_POINTER_ATTRIBUTE_BUFFER_ID, again),
        hipErrorInvalidValue);
}
END_TEST

START_TEST(a_handle_by_address_names_what_is_there_when_it_is_opened)
{
    hipIpcMemHandle_t first, second;
    exporter_t exporter;
    char *old, *now;

    hipcpu_set_rule("ipc-address", true);
    hipcpu_set_version(7, 0); /* each open is a mapping of its own */
    exporter_start(&exporter);
    first = exporter_alloc(&exporter, 'a');
    ok(hipIpcOpenMemHandle((void **)&old, first, 1));
    ck_assert_int_eq(*old, 'a');
    second = exporter_alloc(&exporter, 'b');
    ck_assert_mem_eq(&first, &second, sizeof(first));
    ok(hipIpcOpenMemHandle((void **)&now, first, 1));
    ck_assert_int_eq(*now, 'b');
    ck_assert_int_ne(*old, 'b');
    ok(hipIpcCloseMemHandle(old));
    ok(hipIpcCloseMemHandle(now));
    exporter_end(&exporter);
}
END_TEST

START_TEST(a_stopped_exporter_answers_no_import)
{
    hipIpcMemHandle_t handle;
    exporter_t exporter;
    void *memory;

    setenv("HIPCPU_IPC_TIMEOUT", "20", 1);
    setenv("HIPCPU_RULES", "ipc-server", 1);
    exporter_start(&exporter);
    handle = exporter_alloc(&exporter, 'a');
    ck_assert_int_eq(kill(exporter.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(exporter.pid, NULL, WUNTRACED), exporter.pid);
    ck_assert_int_eq(hipIpcOpenMemHandle(&memory, handle, 1),
                     hipErrorInvalidDevicePointer);
    ck_assert_int_eq(kill(exporter.pid, SIGCONT), 0);
    ok(hipIpcOpenMemHandle(&memory, handle, 1));
    ok(hipIpcCloseMemHandle(memory));
    exporter_end(&exporter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hipcpu_rules");
    TCase *tcase = tcase_create("rules");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, LIMIT_S);
    tcase_add_test(tcase, a_buffer_has_a_number_that_never_comes_again);
    tcase_add_test(tcase, a_handle_by_address_names_what_is_there_when_it_is_opened);
    tcase_add_test(tcase, a_stopped_exporter_answers_no_import);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? EXIT_SUCCESS : EXIT_FAILURE;
}
