/* SPDX-License-Identifier: BSD-3-Clause */

#include "test/support/ct_side.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>


void ct_side_find_module(void)
{
    const char *build = getenv("MKV_BUILD_DIR");
    uct_component_h *components;
    unsigned num_components;
    char path[4096];

    if (getenv("UCX_PLUGIN_PATH") == NULL) {
        snprintf(path, sizeof(path), "%s/.libs", (build != NULL) ? build : ".");
        if (ucs_global_opts_set_value("PLUGIN_PATH", path) != UCS_OK) {
            fprintf(stderr, "UCX takes no PLUGIN_PATH: set UCX_PLUGIN_PATH=%s\n", path);
            exit(MKV_TEST_EXIT_HARD);
        }
    }
    if (uct_query_components(&components, &num_components) == UCS_OK) {
        uct_release_component_list(components);
    }
}

static ucs_status_t ct_side_on_ep_error(void *arg, uct_ep_h ep, ucs_status_t status)
{
    ct_side_events_t *events = arg;

    ++events->num_ep_errors;
    events->ep_status = status;
    events->ep = ep;
    return UCS_OK;
}

static void ct_side_on_async_event(void *arg, unsigned flags)
{
    ct_side_events_t *events = arg;

    (void)flags;
    ++events->num_async;
}

static size_t ct_side_alignment, ct_side_align_offset;

void ct_side_set_alignment(size_t alignment, size_t offset)
{
    ct_side_alignment = alignment;
    ct_side_align_offset = offset;
}

static ucs_status_t ct_side_open_iface(ct_side_t *side, const char *tl_name)
{
    uct_iface_params_t params;
    uct_iface_config_t *config;
    ucs_status_t status;

    status = uct_md_iface_config_read(side->md, tl_name, NULL, NULL, &config);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_md_iface_config_read(%s): %s",
                 tl_name, ucs_status_string(status));
        return status;
    }

    memset(&params, 0, sizeof(params));
    params.field_mask =
        UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE |
        UCT_IFACE_PARAM_FIELD_ERR_HANDLER | UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
        UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS | UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_CB |
        UCT_IFACE_PARAM_FIELD_ASYNC_EVENT_ARG;
    params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
    params.mode.device.tl_name = tl_name;
    params.mode.device.dev_name = side->dev_name;
    params.err_handler = ct_side_on_ep_error;
    params.err_handler_arg = &side->events;
    params.err_handler_flags = UCT_CB_FLAG_ASYNC;
    params.async_event_cb = ct_side_on_async_event;
    params.async_event_arg = &side->events;
    if (ct_side_alignment != 0) {
        params.field_mask |=
            UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT | UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
        params.am_alignment = ct_side_alignment;
        params.am_align_offset = ct_side_align_offset;
    }

    status = uct_iface_open(side->md, side->worker, &params, config, &side->iface);
    uct_config_release(config);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_iface_open(%s/%s): %s", tl_name,
                 side->dev_name, ucs_status_string(status));
    }
    return status;
}

/* Look for the transport in one domain; the domain stays open if it has it. */
static ucs_status_t ct_side_try_md(ct_side_t *side, const char *md_name,
                                   const ct_target_name_t *name)
{
    uct_tl_resource_desc_t *tls;
    uct_md_config_t *config;
    ucs_status_t status;
    unsigned num_tls, i;

    status = uct_md_config_read(side->component, NULL, NULL, &config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_md_open(side->component, md_name, config, &side->md);
    uct_config_release(config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_md_query_tl_resources(side->md, &tls, &num_tls);
    if (status == UCS_OK) {
        status = UCS_ERR_NO_DEVICE;
        for (i = 0; (i < num_tls) && (status != UCS_OK); ++i) {
            if ((strcmp(tls[i].tl_name, name->tl_name) == 0) &&
                ((name->dev_name == NULL) ||
                 (strcmp(tls[i].dev_name, name->dev_name) == 0))) {
                strcpy(side->dev_name, tls[i].dev_name);
                status = UCS_OK;
            }
        }
        uct_release_tl_resource_list(tls);
    }

    if (status != UCS_OK) {
        uct_md_close(side->md);
        side->md = NULL;
    }
    return status;
}

static ucs_status_t ct_side_try_component(ct_side_t *side, const ct_target_name_t *name)
{
    uct_component_attr_t attr = {.field_mask =
                                     UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};
    ucs_status_t status;
    unsigned i;

    status = uct_component_query(side->component, &attr);
    if ((status != UCS_OK) || (attr.md_resource_count == 0)) {
        return UCS_ERR_NO_DEVICE;
    }

    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    status = uct_component_query(side->component, &attr);
    if (status == UCS_OK) {
        status = UCS_ERR_NO_DEVICE;
    }
    for (i = 0; (i < attr.md_resource_count) && (status == UCS_ERR_NO_DEVICE); ++i) {
        if (ct_side_try_md(side, attr.md_resources[i].md_name, name) == UCS_OK) {
            status = UCS_OK;
        }
    }

    free(attr.md_resources);
    return status;
}

static ucs_status_t ct_side_find_md(ct_side_t *side, const ct_target_name_t *name)
{
    uct_component_h *components;
    unsigned num_components, i;
    ucs_status_t status;

    status = uct_query_components(&components, &num_components);
    if (status != UCS_OK) {
        return status;
    }

    status = UCS_ERR_NO_DEVICE;
    for (i = 0; (i < num_components) && (status != UCS_OK); ++i) {
        side->component = components[i];
        status = ct_side_try_component(side, name);
    }

    uct_release_component_list(components);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "no component of this UCX offers %s%s%s",
                 name->tl_name, (name->dev_name != NULL) ? " on " : "",
                 (name->dev_name != NULL) ? name->dev_name : "");
    }
    return status;
}

static void ct_side_query_v2(ct_side_t *side)
{
    uct_iface_attr_v2_t attr = {.field_mask =
                                    CT_V2_FIELD_CAP_FLAGS | CT_V2_FIELD_MAX_PUT_SGL};

#if UCT_VERNO_MINOR >= 23
    attr.field_mask |= CT_V2_FIELD_MAX_GET_SGL;
#endif
    if (uct_iface_query_v2(side->iface, &attr) != UCS_OK) {
        return; /* a transport without the call has none of these */
    }

    side->v2_flags = attr.cap_flags & CT_V2_PUT_SGL;
    side->max_put_sgl = (side->v2_flags != 0) ? attr.max_put_sgl_zcopy_count : 0;
#if UCT_VERNO_MINOR >= 23
    side->v2_flags |= attr.cap_flags & CT_V2_GET_SGL;
    side->max_get_sgl =
        (side->v2_flags & CT_V2_GET_SGL) ? attr.max_get_sgl_zcopy_count : 0;
#endif
}

/* Polled: events are handled where the test progresses, and nowhere else. */
static ucs_status_t ct_side_make_worker(ct_side_t *side)
{
    ucs_status_t status = ucs_async_context_create(UCS_ASYNC_MODE_POLL, &side->async);

    if (status != UCS_OK) {
        return status;
    }

    status = uct_worker_create(side->async, UCS_THREAD_MODE_SINGLE, &side->worker);
    if (status != UCS_OK) {
        ucs_async_context_destroy(side->async);
    }
    return status;
}

static void ct_side_drop_worker(ct_side_t *side)
{
    if (!side->is_beside) {
        uct_worker_destroy(side->worker);
        ucs_async_context_destroy(side->async);
    }
}

ucs_status_t ct_side_open(ct_side_t *side, const ct_target_name_t *name)
{
    return ct_side_open_beside(side, name, NULL);
}

ucs_status_t ct_side_open_beside(ct_side_t *side, const ct_target_name_t *name,
                                 const ct_side_t *of)
{
    ucs_status_t status;

    memset(side, 0, sizeof(*side));
    status = ct_side_find_md(side, name);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_md_query(side->md, &side->md_attr);
    if (status != UCS_OK) {
        snprintf(side->why, sizeof(side->why), "uct_md_query: %s",
                 ucs_status_string(status));
        goto err_close_md;
    }

    if (of != NULL) {
        side->is_beside = 1;
        side->async = of->async;
        side->worker = of->worker;
    } else {
        status = ct_side_make_worker(side);
        if (status != UCS_OK) {
            goto err_close_md;
        }
    }

    status = ct_side_open_iface(side, name->tl_name);
    if (status != UCS_OK) {
        goto err_drop_worker;
    }

    uct_iface_progress_enable(side->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_iface_query(side->iface, &side->attr);
    ct_side_query_v2(side);
    return UCS_OK;

err_drop_worker:
    ct_side_drop_worker(side);
err_close_md:
    uct_md_close(side->md);
    return status;
}

void ct_side_close(ct_side_t *side)
{
    if (side->iface != NULL) {
        uct_iface_close(side->iface);
    }
    ct_side_drop_worker(side);
    uct_md_close(side->md);
}

int ct_side_can_use(ct_side_t *side, ucs_memory_type_t type)
{
    const uint64_t flags = side->md_attr.cap.flags;
    uint64_t usable = 0;

    /* Transports that need handles or keys move only memory that has them. */
    if (!(flags & (UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY))) {
        usable |= side->md_attr.cap.access_mem_types;
    }

    if (flags & UCT_MD_FLAG_REG) {
        usable |= side->md_attr.cap.reg_mem_types;
    }

    if (flags & UCT_MD_FLAG_ALLOC) {
        usable |= side->md_attr.cap.alloc_mem_types;
    }

    return ((usable & UCS_BIT(type)) != 0) &&
           ((type == UCS_MEMORY_TYPE_HOST) || (mkv_hip_num_devices() > 0));
}

unsigned ct_side_progress(ct_side_t *side)
{
    unsigned num_events = uct_worker_progress(side->worker);

    if (num_events == 0) {
        ucs_async_poll(side->async);
        mkv_test_pause(&side->num_empty);
    } else {
        side->num_empty = 0;
    }

    return num_events;
}

int ct_side_wait(ct_side_t *side, int (*is_done)(void *arg), void *arg)
{
    uint64_t deadline = mkv_test_now_ms() + (uint64_t)mkv_test_limit_ms();

    while (!is_done(arg)) {
        (void)ct_side_progress(side);
        if (mkv_test_now_ms() >= deadline) {
            return 0;
        }
    }

    return 1;
}
