/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_MODEL_H
#define PERF_MODEL_H

/**
 * @file
 * Memory that a model keeps for a request, read from a JSON file: perf/models/README.md
 * describes its members. Numbers are those of the whole model, before it is shared out
 * over ranks.
 *
 * Threads. Values only; reading may be done by any thread.
 */

#include <stdbool.h>
#include <stdint.h>


enum { PERF_MAX_LAYERS = 256, PERF_MAX_COMPONENTS = 8, PERF_MAX_GROUPS = 4 };

/** How much of a prompt a component keeps. */
typedef enum perf_keep {
    PERF_KEEP_ALL,    /**< Every token */
    PERF_KEEP_WINDOW, /**< The last tokens */
    PERF_KEEP_CHUNK,  /**< Tokens since the last multiple of so many */
    PERF_KEEP_STATE   /**< A single state, of a length that does not grow */
} perf_keep_t;

/** Data of one kind, in some of the layers. */
typedef struct perf_component {
    char name[24];
    unsigned num_layers;
    uint16_t layers[PERF_MAX_LAYERS]; /**< Numbers of these layers in the model */
    uint32_t parts;                   /**< Parts of a layer; 2: keys, values apart */
    perf_keep_t keep;
    uint32_t window;       /**< Tokens, of a window or chunk; else 0 */
    bool is_ring;          /**< A request has one ring of blocks for its window */
    bool is_slab;          /**< Layers lie side by side in every block */
    uint32_t block_tokens; /**< Block size of a window; 0: the common one */
    uint32_t compress;     /**< Tokens of an entry, at least 1 */
    uint32_t outer;        /**< Repetitions of the rest, at least 1 */
    uint32_t num_groups;   /**< 0: every rank holds all of it */
    uint32_t groups[PERF_MAX_GROUPS]; /**< Elements over all ranks */
    uint32_t dim;                     /**< Values of an element; 0: see bytes */
    uint32_t bytes;     /**< Bytes of an element, for every type of values */
    uint32_t fp8_bytes; /**< Bytes of an element with fp8; 0: dim applies */
    char dtype[8];      /**< Type of its values; "": the run's */
    uint32_t pad;       /**< A block in a layer is a multiple of so many bytes */
} perf_component_t;

typedef struct perf_model {
    char name[64];
    uint32_t num_layers;
    uint32_t tp; /**< Default number of ranks; the next two are defaults, too */
    uint32_t block_tokens;
    char dtype[8];
    unsigned num_components; /**< The first component keeps every token */
    perf_component_t components[PERF_MAX_COMPONENTS];
} perf_model_t;


/**
 * Read a model.
 *
 * @param [in]  name     A path, with a slash; else the name of a file, case ignored and
 *                       without ".json", in the folder that variable
 *                       MORI_KV_PERF_MODELS names, beside the program in its build
 *                       tree, or where models are installed.
 * @param [out] model_p  Set only on success.
 *
 * @return 0, or -1 after @ref perf_error named the file, the member and the
 *         expectation.
 */
int perf_model_read(const char *name, perf_model_t *model_p);

/** Call @a visit with the name of every installed model, in order of names. */
void perf_model_list(void (*visit)(void *arg, const char *name), void *arg);

#endif
