/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A rule holds when it is named, or when all rules of the release are selected ("amd")
 * and the release has it. The state is written once and then only read, except by tests
 * between their steps.
 */

#include "hipcpu_rules.h"

#include "hipcpu_impl.h"

#include <stdlib.h>
#include <string.h>

#define HIPCPU_ANY_RELEASE 9999

typedef struct hipcpu_rule_entry {
    const char *name;
    int since; /* release, major * 100 + minor */
    int until; /* last one */
} hipcpu_rule_entry_t;

static const hipcpu_rule_entry_t hipcpu_rule_table[HIPCPU_NUM_RULES] = {
    /* by name only: no release is known to do so; for tests that prove the state
     * machines */
    [HIPCPU_RULE_BUFFER_ID_AGAIN] = {"buffer-id-again", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_CALLBACK_LOST] = {"callback-lost", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_CLOSE_LOCKS] = {"close-locks", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_ODD_SIZE] = {"odd-size", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_MARK_LOST] = {"mark-lost", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_REFUSAL_STICKS] = {"refusal-sticks", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_LATE_EVENT] = {"late-event", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_CAPTURE_MARK] = {"capture-mark", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_COMMANDS_LEAK] = {"commands-leak", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_WRONG_BYTE] = {"wrong-byte", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_ERRORS_OVERWRITTEN] = {"errors-overwritten", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_REPLAY_STALE] = {"replay-stale", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_STALE_MAP] = {"stale-map", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_CAPTURE_ALLOC] = {"capture-alloc", 500, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_CAPTURE_SYNC] = {"capture-sync", 604, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_CAPTURE_STREAM] = {"capture-stream", 602, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_CAPTURE_EVENT] = {"capture-event", 700, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_CAPTURE_EVENT_ANY] = {"capture-event-any", 700, 701},
    [HIPCPU_RULE_CAPTURED_EVENT] = {"captured-event", 700, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_CLOSE_RACES] = {"close-races", 507, 699},
    [HIPCPU_RULE_CLOSE_WAITS] = {"close-waits", 500, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_COMMANDS_KEPT] = {"commands-kept", 602, 603},
    [HIPCPU_RULE_DMABUF_OFFSET] = {"dmabuf-offset", HIPCPU_ANY_RELEASE, 0},
    /* by name only: behaviour of a kernel whose compiler has left the wait out */
    [HIPCPU_RULE_EARLY_FLAG] = {"early-flag", HIPCPU_ANY_RELEASE, 0},
    /* by name only: a race, of 4 in 290 processes of ROCm 7.2 */
    [HIPCPU_RULE_EXIT_ABORTS] = {"exit-aborts", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_EXPORT_LEAKS] = {"export-leaks", 702, 702},
    [HIPCPU_RULE_EXPORT_VMM_ENDS] = {"export-vmm-ends", 702, 702},
    [HIPCPU_RULE_FEW_QUEUES] = {"few-queues", 500, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_IPC_ADDRESS] = {"ipc-address", 603, 701},
    /* by name only: CUDA's, below a HIP that is made of it */
    [HIPCPU_RULE_IPC_OVERLAP] = {"ipc-overlap", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_IPC_SERVER] = {"ipc-server", 603, HIPCPU_ANY_RELEASE},
    [HIPCPU_RULE_LATE_CACHES] = {"late-caches", 500, HIPCPU_ANY_RELEASE},
    /* by name only: true of each release, and costs each piece of work its time */
    [HIPCPU_RULE_LATE_END] = {"late-end", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_LATE_MARK] = {"late-mark", 703, HIPCPU_ANY_RELEASE},
    /* by name only: the kernel decides */
    [HIPCPU_RULE_OLD_DRIVER] = {"old-driver", HIPCPU_ANY_RELEASE, 0},
    /* by name only: of ROCm 10, and there a race */
    [HIPCPU_RULE_OPEN_OTHER] = {"open-other", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_RETAIN_CRASH] = {"retain-crash", 602, 702},
    [HIPCPU_RULE_RETAIN_NO_REFERENCE] = {"retain-no-reference", 500, 702},
    /* by name only: one copy in thousands, and of several processes of a GPU */
    [HIPCPU_RULE_STALE_READS] = {"stale-reads", HIPCPU_ANY_RELEASE, 0},
    [HIPCPU_RULE_STALE_STAGING] = {"stale-staging", HIPCPU_ANY_RELEASE, 0},
};

typedef enum hipcpu_choice { HIPCPU_BY_RELEASE, HIPCPU_ON, HIPCPU_OFF } hipcpu_choice_t;

static bool hipcpu_is_amd;
static hipcpu_choice_t hipcpu_choices[HIPCPU_NUM_RULES];


/* ROCr's flag.h: only "0" turns the driver's handles off up to 7.1, and only "1" turns
 * them on from 7.2 on. */
static bool hipcpu_is_rocr_ipc(int release)
{
    const char *legacy = getenv("HSA_ENABLE_IPC_MODE_LEGACY");

    legacy = (legacy == NULL) ? "" : legacy;
    return (release >= 702) ? (strcmp(legacy, "1") != 0) : (strcmp(legacy, "0") == 0);
}

bool hipcpu_rule(hipcpu_rule_t rule)
{
    const hipcpu_rule_entry_t *entry = &hipcpu_rule_table[rule];
    int release = (hipcpu_config.major * 100) + hipcpu_config.minor;

    if (hipcpu_choices[rule] != HIPCPU_BY_RELEASE) {
        return hipcpu_choices[rule] == HIPCPU_ON;
    }

    return hipcpu_is_amd && (release >= entry->since) && (release <= entry->until) &&
           (((rule != HIPCPU_RULE_IPC_ADDRESS) && (rule != HIPCPU_RULE_IPC_SERVER)) ||
            hipcpu_is_rocr_ipc(release));
}

void hipcpu_set_rule(const char *name, bool is_on)
{
    int i;

    if (strcmp(name, "amd") == 0) {
        hipcpu_is_amd = is_on;
        return;
    }

    for (i = 0; i < HIPCPU_NUM_RULES; ++i) {
        if (strcmp(name, hipcpu_rule_table[i].name) == 0) {
            hipcpu_choices[i] = is_on ? HIPCPU_ON : HIPCPU_OFF;
            return;
        }
    }
    hipcpu_misuse("'%s' is no rule: expected amd or a name of docs/dev/hipcpu.md",
                  name);
}

void hipcpu_rules_read(void)
{
    const char *list = getenv("HIPCPU_RULES");
    char *copy, *name, *rest;

    if (list == NULL) {
        return;
    }

    copy = strdup(list);
    if (copy == NULL) {
        hipcpu_misuse("no memory for HIPCPU_RULES");
    }
    for (name = strtok_r(copy, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        hipcpu_set_rule(name + (*name == '-'), *name != '-');
    }
    free(copy);
}
