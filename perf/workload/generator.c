/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/generator.h"
#include "perf/base/error.h"
#include "perf/base/random.h"

#include <stdlib.h>
#include <string.h>


enum {
    PERF_SESSIONS = 16,         /* going on at the same time */
    PERF_CONTINUE_PERCENT = 40, /* requests that continue a session */
    PERF_ARRIVAL_MS = 300,      /* mean time between requests */
    PERF_MAX_LENGTH = 4 << 20,  /* tokens */
    PERF_SYSTEM_HASHES = 1      /* hashes of the system prompt */
};

typedef struct perf_session {
    uint32_t length; /* tokens of its last prompt and answer, 0 when there is none */
    uint64_t *hashes;
} perf_session_t;

typedef struct perf_generator {
    perf_source_t super;
    perf_generator_config_t config;
    uint64_t random;
    uint64_t next_hash;
    uint32_t max_length;
    uint32_t max_hashes;
    perf_session_t sessions[PERF_SESSIONS];
    perf_request_t request;
} perf_generator_t;


/*
 * Around the mean with a long tail: a quarter of it times 1..2, 2..4, 4..8 or 8..16, in
 * 40, 30, 18 and 12 of 100 cases, which averages to the mean within 1 %.
 */
static uint32_t perf_generator_length(perf_generator_t *generator, uint32_t mean)
{
    uint64_t low = (mean + 3) / 4;
    uint32_t octave = perf_random_below(&generator->random, 100);
    uint64_t base;

    if (generator->config.is_exact) {
        return mean;
    }
    octave = (octave < 40) ? 0 : (octave < 70) ? 1 : (octave < 88) ? 2 : 3;
    base = low << octave;
    return (uint32_t)(base + perf_random_below(&generator->random, (uint32_t)base));
}

/* Number of hashes that the session's next prompt keeps: those of full 512 tokens. */
static uint32_t perf_session_kept(const perf_session_t *session)
{
    return session->length / PERF_HASH_TOKENS;
}

static void perf_generator_prompt(perf_generator_t *generator, perf_session_t *session,
                                  uint32_t length)
{
    uint32_t num_hashes = (length + PERF_HASH_TOKENS - 1) / PERF_HASH_TOKENS;
    uint32_t i;

    for (i = perf_session_kept(session); i < num_hashes; ++i) {
        session->hashes[i] = (i < PERF_SYSTEM_HASHES && length >= PERF_HASH_TOKENS)
                                 ? i
                                 : generator->next_hash++;
    }

    session->length = length;
    generator->request.input_length = length;
    generator->request.num_hashes = num_hashes;
    generator->request.hashes = session->hashes;
}

static int perf_generator_next(perf_source_t *source, const perf_request_t **request_p)
{
    perf_generator_t *generator = (perf_generator_t *)source;
    perf_session_t *session;
    uint32_t length;

    session =
        &generator->sessions[perf_random_below(&generator->random, PERF_SESSIONS)];
    length = perf_generator_length(generator, generator->config.input_length);
    if ((length <= session->length) ||
        (perf_random_below(&generator->random, 100) >= PERF_CONTINUE_PERCENT)) {
        session->length = 0; /* another conversation */
    }

    perf_generator_prompt(generator, session, length);
    generator->request.output_length =
        perf_generator_length(generator, generator->config.output_length);
    generator->request.timestamp_ms +=
        perf_random_below(&generator->random, 2 * PERF_ARRIVAL_MS);
    *request_p = &generator->request;
    return 1;
}

static void perf_generator_destroy(perf_source_t *source)
{
    perf_generator_t *generator = (perf_generator_t *)source;
    unsigned i;

    for (i = 0; i < PERF_SESSIONS; ++i) {
        free(generator->sessions[i].hashes);
    }
    free(generator);
}

static int perf_generator_check(const char *what, uint32_t length)
{
    if ((length == 0) || (length > PERF_MAX_LENGTH)) {
        perf_error("%s of %u tokens; expected 1 to %u", what, length, PERF_MAX_LENGTH);
        return -1;
    }
    return 0;
}

int perf_generator_create(const perf_generator_config_t *config,
                          perf_source_t **source_p)
{
    perf_generator_t *generator;
    unsigned i;

    if ((perf_generator_check("input_length", config->input_length) != 0) ||
        (perf_generator_check("output_length", config->output_length) != 0)) {
        return -1;
    }

    generator = calloc(1, sizeof(*generator));
    if (generator == NULL) {
        goto err;
    }

    generator->super.next = perf_generator_next;
    generator->super.destroy = perf_generator_destroy;
    generator->config = *config;
    generator->random = config->seed;
    generator->next_hash = PERF_SYSTEM_HASHES;
    /* upper limit of perf_generator_length() */
    generator->max_length = ((config->input_length + 3) / 4) * 16;
    generator->max_hashes = generator->max_length / PERF_HASH_TOKENS + 1;
    for (i = 0; i < PERF_SESSIONS; ++i) {
        generator->sessions[i].hashes =
            calloc(generator->max_hashes, sizeof(*generator->sessions[i].hashes));
        if (generator->sessions[i].hashes == NULL) {
            goto err_destroy;
        }
    }

    *source_p = &generator->super;
    return 0;

err_destroy:
    perf_generator_destroy(&generator->super);
err:
    perf_error("no memory for a generator of prompts of %u tokens",
               config->input_length);
    return -1;
}
