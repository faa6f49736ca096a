/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/model.h"
#include "perf/base/error.h"

#include <dirent.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>


typedef enum perf_member_type {
    PERF_MEMBER_NUMBER,
    PERF_MEMBER_FLAG,
    PERF_MEMBER_TEXT,     /* max: bytes of its array */
    PERF_MEMBER_ELSEWHERE /* read by other code, or for people */
} perf_member_type_t;

/* A member of an object in the file and where it goes. */
typedef struct perf_member {
    const char *name;
    perf_member_type_t type;
    size_t offset;
    uint32_t min;
    uint32_t max;
} perf_member_t;

/* Position in the file, for errors. */
typedef struct perf_model_file {
    const char *path;
    char where[64]; /* "components[2]", or "" */
} perf_model_file_t;

#define PERF_COMPONENT(_name) offsetof(perf_component_t, _name)
#define PERF_MODEL(_name) offsetof(perf_model_t, _name)

static const perf_member_t perf_component_members[] = {
    {"name", PERF_MEMBER_TEXT, PERF_COMPONENT(name), 1, 24},
    {"on", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"heads", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"groups", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"state", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"chunk", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"parts", PERF_MEMBER_NUMBER, PERF_COMPONENT(parts), 1, 4},
    {"window", PERF_MEMBER_NUMBER, PERF_COMPONENT(window), 1, 1 << 24},
    {"ring", PERF_MEMBER_FLAG, PERF_COMPONENT(is_ring), 0, 0},
    {"slab", PERF_MEMBER_FLAG, PERF_COMPONENT(is_slab), 0, 0},
    {"block_tokens", PERF_MEMBER_NUMBER, PERF_COMPONENT(block_tokens), 1, 8192},
    {"compress", PERF_MEMBER_NUMBER, PERF_COMPONENT(compress), 1, 8192},
    {"outer", PERF_MEMBER_NUMBER, PERF_COMPONENT(outer), 1, 1 << 16},
    {"dim", PERF_MEMBER_NUMBER, PERF_COMPONENT(dim), 1, 1 << 24},
    {"bytes", PERF_MEMBER_NUMBER, PERF_COMPONENT(bytes), 1, 1 << 24},
    {"fp8_bytes", PERF_MEMBER_NUMBER, PERF_COMPONENT(fp8_bytes), 1, 1 << 24},
    {"dtype", PERF_MEMBER_TEXT, PERF_COMPONENT(dtype), 1, 8},
    {"pad", PERF_MEMBER_NUMBER, PERF_COMPONENT(pad), 1, 1 << 24},
    {NULL, PERF_MEMBER_ELSEWHERE, 0, 0, 0},
};

static const perf_member_t perf_model_members[] = {
    {"name", PERF_MEMBER_TEXT, PERF_MODEL(name), 1, 64},
    {"about", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"pattern", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"components", PERF_MEMBER_ELSEWHERE, 0, 0, 0},
    {"layers", PERF_MEMBER_NUMBER, PERF_MODEL(num_layers), 1, PERF_MAX_LAYERS},
    {"tp", PERF_MEMBER_NUMBER, PERF_MODEL(tp), 1, 1024},
    {"block_tokens", PERF_MEMBER_NUMBER, PERF_MODEL(block_tokens), 1, 8192},
    {"dtype", PERF_MEMBER_TEXT, PERF_MODEL(dtype), 1, 8},
    {NULL, PERF_MEMBER_ELSEWHERE, 0, 0, 0},
};


static int perf_model_error(const perf_model_file_t *file, const char *name,
                            json_object *value, const char *expected)
{
    perf_error("model '%s': %s%s%s is %.60s; expected %s", file->path, file->where,
               (file->where[0] != '\0') ? "." : "", name,
               (value == NULL)
                   ? "missing"
                   : json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
               expected);
    return -1;
}

static int perf_model_number(const perf_model_file_t *file, const char *name,
                             json_object *value, uint32_t min, uint32_t max,
                             uint32_t *number_p)
{
    char expected[64];

    if (!json_object_is_type(value, json_type_int) ||
        (json_object_get_int64(value) < (int64_t)min) ||
        (json_object_get_int64(value) > (int64_t)max)) {
        snprintf(expected, sizeof(expected), "a whole number from %u to %u", min, max);
        return perf_model_error(file, name, value, expected);
    }
    *number_p = (uint32_t)json_object_get_int64(value);
    return 0;
}

static int perf_model_text(const perf_model_file_t *file, const char *name,
                           json_object *value, size_t size, char *text)
{
    char expected[64];

    if (!json_object_is_type(value, json_type_string) ||
        (json_object_get_string_len(value) == 0) ||
        ((size_t)json_object_get_string_len(value) >= size)) {
        snprintf(expected, sizeof(expected), "a text of 1 to %zu bytes", size - 1);
        return perf_model_error(file, name, value, expected);
    }
    strcpy(text, json_object_get_string(value));
    return 0;
}

static int perf_model_member(const perf_model_file_t *file, const perf_member_t *member,
                             json_object *value, void *into)
{
    void *field = (char *)into + member->offset;

    switch (member->type) {
    case PERF_MEMBER_NUMBER:
        return perf_model_number(file, member->name, value, member->min, member->max,
                                 field);
    case PERF_MEMBER_TEXT:
        return perf_model_text(file, member->name, value, member->max, field);
    case PERF_MEMBER_FLAG:
        if (!json_object_is_type(value, json_type_boolean)) {
            return perf_model_error(file, member->name, value, "true or false");
        }
        *(bool *)field = json_object_get_boolean(value);
        return 0;
    default:
        return 0;
    }
}

/* Each member of an object must be known, so that a misspelt name is an error. */
static int perf_model_members_of(const perf_model_file_t *file, json_object *object,
                                 const perf_member_t *members, void *into)
{
    const perf_member_t *member;

    json_object_object_foreach(object, name, value)
    {
        for (member = members; (member->name != NULL) && strcmp(member->name, name);
             ++member) {
        }
        if (member->name == NULL) {
            return perf_model_error(file, name, value,
                                    "a member that perf/models/README.md has");
        }
        if (perf_model_member(file, member, value, into) != 0) {
            return -1;
        }
    }
    return 0;
}

/* "heads": N is short for "groups": [N]. */
static int perf_component_groups(const perf_model_file_t *file, json_object *object,
                                 perf_component_t *component)
{
    json_object *value;
    size_t i;

    if (json_object_object_get_ex(object, "heads", &value)) {
        component->num_groups = 1;
        return perf_model_number(file, "heads", value, 1, 1 << 20,
                                 &component->groups[0]);
    }
    if (!json_object_object_get_ex(object, "groups", &value)) {
        return 0;
    }
    if (!json_object_is_type(value, json_type_array) ||
        (json_object_array_length(value) < 1) ||
        (json_object_array_length(value) > PERF_MAX_GROUPS)) {
        return perf_model_error(file, "groups", value, "1 to 4 numbers in brackets");
    }
    component->num_groups = (uint32_t)json_object_array_length(value);
    for (i = 0; i < component->num_groups; ++i) {
        if (perf_model_number(file, "groups", json_object_array_get_idx(value, i), 1,
                              1 << 20, &component->groups[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

static int perf_component_keep(const perf_model_file_t *file, json_object *object,
                               perf_component_t *component)
{
    json_object *state, *chunk;

    component->keep = (component->window != 0) ? PERF_KEEP_WINDOW : PERF_KEEP_ALL;
    if (json_object_object_get_ex(object, "chunk", &chunk)) {
        if ((component->keep != PERF_KEEP_ALL) ||
            (perf_model_number(file, "chunk", chunk, 1, 1 << 24, &component->window) !=
             0)) {
            return perf_model_error(file, "chunk", chunk,
                                    "a number of tokens, and no window");
        }
        component->keep = PERF_KEEP_CHUNK;
    }
    if (json_object_object_get_ex(object, "state", &state)) {
        if (!json_object_is_type(state, json_type_boolean) ||
            !json_object_get_boolean(state) || (component->keep != PERF_KEEP_ALL)) {
            return perf_model_error(file, "state", state,
                                    "true, and no window or chunk");
        }
        component->keep = PERF_KEEP_STATE;
    }
    if (component->is_ring && (component->keep != PERF_KEEP_WINDOW)) {
        return perf_model_error(file, "ring", NULL, "a window with it");
    }
    if ((component->block_tokens != 0) && (component->keep != PERF_KEEP_WINDOW) &&
        (component->keep != PERF_KEEP_CHUNK)) {
        return perf_model_error(file, "window", NULL, "one beside block_tokens");
    }
    return 0;
}

/* Number of layers whose letter in the repeated pattern is one of "on". */
static int perf_component_layers(const perf_model_file_t *file, json_object *object,
                                 const char *pattern, uint32_t num_layers,
                                 perf_component_t *component)
{
    char on[16] = "";
    json_object *value;
    uint32_t layer;

    if (json_object_object_get_ex(object, "on", &value) &&
        (perf_model_text(file, "on", value, sizeof(on), on) != 0)) {
        return -1;
    }
    for (layer = 0; layer < num_layers; ++layer) {
        if ((on[0] == '\0') || (strchr(on, pattern[layer % strlen(pattern)]) != NULL)) {
            component->layers[component->num_layers++] = (uint16_t)layer;
        }
    }
    if (component->num_layers == 0) {
        return perf_model_error(file, "on", value, "letters of the model's pattern");
    }
    return 0;
}

static int perf_component_read(const perf_model_file_t *file, json_object *object,
                               const char *pattern, uint32_t num_layers,
                               perf_component_t *component)
{
    if (!json_object_is_type(object, json_type_object)) {
        return perf_model_error(file, "this", object, "an object");
    }
    component->parts = component->compress = component->outer = component->pad = 1;
    if ((perf_model_members_of(file, object, perf_component_members, component) != 0) ||
        (perf_component_groups(file, object, component) != 0) ||
        (perf_component_keep(file, object, component) != 0) ||
        (perf_component_layers(file, object, pattern, num_layers, component) != 0)) {
        return -1;
    }
    if (component->name[0] == '\0') {
        return perf_model_error(file, "name", NULL, "a text");
    }
    return ((component->dim == 0) == (component->bytes == 0))
               ? perf_model_error(file, "dim", NULL, "it or bytes, one of the two")
               : 0;
}

static int perf_model_components(perf_model_file_t *file, json_object *object,
                                 const char *pattern, perf_model_t *model)
{
    json_object *array;
    size_t i, num;

    if (!json_object_object_get_ex(object, "components", &array) ||
        !json_object_is_type(array, json_type_array) ||
        ((num = json_object_array_length(array)) < 1) || (num > PERF_MAX_COMPONENTS)) {
        return perf_model_error(file, "components", NULL,
                                "a list of 1 to 8 objects in brackets");
    }
    for (i = 0; i < num; ++i) {
        snprintf(file->where, sizeof(file->where), "components[%zu]", i);
        if (perf_component_read(file, json_object_array_get_idx(array, i), pattern,
                                model->num_layers, &model->components[i]) != 0) {
            return -1;
        }
    }
    model->num_components = (unsigned)num;
    return (model->components[0].keep == PERF_KEEP_ALL)
               ? 0
               : perf_model_error(file, "window", NULL,
                                  "components that keep every token to come first");
}

static int perf_model_fill(perf_model_file_t *file, json_object *object,
                           perf_model_t *model)
{
    char pattern[PERF_MAX_LAYERS + 1] = "-";
    json_object *value;

    model->tp = 8;
    model->block_tokens = 16;
    strcpy(model->dtype, "bf16");
    if (!json_object_is_type(object, json_type_object)) {
        return perf_model_error(file, "the file", object, "an object in braces");
    }
    if (perf_model_members_of(file, object, perf_model_members, model) != 0) {
        return -1;
    }
    if ((model->num_layers == 0) || (model->name[0] == '\0')) {
        return perf_model_error(file, "layers", NULL, "name and layers");
    }
    if (json_object_object_get_ex(object, "pattern", &value) &&
        (perf_model_text(file, "pattern", value, sizeof(pattern), pattern) != 0)) {
        return -1;
    }
    return perf_model_components(file, object, pattern, model);
}

static int perf_model_read_file(const char *path, perf_model_t *model_p)
{
    perf_model_file_t file = {.path = path};
    perf_model_t *model = calloc(1, sizeof(*model));
    json_object *object = json_object_from_file(path);
    int ret = -1;

    if (object == NULL) {
        perf_error("model '%s' cannot be read: %s", path, json_util_get_last_err());
    } else if (model == NULL) {
        perf_error("no memory for model '%s'", path);
    } else {
        ret = perf_model_fill(&file, object, model);
    }
    if (ret == 0) {
        *model_p = *model;
    }
    json_object_put(object);
    free(model);
    return ret;
}

/* ---- Finding --------------------------------------------------------------------- */

static bool perf_folder_exists(const char *folder)
{
    return access(folder, X_OK) == 0;
}

/* The program's own folder and a way from there; the build tree's, or beside bin. */
static bool perf_models_beside(const char *way, char *folder, size_t size)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    if (length <= 0) {
        return false;
    }
    program[length] = '\0';
    slash = strrchr(program, '/');
    *slash = '\0';
    return (snprintf(folder, size, "%s/%s", program, way) < (int)size) &&
           perf_folder_exists(folder);
}

static void perf_models_folder(char *folder, size_t size)
{
    static const char *const ways[] = {"../models", "../../models",
                                       "../share/ucx-mori/models"};
    const char *named = getenv("MORI_KV_PERF_MODELS");
    size_t i;

    if (named != NULL) {
        snprintf(folder, size, "%s", named);
        return;
    }
    for (i = 0; i < sizeof(ways) / sizeof(ways[0]); ++i) {
        if (perf_models_beside(ways[i], folder, size)) {
            return;
        }
    }
    snprintf(folder, size, "%s", PERF_MODELS_DIR);
}

static int perf_model_is_file(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');

    return (dot != NULL) && (dot != entry->d_name) && (strcmp(dot, ".json") == 0);
}

static int perf_models_scan(char *folder, size_t size, struct dirent ***entries_p)
{
    perf_models_folder(folder, size);
    return scandir(folder, entries_p, perf_model_is_file, alphasort);
}

void perf_model_list(void (*visit)(void *arg, const char *name), void *arg)
{
    char folder[PATH_MAX];
    struct dirent **entries;
    int i, num = perf_models_scan(folder, sizeof(folder), &entries);

    for (i = 0; i < num; ++i) {
        *strrchr(entries[i]->d_name, '.') = '\0';
        visit(arg, entries[i]->d_name);
        free(entries[i]);
    }
    if (num >= 0) {
        free(entries);
    }
}

typedef struct perf_model_search {
    const char *name;
    char found[256];
    char known[1024];
    size_t used;
} perf_model_search_t;

static void perf_model_compare(void *arg, const char *name)
{
    perf_model_search_t *search = arg;

    if (strcasecmp(search->name, name) == 0) {
        snprintf(search->found, sizeof(search->found), "%s", name);
    }
    if (search->used < sizeof(search->known)) {
        search->used += (size_t)snprintf(search->known + search->used,
                                         sizeof(search->known) - search->used, "%s%s",
                                         (search->used > 0) ? ", " : "", name);
    }
}

int perf_model_read(const char *name, perf_model_t *model_p)
{
    perf_model_search_t search = {.name = name};
    char folder[PATH_MAX], path[PATH_MAX + 264];

    if (strchr(name, '/') != NULL) {
        return perf_model_read_file(name, model_p);
    }
    perf_model_list(perf_model_compare, &search);
    perf_models_folder(folder, sizeof(folder));
    if (search.found[0] == '\0') {
        perf_error("model '%s' is not known in %s; expected a file's path with a "
                   "slash, or one of %s",
                   name, folder, (search.used > 0) ? search.known : "none");
        return -1;
    }
    snprintf(path, sizeof(path), "%s/%s.json", folder, search.found);
    return perf_model_read_file(path, model_p);
}
