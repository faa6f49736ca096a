/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The conformance suite: one list of cases that every UCT transport must pass as
 * far as it claims the capability. Loads UCX, and through UCX_PLUGIN_PATH the
 * module, as an application does.
 */

#include "test/conformance/ct.h"
#include "test/support/mkv_hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CT_MAX_CASES 256
#define CT_MAX_VARIANTS 8


static const ct_variant_t ct_all_variants[] = {
    {"local", 0, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST},
    {"local/rocm", 0, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM},
    {"peer", 1, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_HOST},
    {"peer/rocm", 1, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_ROCM},
    {"peer/host-rocm", 1, UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_ROCM},
    {"peer/rocm-host", 1, UCS_MEMORY_TYPE_ROCM, UCS_MEMORY_TYPE_HOST},
};

static const ct_case_t *const ct_all_cases[] = {
    ct_cases_query,   ct_cases_rma,    ct_cases_list,  ct_cases_am,
    ct_cases_message, ct_cases_atomic, ct_cases_flow,  ct_cases_event,
    ct_cases_key,     ct_cases_limit,  ct_cases_fault, ct_cases_contract};


/* Subject of a run; written once by main() before anything is forked. */
static struct {
    ct_target_name_t name;
    const char *filter;
    const char *variant_filter;
    const ct_case_t *cases[CT_MAX_CASES];
    int num_cases;
    const ct_variant_t *variants[CT_MAX_VARIANTS];
    int num_variants;
    int is_one_process;            /* no process for each case, for slow machines */
    ct_t *shared[CT_MAX_VARIANTS]; /* open connections, one a variant */
} ct_run;


/* The reason why a case cannot run here, or NULL. */
static const char *ct_reason_to_skip(const ct_t *ct, const ct_case_t *c)
{
    static const struct {
        uint64_t flag;
        const char *name;
    } names[] = {
        {UCT_IFACE_FLAG_AM_SHORT, "short active messages"},
        {UCT_IFACE_FLAG_AM_BCOPY, "buffered active messages"},
        {UCT_IFACE_FLAG_AM_ZCOPY, "zero-copy active messages"},
        {UCT_IFACE_FLAG_PUT_SHORT, "short put"},
        {UCT_IFACE_FLAG_PUT_BCOPY, "buffered put"},
        {UCT_IFACE_FLAG_PUT_ZCOPY, "zero-copy put"},
        {UCT_IFACE_FLAG_GET_SHORT, "short get"},
        {UCT_IFACE_FLAG_GET_BCOPY, "buffered get"},
        {UCT_IFACE_FLAG_GET_ZCOPY, "zero-copy get"},
        {UCT_IFACE_FLAG_PENDING, "pending requests"},
        {UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE, "errors on peer failure"},
        {UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM, "errors on bad remote memory"},
        {UCT_IFACE_FLAG_EP_CHECK, "endpoint checks"},
    };
    const uint64_t md_flags = ct->side.md_attr.cap.flags;
    static char text[128];
    uint64_t missing = c->flags & ~ct->side.attr.cap.flags;
    size_t i;

    for (i = 0; i < CT_ARRAY_SIZE(names); ++i) {
        if (missing & names[i].flag) {
            snprintf(text, sizeof(text), "the transport claims no %s", names[i].name);
            return text;
        }
    }

    if (missing != 0) {
        return "the transport does not claim the capability";
    }
    if (c->v2_flags & ~ct->side.v2_flags) {
        return "the transport claims no lists";
    }
    if (c->event_flags & ~ct->side.attr.cap.event_flags) {
        return "the transport claims no such events";
    }
    if ((c->traits & CT_TRAIT_OTHER_PROCESS) && !ct->variant->is_other_process) {
        return "needs another process";
    }
    if ((c->traits & CT_TRAIT_RKEY) && !(md_flags & UCT_MD_FLAG_NEED_RKEY)) {
        return "the memory domain needs no keys";
    }
    if ((c->traits & CT_TRAIT_REG) && !(md_flags & UCT_MD_FLAG_REG)) {
        return "the memory domain registers no memory";
    }
    if ((c->traits & CT_TRAIT_INVALIDATE) && !(md_flags & CT_MD_FLAG_INVALIDATE_RMA)) {
        return "the memory domain cannot invalidate keys";
    }
    if ((c->traits & CT_TRAIT_CHECKED_KEYS) && !ct->is_checked) {
        return "this transport trusts the bytes of a key";
    }
    if ((c->traits & CT_TRAIT_DEVICE_MEM) &&
        (ct->variant->remote_type == UCS_MEMORY_TYPE_HOST)) {
        return "only for memory of a device";
    }
    return NULL;
}

/* The connection of a case: a fresh one, or the one that all cases share. */
static ct_t *ct_begin(int variant_index)
{
    ct_t **shared = &ct_run.shared[variant_index];
    ucs_status_t status;

    /* A case that failed left its connection in an unknown state. */
    if ((*shared != NULL) && (*shared)->is_running) {
        mkv_proc_cleanup(&(*shared)->peer);
        *shared = NULL;
    }

    if (*shared == NULL) {
        *shared = calloc(1, sizeof(**shared));
        status = ct_open(*shared, &ct_run.name, ct_run.variants[variant_index]);
        ck_assert_msg(status == UCS_OK, "%s: %s", (*shared)->why,
                      ucs_status_string(status));
    }

    (*shared)->is_running = 1;
    return *shared;
}

static void ct_end(int variant_index)
{
    ct_t *ct = ct_run.shared[variant_index];

    if (ct_run.is_one_process && !ct->is_hurt && (ct->side.events.num_ep_errors == 0)) {
        ct_reset(ct);
        ct->is_running = 0;
        return;
    }

    ct_close(ct);
    free(ct);
    ct_run.shared[variant_index] = NULL;
}

static void ct_run_case(const ct_case_t *c, int variant_index)
{
    const char *reason;
    char text[sizeof(((ct_t *)NULL)->covered)];
    char title[128];
    ct_t *ct;

    snprintf(title, sizeof(title), "%s %s %s", ct_run.name.tl_name,
             ct_run.variants[variant_index]->name, c->name);
    ct = ct_begin(variant_index);
    reason = ct_reason_to_skip(ct, c);
    if (reason == NULL) {
        c->run(ct);
        reason = (ct->skip[0] != '\0') ? ct->skip : NULL;
    }

    snprintf(text, sizeof(text), "%s", (reason != NULL) ? reason : ct->covered);
    ct_end(variant_index);
    if (reason != NULL) {
        ck_assert(!mkv_test_skip("capability", title, "%s", text));
    } else {
        mkv_test_pass(title, "%s", text);
    }
}

START_TEST(transport_does_as_it_claims)
{
    ct_run_case(ct_run.cases[_i / CT_MAX_VARIANTS], _i % CT_MAX_VARIANTS);
}
END_TEST

/* Find out in a child process which variants this machine and transport can run. */
static int ct_probe(int fd, void *arg)
{
    const ct_variant_t *variant = arg;
    ct_t *ct = calloc(1, sizeof(*ct));
    ct_msg_t msg = {.cmd = CT_CMD_INFO};

    msg.status = ct_open(ct, &ct_run.name, variant);
    snprintf(msg.text, sizeof(msg.text), "%.255s", ct->why);
    if (msg.status == UCS_OK) {
        if (!ct_side_can_use(&ct->side, variant->local_type) ||
            !ct_side_can_use(&ct->side, variant->remote_type)) {
            msg.status = UCS_ERR_UNSUPPORTED;
            snprintf(msg.text, sizeof(msg.text), "no such memory: %.200s",
                     (mkv_hip_num_devices() > 0) ? "the memory domain takes none"
                                                 : mkv_hip_why());
        }
        ct_close(ct);
    }

    free(ct);
    mkv_proc_send(fd, &msg, sizeof(msg));
    return MKV_TEST_EXIT_OK;
}

static ucs_status_t ct_probe_variant(const ct_variant_t *variant, ct_msg_t *msg)
{
    mkv_proc_t proc;

    if (mkv_proc_fork(&proc, ct_probe, (void *)variant) != 0) {
        return UCS_ERR_NO_MEMORY;
    }

    if (mkv_proc_recv(proc.fd, msg, sizeof(*msg), -1) <= 0) {
        msg->status = UCS_ERR_IO_ERROR;
        snprintf(msg->text, sizeof(msg->text), "opening it ended the process");
    }

    mkv_proc_wait(&proc);
    mkv_proc_cleanup(&proc);
    return msg->status;
}

/* A filter that begins with a slash is the end of names: /rocm, of GPU memory alone. */
static int ct_variant_is_wanted(const char *name, const char *filter)
{
    const char *end = (filter[0] == '/') ? strchr(name, '/') : name;

    return (end != NULL) && (strcmp(end, filter) == 0);
}

/* Returns the number of failures: variants that broke instead of being absent. */
static int ct_choose_variants(void)
{
    ucs_status_t status;
    int num_failed = 0;
    char title[128];
    ct_msg_t msg;
    size_t i;

    for (i = 0; i < CT_ARRAY_SIZE(ct_all_variants); ++i) {
        const ct_variant_t *variant = &ct_all_variants[i];

        if ((ct_run.variant_filter != NULL) &&
            !ct_variant_is_wanted(variant->name, ct_run.variant_filter)) {
            continue;
        }

        status = ct_probe_variant(variant, &msg);
        snprintf(title, sizeof(title), "%s %s", ct_run.name.tl_name, variant->name);
        if (status == UCS_OK) {
            ct_run.variants[ct_run.num_variants++] = variant;
        } else if (status == UCS_ERR_NO_DEVICE) {
            num_failed += mkv_test_skip(ct_run.name.tl_name, title, "%s", msg.text);
            break;
        } else if ((status == UCS_ERR_UNSUPPORTED) || (status == UCS_ERR_UNREACHABLE)) {
            num_failed += mkv_test_skip(variant->name, title, "%s", msg.text);
        } else {
            printf("FAIL %s: %s: %s\n", title, msg.text, ucs_status_string(status));
            ++num_failed;
        }
    }

    return num_failed;
}

static void ct_choose_cases(void)
{
    const ct_case_t *c;
    size_t i;

    for (i = 0; i < CT_ARRAY_SIZE(ct_all_cases); ++i) {
        for (c = ct_all_cases[i]; c->name != NULL; ++c) {
            if ((ct_run.filter == NULL) || (strstr(c->name, ct_run.filter) != NULL)) {
                ct_run.cases[ct_run.num_cases++] = c;
            }
        }
    }
}

static int ct_run_all(void)
{
    Suite *suite = suite_create(ct_run.name.tl_name);
    SRunner *runner = srunner_create(suite);
    char **titles = calloc((size_t)ct_run.num_cases * CT_MAX_VARIANTS, sizeof(*titles));
    int num_titles = 0, num_failed, i, j;
    TCase *tcase;

    for (i = 0; i < ct_run.num_cases; ++i) {
        for (j = 0; j < ct_run.num_variants; ++j) {
            if (((ct_run.cases[i]->traits & CT_TRAIT_LOCAL) && (j > 0))) {
                continue;
            }

            /* Check keeps the pointer for its messages */
            if (asprintf(&titles[num_titles], "%s [%s]", ct_run.cases[i]->name,
                         ct_run.variants[j]->name) < 0) {
                exit(MKV_TEST_EXIT_HARD);
            }
            tcase = tcase_create(titles[num_titles++]);
            tcase_set_timeout(tcase, 2.0 * mkv_test_limit_ms() / 1000);
            tcase_add_loop_test(tcase, transport_does_as_it_claims,
                                i * CT_MAX_VARIANTS + j, i * CT_MAX_VARIANTS + j + 1);
            suite_add_tcase(suite, tcase);
        }
    }

    if (ct_run.is_one_process) {
        srunner_set_fork_status(runner, CK_NOFORK);
    }
    srunner_run_all(runner, CK_NORMAL);
    num_failed = mkv_check_failed(runner);
    srunner_free(runner);
    while (num_titles > 0) {
        free(titles[--num_titles]);
    }
    free(titles);
    return num_failed;
}

/* Peers must be forked before this process initialises UCX: one for each process
 * variant, and one more for each case that kills its own or fails. */
static int ct_fork_peers(void)
{
    int count = 0, i;

    for (i = 0; i < ct_run.num_variants; ++i) {
        count += ct_run.variants[i]->is_other_process ? 12 : 0;
    }

    return ct_prefork(&ct_run.name, count);
}

static void ct_close_shared(void)
{
    int i;

    for (i = 0; i < ct_run.num_variants; ++i) {
        if ((ct_run.shared[i] != NULL) && !ct_run.shared[i]->is_running) {
            ct_close(ct_run.shared[i]);
            free(ct_run.shared[i]);
        }
    }
    ct_prefork_cleanup();
}

static int ct_usage(const char *program)
{
    fprintf(stderr,
            "usage: %s -t TRANSPORT [-d DEVICE] [-D DEVICE] [-v VARIANT]\n"
            "          [-r PART_OF_A_NAME] [-1]\n"
            "-D: the device of the other process\n"
            "-1: all cases in one process and over one connection, for slow machines\n"
            "variants: local local/rocm peer peer/rocm peer/host-rocm peer/rocm-host\n",
            program);
    return MKV_TEST_EXIT_HARD;
}

int main(int argc, char **argv)
{
    int num_failed, c;

    mkv_test_init();
    ct_run.name.tl_name = getenv("MKV_CONFORMANCE_TL");
    while ((c = getopt(argc, argv, "t:d:D:v:r:1")) != -1) {
        switch (c) {
        case 't':
            ct_run.name.tl_name = optarg;
            break;
        case 'd':
            ct_run.name.dev_name = optarg;
            break;
        case 'D':
            ct_run.name.peer_dev_name = optarg;
            break;
        case 'v':
            ct_run.variant_filter = optarg;
            break;
        case 'r':
            ct_run.filter = optarg;
            break;
        case '1':
            ct_run.is_one_process = 1;
            break;
        default:
            return ct_usage(argv[0]);
        }
    }

    if ((optind != argc) || (ct_run.name.tl_name == NULL)) {
        return ct_usage(argv[0]);
    }

    ct_choose_cases();
    num_failed = ct_choose_variants();
    if (ct_run.is_one_process && (ct_fork_peers() != 0)) {
        perror("fork");
        return MKV_TEST_EXIT_HARD;
    }

    if (ct_run.num_variants > 0) {
        num_failed += ct_run_all();
    }
    ct_close_shared();

    return mkv_test_exit_status(num_failed);
}
