/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory that a launch leaves in a queue without a marker after it: its command and the
 * copy of its arguments, as much as AMD's runtime needs for them.
 */

#include "hipcpu_impl.h"
#include "hipcpu_rules.h"

#include <stdlib.h>
#include <string.h>

#define HIPCPU_COMMAND_SIZE 2048
#define HIPCPU_LEAK_SIZE ((size_t)16 << 10) /* so that few launches show it */

typedef struct hipcpu_command {
    const hipcpu_line_t *line;
    struct hipcpu_command *next;
    char rest[];
} hipcpu_command_t;

static pthread_mutex_t hipcpu_kept_lock = PTHREAD_MUTEX_INITIALIZER;
static hipcpu_command_t *hipcpu_kept;


void hipcpu_keep_command(hipcpu_line_t *line)
{
    hipcpu_command_t *command;

    size_t size =
        hipcpu_rule(HIPCPU_RULE_COMMANDS_LEAK) ? HIPCPU_LEAK_SIZE : HIPCPU_COMMAND_SIZE;

    if (!hipcpu_rule(HIPCPU_RULE_COMMANDS_KEPT) &&
        !hipcpu_rule(HIPCPU_RULE_COMMANDS_LEAK)) {
        return;
    }
    command = malloc(sizeof(*command) + size);
    if (command == NULL) {
        hipcpu_misuse("no memory for a command");
    }
    memset(command->rest, 0, size);
    command->line = line;
    pthread_mutex_lock(&hipcpu_kept_lock);
    command->next = hipcpu_kept;
    hipcpu_kept = command;
    pthread_mutex_unlock(&hipcpu_kept_lock);
    ++hipcpu_counts[HIPCPU_COMMANDS];
}

void hipcpu_drop_commands(const hipcpu_line_t *line)
{
    hipcpu_command_t **link, *command;

    if ((hipcpu_counts[HIPCPU_COMMANDS] == 0) ||
        hipcpu_rule(HIPCPU_RULE_COMMANDS_LEAK)) {
        return;
    }
    pthread_mutex_lock(&hipcpu_kept_lock);
    link = &hipcpu_kept;
    while ((command = *link) != NULL) {
        if (command->line == line) {
            *link = command->next;
            free(command);
            --hipcpu_counts[HIPCPU_COMMANDS];
        } else {
            link = &command->next;
        }
    }
    pthread_mutex_unlock(&hipcpu_kept_lock);
}
