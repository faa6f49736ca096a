/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/engine/ucp_path.h"

#include <stdio.h>
#include <string.h>


/*
 * "{FLAGS} put(multi) from host memory length 4096 software emulation tcp/lo 97.8 MB/s
 * 39.94 us": the text between the length and the estimates, which are no measurements.
 */
static const char *perf_ucp_path_words(char *info)
{
    char *words = strstr(info, " length ");
    char *estimate;

    if (words == NULL) {
        return info;
    }
    words += strlen(" length ");
    words += strspn(words, "0123456789 ");
    estimate = strstr(words, " MB/s");
    if (estimate != NULL) {
        *estimate = '\0';
        estimate = strrchr(words, ' ');
    }
    if (estimate != NULL) {
        *estimate = '\0';
    }
    return words;
}

void perf_ucp_path_query(const perf_options_t *options, void *request, char *path,
                         size_t size)
{
    const char *initiator = perf_segment_name(options->initiator_segment);
    const char *target = perf_segment_name(options->target_segment);
    const char *words;
    bool is_read = (options->op == PERF_OP_READ);
    char info[1024] = "";
    ucp_request_attr_t attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_INFO_STRING |
                                             UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
                               .debug_string = info,
                               .debug_string_size = sizeof(info)};

    path[0] = '\0';
    if (ucp_request_query(request, &attr) != UCS_OK) {
        return;
    }
    info[sizeof(info) - 1] = '\0';
    words = perf_ucp_path_words(info);
    snprintf(path, size, "%s %s>%s: %s%s",
             is_read                            ? "get"
             : options->api == PERF_API_UCP_SGL ? "list put"
                                                : "put",
             is_read ? target : initiator, is_read ? initiator : target, words,
             (strstr(words, "stub protocol") != NULL) ? " (no transport carries it)"
                                                      : "");
}
