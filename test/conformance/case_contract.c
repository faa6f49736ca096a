/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Contracts that UCX's own tests of transports check beyond uct.h: alignment of
 * messages (uct_p2p_am_alignment), a log line for each operation (uct_p2p_rma_test),
 * texts of refusals (uct_p2p_err_test), parameters of an invalidation (test_md).
 */

#include "test/conformance/ct.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/log_def.h>

#define CT_CONTRACT_SPACE 65536
#define CT_CONTRACT_LENGTH 64


/* ---- the log ---- */

/* Lines since ct_contract_listen(). */
static struct {
    ucs_log_level_t level; /* level of the user */
    unsigned num_data;
    char error[512]; /* the last one */
} ct_contract_log;

__attribute__((format(printf, 6, 0))) static ucs_log_func_rc_t ct_contract_on_line(
    const char *file, unsigned line, const char *function, ucs_log_level_t level,
    const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    ct_contract_log.num_data += level == UCS_LOG_LEVEL_TRACE_DATA;
    if (level == UCS_LOG_LEVEL_ERROR) {
        va_copy(copy, ap);
        vsnprintf(ct_contract_log.error, sizeof(ct_contract_log.error), format, copy);
        va_end(copy);
    }
    return (level <= ct_contract_log.level) ? UCS_LOG_FUNC_RC_CONTINUE
                                            : UCS_LOG_FUNC_RC_STOP;
}

static void ct_contract_listen(void)
{
    ucs_log_level_t *level = &ucs_global_opts.log_component.log_level;

    memset(&ct_contract_log, 0, sizeof(ct_contract_log));
    ct_contract_log.level = *level;
    *level = UCS_LOG_LEVEL_TRACE_DATA;
    ucs_log_push_handler(ct_contract_on_line);
}

static void ct_contract_end(void)
{
    ucs_log_pop_handler();
    ucs_global_opts.log_component.log_level = ct_contract_log.level;
}


/* ---- cases ---- */

static ucs_status_t ct_contract_open_aligned(ct_t *ct, uint64_t fields,
                                             size_t alignment, size_t offset)
{
    uct_iface_params_t params = {
        .field_mask =
            UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE | fields,
        .open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device = {.tl_name = ct->name->tl_name, .dev_name = ct->side.dev_name},
        .am_alignment = alignment,
        .am_align_offset = offset,
    };
    uct_iface_config_t *config;
    ucs_status_t status;
    uct_iface_h iface;

    ck_assert_int_eq(
        uct_md_iface_config_read(ct->side.md, ct->name->tl_name, NULL, NULL, &config),
        UCS_OK);
    status = uct_iface_open(ct->side.md, ct->side.worker, &params, config, &iface);
    uct_config_release(config);
    if (status == UCS_OK) {
        uct_iface_close(iface);
    }
    return status;
}

static void impossible_alignment_of_messages_is_refused(ct_t *ct)
{
    const uint64_t align = UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT;
    const uint64_t offset = UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;

    ck_assert_int_eq(ct_contract_open_aligned(ct, align, 0, 0), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_contract_open_aligned(ct, align, 3, 0), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_contract_open_aligned(ct, offset, 0, 11),
                     UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_contract_open_aligned(ct, align | offset, 4096, 128), UCS_OK);
    snprintf(ct->covered, sizeof(ct->covered), "0, 3, an offset alone, 4096 and 128");
}

static const struct {
    const char *name;
    ct_op_t op;
    uint64_t flag; /* flag of the interface; 0: see v2_flag */
    uint64_t v2_flag;
} ct_contract_ops[] = {
    {"short put", CT_PUT_SHORT, UCT_IFACE_FLAG_PUT_SHORT, 0},
    {"buffered put", CT_PUT_BCOPY, UCT_IFACE_FLAG_PUT_BCOPY, 0},
    {"zero-copy put", CT_PUT_ZCOPY, UCT_IFACE_FLAG_PUT_ZCOPY, 0},
    {"short get", CT_GET_SHORT, UCT_IFACE_FLAG_GET_SHORT, 0},
    {"buffered get", CT_GET_BCOPY, UCT_IFACE_FLAG_GET_BCOPY, 0},
    {"zero-copy get", CT_GET_ZCOPY, UCT_IFACE_FLAG_GET_ZCOPY, 0},
    {"list put", CT_PUT_SGL, 0, CT_V2_PUT_SGL},
    {"list get", CT_GET_SGL, 0, CT_V2_GET_SGL},
};

static void ct_contract_expect_line(ct_t *ct, ct_op_t op, const char *name)
{
    ct_piece_t piece = {.length = CT_CONTRACT_LENGTH};
    ct_remote_t remote;
    ct_mem_t local;

    ct_remote_create(ct, CT_CONTRACT_SPACE, 0, &remote);
    ck_assert_int_eq(
        ct_mem_create(&ct->side, CT_CONTRACT_SPACE, ct_op_local_type(ct, op), &local),
        UCS_OK);
    ct_warm_up(ct, op, &local, &remote);
    ct_contract_log.num_data = 0;
    ck_assert_int_eq(ct_do(ct, op, &local, &remote, &piece, 1), UCS_OK);
    ck_assert_msg(ct_contract_log.num_data > 0, "a %s leaves no line", name);
    ct_mem_destroy(&ct->side, &local);
    ct_remote_destroy(ct, &remote);
}

static void every_operation_logs_at_level_data(ct_t *ct)
{
    unsigned count = 0;
    size_t i;

    ct_contract_listen(); /* before connecting, like UCX_LOG_LEVEL */
    ct_connect(ct);
    for (i = 0; i < CT_ARRAY_SIZE(ct_contract_ops); ++i) {
        if ((ct->side.attr.cap.flags & ct_contract_ops[i].flag) ||
            (ct->side.v2_flags & ct_contract_ops[i].v2_flag)) {
            ct_contract_expect_line(ct, ct_contract_ops[i].op, ct_contract_ops[i].name);
            ++count;
        }
    }
    ct_contract_end();
    snprintf(ct->covered, sizeof(ct->covered), "%u operations", count);
}

static void refusal_of_a_short_put_gives_its_length(ct_t *ct)
{
    const size_t length = ct->side.attr.cap.put.max_short + 1;
    ct_remote_t remote;
    void *bytes;

    if (length > CT_CONTRACT_SPACE) {
        snprintf(ct->skip, sizeof(ct->skip), "short puts have no limit");
        return;
    }

    ct_connect(ct);
    ct_remote_create(ct, CT_CONTRACT_SPACE, 0, &remote);
    bytes = calloc(1, length);
    ck_assert_ptr_nonnull(bytes);
    ct_contract_listen();
    ck_assert_int_eq(uct_ep_put_short(ct->ep, bytes, (unsigned)length, remote.addr,
                                      remote.rkey.rkey),
                     UCS_ERR_INVALID_PARAM);
    ct_contract_end();
    ck_assert_msg(strstr(ct_contract_log.error, "length") != NULL, "text: %s",
                  ct_contract_log.error);
    free(bytes);
    ct_remote_destroy(ct, &remote);
    snprintf(ct->covered, sizeof(ct->covered), "%.200s", ct_contract_log.error);
}

static ucs_status_t ct_contract_invalidate(ct_t *ct, ct_mem_t *mem, ct_comp_t *comp)
{
    uct_md_mem_dereg_params_t params = {.field_mask =
                                            CT_DEREG_FIELD_MEMH | CT_DEREG_FIELD_FLAGS,
                                        .memh = mem->memh,
                                        .flags = CT_DEREG_INVALIDATE};

    if (comp != NULL) {
        params.field_mask |= CT_DEREG_FIELD_COMP;
        params.comp = &comp->uct;
    }
    return uct_md_mem_dereg_v2(ct->side.md, &params);
}

static int ct_contract_is_called(void *arg)
{
    return ((ct_comp_t *)arg)->num_calls > 0;
}

/* A key that was packed without the invalidation flag may stay in use anywhere. */
static void invalidation_needs_a_completion_and_a_key(ct_t *ct)
{
    uint8_t key[CT_MAX_DATA];
    ct_comp_t comp;
    ct_mem_t mem;

    ck_assert_int_eq(
        ct_mem_create(&ct->side, CT_CONTRACT_SPACE, ct->variant->local_type, &mem),
        UCS_OK);
    if (mem.memh == UCT_MEM_HANDLE_NULL) {
        ct_mem_destroy(&ct->side, &mem);
        snprintf(ct->skip, sizeof(ct->skip), "the domain does not register this type");
        return;
    }

    ct_comp_init(&comp);
    ck_assert_int_eq(ct_contract_invalidate(ct, &mem, NULL), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_contract_invalidate(ct, &mem, &comp), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_mem_pack(&ct->side, &mem, 0, key), UCS_OK);
    ck_assert_int_eq(ct_contract_invalidate(ct, &mem, &comp), UCS_ERR_INVALID_PARAM);
    ck_assert_int_eq(ct_mem_pack(&ct->side, &mem, CT_PACK_INVALIDATE_RMA, key), UCS_OK);
    ck_assert_int_eq(ct_contract_invalidate(ct, &mem, NULL), UCS_ERR_INVALID_PARAM);
    ck_assert_uint_eq(comp.num_calls, 0);
    ck_assert_int_eq(ct_contract_invalidate(ct, &mem, &comp), UCS_OK);
    ct_wait(ct, ct_contract_is_called, &comp, "the invalidation");
    ck_assert_uint_eq(comp.num_calls, 1);
    mem.memh = UCT_MEM_HANDLE_NULL;
    ct_mem_destroy(&ct->side, &mem);
    snprintf(ct->covered, sizeof(ct->covered), "no completion, no key, no such key");
}


const ct_case_t ct_cases_contract[] = {
    {"impossible_alignment_of_messages_is_refused", .flags = UCT_IFACE_FLAG_AM_SHORT,
     .traits = CT_TRAIT_CHECKED_KEYS | CT_TRAIT_LOCAL,
     .run = impossible_alignment_of_messages_is_refused},
    {"every_operation_logs_at_level_data", .traits = CT_TRAIT_CHECKED_KEYS,
     .run = every_operation_logs_at_level_data},
    {"refusal_of_a_short_put_gives_its_length", .flags = UCT_IFACE_FLAG_PUT_SHORT,
     .traits = CT_TRAIT_CHECKED_KEYS, .run = refusal_of_a_short_put_gives_its_length},
    {"invalidation_needs_a_completion_and_a_key",
     .traits = CT_TRAIT_INVALIDATE | CT_TRAIT_REG | CT_TRAIT_CHECKED_KEYS,
     .run = invalidation_needs_a_completion_and_a_key},
    {NULL}};
