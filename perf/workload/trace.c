/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The format is one flat object of numbers and one array of numbers, so the parser is
 * a cursor over the line that knows no other JSON.
 */

#include "perf/workload/trace.h"
#include "perf/workload/error.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* Hashes stay below this so that a hash and a block's place in it fit one key. */
#define PERF_HASH_MAX ((UINT64_C(1) << 53) - 1)

enum perf_trace_member {
    PERF_TRACE_TIMESTAMP,
    PERF_TRACE_INPUT,
    PERF_TRACE_OUTPUT,
    PERF_TRACE_HASHES,
    PERF_TRACE_MEMBERS
};

typedef struct perf_trace {
    perf_source_t super;
    char *path;
    FILE *file;
    unsigned long line_number;
    char *line;
    size_t line_size;
    const char *cursor;
    unsigned seen; /* bit for each member of this line */
    perf_request_t request;
    uint64_t *hashes;
    size_t max_hashes;
} perf_trace_t;

static const struct {
    const char *name;
    uint64_t min;
    uint64_t max;
} perf_trace_members[] = {
    [PERF_TRACE_TIMESTAMP] = {"timestamp", 0, PERF_HASH_MAX},
    [PERF_TRACE_INPUT] = {"input_length", 1, INT32_MAX},
    [PERF_TRACE_OUTPUT] = {"output_length", 1, INT32_MAX},
    [PERF_TRACE_HASHES] = {"hash_ids", 0, PERF_HASH_MAX},
};


/* Say what is at the cursor and what should be. */
static int perf_trace_expected(const perf_trace_t *trace, const char *what)
{
    int length = (int)strcspn(trace->cursor, ",]}\r\n");

    perf_error("%s:%lu:%zu: found '%.*s'%s; expected %s", trace->path,
               trace->line_number, (size_t)(trace->cursor - trace->line) + 1,
               (length > 32)   ? 32
               : (length == 0) ? (*trace->cursor > ' ')
                               : length,
               trace->cursor, (*trace->cursor < ' ') ? " (end of line)" : "", what);
    return -1;
}

static void perf_trace_skip_space(perf_trace_t *trace)
{
    trace->cursor += strspn(trace->cursor, " \t\r\n");
}

static int perf_trace_is_next(perf_trace_t *trace, char c)
{
    perf_trace_skip_space(trace);
    if (*trace->cursor != c) {
        return 0;
    }
    ++trace->cursor;
    return 1;
}

static int perf_trace_number(perf_trace_t *trace, enum perf_trace_member member,
                             uint64_t *number_p)
{
    char expected[96];
    char *end;
    uint64_t number;

    perf_trace_skip_space(trace);
    errno = 0;
    number = strtoull(trace->cursor, &end, 10);
    /* strtoull() also takes signs and leading zeros, JSON numbers have neither */
    if (!isdigit((unsigned char)*trace->cursor) || (errno != 0) ||
        ((*trace->cursor == '0') && (end != trace->cursor + 1)) ||
        (strchr(".eE", *end) != NULL && *end != '\0') ||
        (number < perf_trace_members[member].min) ||
        (number > perf_trace_members[member].max)) {
        snprintf(expected, sizeof(expected),
                 "%s to be a whole number from %" PRIu64 " to %" PRIu64,
                 perf_trace_members[member].name, perf_trace_members[member].min,
                 perf_trace_members[member].max);
        return perf_trace_expected(trace, expected);
    }

    trace->cursor = end;
    *number_p = number;
    return 0;
}

static int perf_trace_add_hash(perf_trace_t *trace, uint64_t hash)
{
    size_t max = (trace->max_hashes == 0) ? 256 : 2 * trace->max_hashes;
    uint64_t *hashes;

    if (trace->request.num_hashes == trace->max_hashes) {
        hashes = realloc(trace->hashes, max * sizeof(*hashes));
        if (hashes == NULL) {
            perf_error("%s:%lu: no memory for %zu hash_ids", trace->path,
                       trace->line_number, max);
            return -1;
        }
        trace->hashes = hashes;
        trace->max_hashes = max;
    }

    trace->hashes[trace->request.num_hashes++] = hash;
    return 0;
}

static int perf_trace_hashes(perf_trace_t *trace)
{
    uint64_t hash;

    trace->request.num_hashes = 0;
    if (!perf_trace_is_next(trace, '[')) {
        return perf_trace_expected(trace, "hash_ids to be an array, '['");
    }
    if (perf_trace_is_next(trace, ']')) {
        return 0;
    }

    do {
        if ((perf_trace_number(trace, PERF_TRACE_HASHES, &hash) != 0) ||
            (perf_trace_add_hash(trace, hash) != 0)) {
            return -1;
        }
    } while (perf_trace_is_next(trace, ','));

    return perf_trace_is_next(trace, ']')
               ? 0
               : perf_trace_expected(trace, "',' or ']' after a hash");
}

/* A member's name in quotes and the colon. */
static int perf_trace_name(perf_trace_t *trace, enum perf_trace_member *member_p)
{
    unsigned member;
    const char *name;
    size_t length;

    perf_trace_skip_space(trace);
    for (member = 0; member < PERF_TRACE_MEMBERS; ++member) {
        name = perf_trace_members[member].name;
        length = strlen(name);
        if ((trace->cursor[0] == '"') &&
            (strncmp(trace->cursor + 1, name, length) == 0) &&
            (trace->cursor[length + 1] == '"')) {
            break;
        }
    }
    if (member == PERF_TRACE_MEMBERS) {
        return perf_trace_expected(trace, "\"timestamp\", \"input_length\", "
                                          "\"output_length\" or \"hash_ids\"");
    }
    if (trace->seen & (1u << member)) {
        return perf_trace_expected(trace, "each member once");
    }

    trace->cursor += length + 2;
    if (!perf_trace_is_next(trace, ':')) {
        return perf_trace_expected(trace, "':' after a name");
    }

    trace->seen |= 1u << member;
    *member_p = (enum perf_trace_member)member;
    return 0;
}

static int perf_trace_member(perf_trace_t *trace)
{
    enum perf_trace_member member;
    uint64_t number = 0;

    if (perf_trace_name(trace, &member) != 0) {
        return -1;
    }
    if (member == PERF_TRACE_HASHES) {
        return perf_trace_hashes(trace);
    }
    if (perf_trace_number(trace, member, &number) != 0) {
        return -1;
    }

    switch (member) {
    case PERF_TRACE_TIMESTAMP:
        if (number < trace->request.timestamp_ms) {
            perf_error("%s:%lu: timestamp %" PRIu64 " is before the one above; "
                       "expected at least %" PRIu64,
                       trace->path, trace->line_number, number,
                       trace->request.timestamp_ms);
            return -1;
        }
        trace->request.timestamp_ms = number;
        break;
    case PERF_TRACE_INPUT:
        trace->request.input_length = (uint32_t)number;
        break;
    default:
        trace->request.output_length = (uint32_t)number;
        break;
    }
    return 0;
}

static int perf_trace_check(const perf_trace_t *trace)
{
    const perf_request_t *request = &trace->request;
    uint32_t expected;
    unsigned member;

    for (member = 0; member < PERF_TRACE_MEMBERS; ++member) {
        if (!(trace->seen & (1u << member))) {
            perf_error("%s:%lu: there is no %s", trace->path, trace->line_number,
                       perf_trace_members[member].name);
            return -1;
        }
    }

    expected = (request->input_length + PERF_HASH_TOKENS - 1) / PERF_HASH_TOKENS;
    if (request->num_hashes != expected) {
        perf_error("%s:%lu: %u hash_ids for input_length %u; expected %u, one for each "
                   "%u tokens",
                   trace->path, trace->line_number, request->num_hashes,
                   request->input_length, expected, PERF_HASH_TOKENS);
        return -1;
    }
    return 0;
}

static int perf_trace_object(perf_trace_t *trace)
{
    if (!perf_trace_is_next(trace, '{')) {
        return perf_trace_expected(trace, "an object, '{'");
    }

    do {
        if (perf_trace_member(trace) != 0) {
            return -1;
        }
    } while (perf_trace_is_next(trace, ','));

    if (!perf_trace_is_next(trace, '}')) {
        return perf_trace_expected(trace, "',' or '}' after a value");
    }
    perf_trace_skip_space(trace);
    return (*trace->cursor == '\0') ? 0
                                    : perf_trace_expected(trace, "the end of the line");
}

static int perf_trace_next(perf_source_t *source, const perf_request_t **request_p)
{
    perf_trace_t *trace = (perf_trace_t *)source;
    ssize_t length;

    do {
        length = getline(&trace->line, &trace->line_size, trace->file);
        if (length < 0) {
            if (!feof(trace->file)) {
                perf_error("%s: reading failed after line %lu: %m", trace->path,
                           trace->line_number);
                return -1;
            }
            return 0;
        }

        ++trace->line_number;
        trace->cursor = trace->line;
        if (strlen(trace->line) != (size_t)length) {
            perf_error("%s:%lu: a zero byte; expected text", trace->path,
                       trace->line_number);
            return -1;
        }
        perf_trace_skip_space(trace);
    } while (*trace->cursor == '\0');

    trace->seen = 0;
    if ((perf_trace_object(trace) != 0) || (perf_trace_check(trace) != 0)) {
        return -1;
    }

    trace->request.hashes = trace->hashes;
    *request_p = &trace->request;
    return 1;
}

static void perf_trace_destroy(perf_source_t *source)
{
    perf_trace_t *trace = (perf_trace_t *)source;

    fclose(trace->file);
    free(trace->hashes);
    free(trace->line);
    free(trace->path);
    free(trace);
}

int perf_trace_open(const char *path, perf_source_t **source_p)
{
    perf_trace_t *trace;

    trace = calloc(1, sizeof(*trace));
    if ((trace == NULL) || ((trace->path = strdup(path)) == NULL)) {
        perf_error("no memory to open trace '%s'", path);
        goto err_free;
    }

    trace->file = fopen(path, "re");
    if (trace->file == NULL) {
        perf_error("trace '%s' cannot be opened: %m", path);
        goto err_free;
    }

    trace->super.next = perf_trace_next;
    trace->super.destroy = perf_trace_destroy;
    *source_p = &trace->super;
    return 0;

err_free:
    if (trace != NULL) {
        free(trace->path);
    }
    free(trace);
    return -1;
}
