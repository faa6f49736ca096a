/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/options.h"

#include "base/log.h"
#include "base/options_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern char **environ;

struct mkv_config {
    mkv_options_t values;
    char text[MKV_NUM_OPTS][MKV_OPTION_SIZE];
    char ignored[256]; /* variables that name no option */
};

static bool mkv_opt_parse_bool(const char *text, uint64_t *value_p)
{
    static const char *const yes[] = {"y", "yes", "1", "on", "true"};
    static const char *const no[] = {"n", "no", "0", "off", "false"};
    size_t i;

    for (i = 0; i < sizeof(yes) / sizeof(yes[0]); ++i) {
        if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
            *value_p = !strcasecmp(text, yes[i]);
            return true;
        }
    }
    return false;
}

static bool mkv_opt_parse_enum(const mkv_opt_t *opt, const char *text,
                               uint64_t *value_p)
{
    size_t i;

    for (i = 0; opt->values[i] != NULL; ++i) {
        if (!strcasecmp(text, opt->values[i])) {
            *value_p = i;
            return true;
        }
    }
    return false;
}

/* Factor of a suffix, 0 if the option does not allow it */
static uint64_t mkv_opt_factor(mkv_opt_type_t type, const char *suffix)
{
    static const struct {
        mkv_opt_type_t type;
        const char *suffix;
        uint64_t factor;
    } factors[] = {
        {MKV_OPT_SIZE, "k", 1ull << 10},  {MKV_OPT_SIZE, "m", 1ull << 20},
        {MKV_OPT_SIZE, "g", 1ull << 30},  {MKV_OPT_SIZE, "b", 1},
        {MKV_OPT_SIZE, "kb", 1ull << 10}, {MKV_OPT_SIZE, "mb", 1ull << 20},
        {MKV_OPT_SIZE, "gb", 1ull << 30}, {MKV_OPT_TIME, "ms", 1},
        {MKV_OPT_TIME, "s", 1000},        {MKV_OPT_TIME, "m", 60000},
    };
    size_t i;

    if (*suffix == '\0') {
        return 1;
    }
    for (i = 0; i < sizeof(factors) / sizeof(factors[0]); ++i) {
        if ((factors[i].type == type) && !strcasecmp(suffix, factors[i].suffix)) {
            return factors[i].factor;
        }
    }
    return 0;
}

static bool mkv_opt_parse_number(mkv_opt_type_t type, const char *text,
                                 uint64_t *value_p)
{
    uint64_t factor;
    uint64_t number;
    char *end;

    if (!strcasecmp(text, "inf")) {
        *value_p = (type == MKV_OPT_TIME) ? UINT32_MAX : UINT64_MAX;
        return true;
    }
    if (!isdigit((unsigned char)text[0])) {
        return false; /* strtoull takes a sign */
    }

    errno = 0;
    number = strtoull(text, &end, 10);
    factor = mkv_opt_factor(type, end);
    if ((errno != 0) || (factor == 0) || (number > UINT64_MAX / factor) ||
        ((type == MKV_OPT_TIME) && (number * factor > UINT32_MAX))) {
        return false;
    }

    *value_p = number * factor;
    return true;
}

static bool mkv_opt_parse(const mkv_opt_t *opt, const char *text, void *value)
{
    uint64_t number;

    switch (opt->type) {
    case MKV_OPT_BOOL:
        return mkv_opt_parse_bool(text, value);
    case MKV_OPT_ENUM:
        return mkv_opt_parse_enum(opt, text, value);
    case MKV_OPT_STRING:
        mkv_text(value, MKV_OPTION_SIZE, "%s", text);
        return true;
    default:
        if (!mkv_opt_parse_number(opt->type, text, &number) || (number < opt->min) ||
            (number > opt->max)) {
            return false;
        }
        *(uint64_t *)value = number;
        return true;
    }
}

/* "auto, xgmi or tcp" */
static const char *mkv_opt_names(const mkv_opt_t *opt, char *text, size_t size)
{
    size_t length = 0, i;

    for (i = 0; opt->values[i] != NULL; ++i) {
        mkv_text(text + length, size - length, "%s%s",
                 (i == 0) ? "" : ((opt->values[i + 1] == NULL) ? " or " : ", "),
                 opt->values[i]);
        length += strlen(text + length);
    }
    return text;
}

/* "a size from 4096 to inf, such as 64k or 1g" */
static const char *mkv_opt_range(const mkv_opt_t *opt, const char *what,
                                 const char *example, char *text, size_t size)
{
    char max[24] = "inf";

    if (opt->max != MKV_NO_LIMIT) {
        mkv_text(max, sizeof(max), "%llu", (unsigned long long)opt->max);
    }
    mkv_text(text, size, "a %s from %llu to %s%s", what, (unsigned long long)opt->min,
             max, example);
    return text;
}

/** @param [in] text Room for the result, if it depends on the option. */
static const char *mkv_opt_expected(const mkv_opt_t *opt, char *text, size_t size)
{
    switch (opt->type) {
    case MKV_OPT_BOOL:
        return "y or n";
    case MKV_OPT_SIZE:
        return mkv_opt_range(opt, "size", ", such as 64k or 1g", text, size);
    case MKV_OPT_TIME:
        return mkv_opt_range(opt, "time", ", such as 500ms, 30s or 5m", text, size);
    case MKV_OPT_ENUM:
        return mkv_opt_names(opt, text, size);
    default:
        return mkv_opt_range(opt, "number", "", text, size);
    }
}

static const mkv_opt_t *mkv_opt_find(const char *key)
{
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        if (!strcasecmp(key, mkv_opts[i].name)) {
            return &mkv_opts[i];
        }
    }
    return NULL;
}

#define MKV_KEY_SIZE 64u

/* Levenshtein distance: letters to add, drop or change to make the names equal */
static unsigned mkv_name_distance(const char *a, const char *b)
{
    unsigned row[MKV_KEY_SIZE], corner, above, best;
    size_t length = strlen(b), i, j;

    for (j = 0; j <= length; ++j) {
        row[j] = (unsigned)j;
    }
    for (i = 0; a[i] != '\0'; ++i) {
        corner = row[0]++;
        for (j = 0; j < length; ++j) {
            above = row[j + 1];
            best = corner + (a[i] != b[j]);
            best = (above + 1 < best) ? above + 1 : best;
            row[j + 1] = (row[j] + 1 < best) ? row[j] + 1 : best;
            corner = above;
        }
    }
    return row[length];
}

/* Find an option by a name with one or two wrong letters */
static const mkv_opt_t *mkv_opt_find_similar(const char *key)
{
    unsigned most = (strlen(key) < 8) ? 1 : 2;
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        if (mkv_name_distance(key, mkv_opts[i].name) <= most) {
            return &mkv_opts[i];
        }
    }
    return NULL;
}

mkv_status_t mkv_config_set(mkv_config_t *config, const char *key, const char *value)
{
    const mkv_opt_t *opt = mkv_opt_find(key), *near;
    char text[128];

    if (opt == NULL) {
        near = mkv_opt_find_similar(key);
        return mkv_error(NULL, MKV_ERR_NOTFOUND, "no option is called '%s'%s%s%s", key,
                         (near != NULL) ? "; is " : "",
                         (near != NULL) ? near->name : "",
                         (near != NULL) ? " meant?" : "");
    }
    if (strlen(value) >= sizeof(config->text[0])) {
        return mkv_error(NULL, MKV_ERR_INVALID, "%s: value is longer than %zu bytes",
                         opt->name, sizeof(config->text[0]) - 1);
    }
    if (!mkv_opt_parse(opt, value, (char *)&config->values + opt->offset)) {
        return mkv_error(NULL, MKV_ERR_INVALID, "%s: '%s' is not %s", opt->name, value,
                         mkv_opt_expected(opt, text, sizeof(text)));
    }

    strcpy(config->text[opt - mkv_opts], value);
    return MKV_OK;
}

const char *mkv_config_get(const mkv_config_t *config, const char *key)
{
    const mkv_opt_t *opt = mkv_opt_find(key);

    return (opt == NULL) ? NULL : config->text[opt - mkv_opts];
}

/* A misspelt name is an error. Other unknown names are ignored: Kubernetes puts
 * MORIKV_PORT and more of a service called "morikv" into the environment of every
 * container. */
static mkv_status_t mkv_config_unknown(mkv_config_t *config, const char *prefix,
                                       const char *key)
{
    const mkv_opt_t *near = mkv_opt_find_similar(key);
    size_t length = strlen(config->ignored);

    if (near != NULL) {
        return mkv_error(
            NULL, MKV_ERR_INVALID,
            "the environment sets %s%s, but there is no such option; is %s%s "
            "meant?",
            prefix, key, prefix, near->name);
    }
    mkv_text(config->ignored + length, sizeof(config->ignored) - length, " %s%s",
             prefix, key);
    return MKV_OK;
}

static mkv_status_t mkv_config_read_env(mkv_config_t *config, const char *prefix)
{
    char key[MKV_KEY_SIZE];
    char **env;
    const char *value;
    size_t length = strlen(prefix);
    mkv_status_t status;

    for (env = environ; *env != NULL; ++env) {
        if (strncmp(*env, prefix, length) != 0) {
            continue;
        }
        value = strchr(*env, '=');
        if (value == NULL) {
            continue;
        }
        mkv_text(key, sizeof(key), "%.*s", (int)(value - *env - length), *env + length);
        status = mkv_config_set(config, key, value + 1);
        if (status == MKV_ERR_NOTFOUND) {
            status = mkv_config_unknown(config, prefix, key);
        }
        if (status != MKV_OK) {
            return status;
        }
    }
    return MKV_OK;
}

mkv_status_t mkv_config_read(const char *prefix, mkv_config_t **config_p)
{
    mkv_config_t *config = calloc(1, sizeof(*config));
    char long_prefix[128];
    mkv_status_t status;
    size_t i;

    if (config == NULL) {
        return mkv_error(NULL, MKV_ERR_NOMEM, "no memory for the configuration");
    }

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        status = mkv_config_set(config, mkv_opts[i].name, mkv_opts[i].dfl);
        if (status != MKV_OK) {
            goto err_free;
        }
    }

    status = mkv_config_read_env(config, "MORIKV_");
    if ((status == MKV_OK) && (prefix != NULL)) {
        mkv_text(long_prefix, sizeof(long_prefix), "%s_MORIKV_", prefix);
        status = mkv_config_read_env(config, long_prefix);
    }
    if (status != MKV_OK) {
        goto err_free;
    }

    *config_p = config;
    return MKV_OK;

err_free:
    free(config);
    return status;
}

void mkv_config_release(mkv_config_t *config)
{
    free(config);
}

const char *mkv_config_ignored(const mkv_config_t *config)
{
    return config->ignored;
}

const mkv_options_t *mkv_config_options(const mkv_config_t *config)
{
    return &config->values;
}

const char *mkv_config_tls(const mkv_config_t *config)
{
    static const char *const tls[] = {"",
                                      "mori_xgmi,mori_copy,sm,tcp,self",
                                      "rocm,sm,tcp,self",
                                      "mori_rdma,mori_copy,ib,tcp,self",
                                      "sm,self,tcp",
                                      "tcp,self"};
    bool is_given = (config->values.tls[0] != '\0') || (getenv("UCX_TLS") != NULL);

    return is_given ? config->values.tls : tls[config->values.backend];
}

mkv_config_t *mkv_config_copy(const mkv_config_t *config)
{
    mkv_config_t *copy = malloc(sizeof(*copy));

    if (copy != NULL) {
        *copy = *config;
    }
    return copy;
}

void mkv_config_dump(const mkv_config_t *config,
                     void (*write)(void *arg, const char *line), void *arg)
{
    char line[MKV_OPTION_SIZE + 64];
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        mkv_text(line, sizeof(line), "%s=%s", mkv_opts[i].name, config->text[i]);
        write(arg, line);
    }
}

/* A text of several lines, one call each */
static void mkv_write_lines(const char *text,
                            void (*write)(void *arg, const char *line), void *arg)
{
    char line[256];
    size_t length;

    for (; *text != '\0'; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        mkv_text(line, sizeof(line), "    %.*s", (int)length, text);
        write(arg, line);
    }
}

void mkv_config_help(void (*write)(void *arg, const char *line), void *arg)
{
    char line[MKV_OPTION_SIZE + 64], text[128];
    size_t i;

    for (i = 0; i < MKV_NUM_OPTS; ++i) {
        mkv_text(line, sizeof(line), "MORIKV_%s=%s", mkv_opts[i].name, mkv_opts[i].dfl);
        write(arg, line);
        mkv_write_lines(mkv_opts[i].help, write, arg);
        if (mkv_opts[i].max > 0) {
            mkv_text(line, sizeof(line), "    Expected: %s.",
                     mkv_opt_expected(&mkv_opts[i], text, sizeof(text)));
            write(arg, line);
        }
    }
}
