/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/trace.h"
#include "perf/base/error.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* Hashes stay below this so that a hash and a block's place in it fit one key. */
#define PERF_HASH_MAX ((UINT64_C(1) << 53) - 1)

typedef struct perf_trace {
    perf_source_t super;
    char *path;
    FILE *file;
    unsigned long line_number;
    char *line;
    size_t line_size;
    json_tokener *parser;
    perf_request_t request;
    uint64_t *hashes;
    size_t max_hashes;
} perf_trace_t;


static bool perf_trace_is_whole(json_object *value, uint64_t min, uint64_t max)
{
    return json_object_is_type(value, json_type_int) &&
           (json_object_get_int64(value) >= (int64_t)min) &&
           (json_object_get_int64(value) <= (int64_t)max);
}

static int perf_trace_member(const perf_trace_t *trace, json_object *object,
                             const char *name, json_object **value_p)
{
    if (!json_object_object_get_ex(object, name, value_p)) {
        perf_error("%s:%lu: there is no %s", trace->path, trace->line_number, name);
        return -1;
    }
    return 0;
}

static int perf_trace_unexpected(const perf_trace_t *trace, const char *name,
                                 json_object *value, uint64_t min, uint64_t max)
{
    perf_error("%s:%lu: %s is %.32s; expected a %snumber from %" PRIu64 " to %" PRIu64,
               trace->path, trace->line_number, name,
               json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
               (strcmp(name, "timestamp") == 0) ? "" : "whole ", min, max);
    return -1;
}

static int perf_trace_length(const perf_trace_t *trace, json_object *object,
                             const char *name, uint32_t *length_p)
{
    json_object *value;

    if (perf_trace_member(trace, object, name, &value) != 0) {
        return -1;
    }
    if (!perf_trace_is_whole(value, 1, INT32_MAX)) {
        return perf_trace_unexpected(trace, name, value, 1, INT32_MAX);
    }
    *length_p = (uint32_t)json_object_get_int64(value);
    return 0;
}

static int perf_trace_timestamp(perf_trace_t *trace, json_object *object)
{
    json_object *value;
    double number;

    if (perf_trace_member(trace, object, "timestamp", &value) != 0) {
        return -1;
    }
    number = json_object_get_double(value);
    if ((!json_object_is_type(value, json_type_int) &&
         !json_object_is_type(value, json_type_double)) ||
        !(number >= 0) || !(number <= (double)PERF_HASH_MAX)) {
        return perf_trace_unexpected(trace, "timestamp", value, 0, PERF_HASH_MAX);
    }
    if ((uint64_t)number < trace->request.timestamp_ms) {
        perf_error("%s:%lu: timestamp %.32s is before the one above; expected at least "
                   "%" PRIu64,
                   trace->path, trace->line_number, json_object_to_json_string(value),
                   trace->request.timestamp_ms);
        return -1;
    }
    trace->request.timestamp_ms = (uint64_t)number;
    return 0;
}

static int perf_trace_reserve_hashes(perf_trace_t *trace, size_t num)
{
    uint64_t *hashes;

    if (num <= trace->max_hashes) {
        return 0;
    }
    hashes = realloc(trace->hashes, num * sizeof(*hashes));
    if (hashes == NULL) {
        perf_error("%s:%lu: no memory for %zu hash_ids", trace->path,
                   trace->line_number, num);
        return -1;
    }
    trace->hashes = hashes;
    trace->max_hashes = num;
    return 0;
}

static int perf_trace_hashes(perf_trace_t *trace, json_object *object)
{
    uint32_t expected =
        (trace->request.input_length + PERF_HASH_TOKENS - 1) / PERF_HASH_TOKENS;
    json_object *array, *value;
    uint32_t i;

    if (perf_trace_member(trace, object, "hash_ids", &array) != 0) {
        return -1;
    }
    if (!json_object_is_type(array, json_type_array) ||
        (json_object_array_length(array) != expected)) {
        perf_error("%s:%lu: hash_ids is %.32s; expected an array of %u, one number for "
                   "each %u tokens of input_length %u",
                   trace->path, trace->line_number, json_object_to_json_string(array),
                   expected, PERF_HASH_TOKENS, trace->request.input_length);
        return -1;
    }
    if (perf_trace_reserve_hashes(trace, expected) != 0) {
        return -1;
    }

    for (i = 0; i < expected; ++i) {
        value = json_object_array_get_idx(array, i);
        if (!perf_trace_is_whole(value, 0, PERF_HASH_MAX)) {
            return perf_trace_unexpected(trace, "a hash", value, 0, PERF_HASH_MAX);
        }
        trace->hashes[i] = (uint64_t)json_object_get_int64(value);
    }
    trace->request.hashes = trace->hashes;
    trace->request.num_hashes = expected;
    return 0;
}

static int perf_trace_request(perf_trace_t *trace, json_object *object)
{
    if (!json_object_is_type(object, json_type_object)) {
        perf_error("%s:%lu: found %.32s; expected an object, '{'", trace->path,
                   trace->line_number, json_object_to_json_string(object));
        return -1;
    }
    return ((perf_trace_timestamp(trace, object) == 0) &&
            (perf_trace_length(trace, object, "input_length",
                               &trace->request.input_length) == 0) &&
            (perf_trace_length(trace, object, "output_length",
                               &trace->request.output_length) == 0) &&
            (perf_trace_hashes(trace, object) == 0))
               ? 0
               : -1;
}

static int perf_trace_parse(perf_trace_t *trace, json_object **object_p)
{
    enum json_tokener_error error;
    size_t at, start, end;

    json_tokener_reset(trace->parser);
    *object_p = json_tokener_parse_ex(trace->parser, trace->line, -1);
    error = json_tokener_get_error(trace->parser);
    if (error == json_tokener_success) {
        return 0;
    }

    at = json_tokener_get_parse_end(trace->parser);
    for (start = at; (start > 0) && !strchr(",:[{ ", trace->line[start - 1]); --start) {
    }
    end = at + strcspn(trace->line + at, ",]} \r\n");
    perf_error("%s:%lu:%zu: found '%.*s'%s; expected a JSON object (%s)", trace->path,
               trace->line_number, at + 1, (int)((end - start > 32) ? 32 : end - start),
               trace->line + start, (trace->line[at] < ' ') ? " (end of line)" : "",
               json_tokener_error_desc(error));
    json_object_put(*object_p);
    return -1;
}

/* 1: a line with text, 0: the end of the file */
static int perf_trace_line(perf_trace_t *trace)
{
    ssize_t length;

    do {
        length = getline(&trace->line, &trace->line_size, trace->file);
        if (length < 0) {
            if (feof(trace->file)) {
                return 0;
            }
            perf_error("%s: reading failed after line %lu: %m", trace->path,
                       trace->line_number);
            return -1;
        }

        ++trace->line_number;
        if (strlen(trace->line) != (size_t)length) {
            perf_error("%s:%lu: a zero byte; expected text", trace->path,
                       trace->line_number);
            return -1;
        }
    } while (trace->line[strspn(trace->line, " \t\r\n")] == '\0');
    return 1;
}

static int perf_trace_next(perf_source_t *source, const perf_request_t **request_p)
{
    perf_trace_t *trace = (perf_trace_t *)source;
    json_object *object;
    int ret;

    ret = perf_trace_line(trace);
    if (ret <= 0) {
        return ret;
    }
    if (perf_trace_parse(trace, &object) != 0) {
        return -1;
    }

    ret = perf_trace_request(trace, object);
    json_object_put(object);
    if (ret != 0) {
        return -1;
    }
    *request_p = &trace->request;
    return 1;
}

static void perf_trace_destroy(perf_source_t *source)
{
    perf_trace_t *trace = (perf_trace_t *)source;

    fclose(trace->file);
    json_tokener_free(trace->parser);
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

    trace->parser = json_tokener_new();
    if (trace->parser == NULL) {
        perf_error("no memory to parse trace '%s'", path);
        goto err_close;
    }
    json_tokener_set_flags(trace->parser, JSON_TOKENER_STRICT);
    trace->super.next = perf_trace_next;
    trace->super.destroy = perf_trace_destroy;
    *source_p = &trace->super;
    return 0;

err_close:
    fclose(trace->file);
err_free:
    if (trace != NULL) {
        free(trace->path);
    }
    free(trace);
    return -1;
}
