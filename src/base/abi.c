/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/abi.h"

#include <stddef.h>
#include <string.h>

#define MKV_TEXT_OF(_number) #_number
#define MKV_VERSION_TEXT(_major, _minor, _patch)                                       \
    MKV_TEXT_OF(_major) "." MKV_TEXT_OF(_minor) "." MKV_TEXT_OF(_patch)

const char *mkv_version_string(void)
{
    return MKV_VERSION_TEXT(MKV_API_MAJOR, MKV_API_MINOR, MKV_API_PATCH);
}

/* ---- Structures ------------------------------------------------------------------ */

#define MKV_UP_TO(_type, _last) (offsetof(_type, _last) + sizeof(((_type *)0)->_last))

/** @param _last  Last member of the structure in version 0.1, or in the version that
 *  adds the structure. */
#define MKV_STRUCT(_name, _last, ...)                                                  \
    const mkv_struct_t mkv_struct_##_name = {.name = #_name,                           \
                                             .known = sizeof(mkv_##_name##_t),         \
                                             .minimum =                                \
                                                 MKV_UP_TO(mkv_##_name##_t, _last),    \
                                             .reserved = {__VA_ARGS__}}

#define MKV_RESERVED(_type, _member)                                                   \
    {#_member, offsetof(_type, _member), sizeof(((_type *)0)->_member)}

MKV_STRUCT(open_params, accept_arg, MKV_RESERVED(mkv_open_params_t, topology.reserved),
           MKV_RESERVED(mkv_open_params_t, reserved));
MKV_STRUCT(region, shard_size, {NULL, 0, 0});
MKV_STRUCT(peer_attr, slow_text, {NULL, 0, 0});
MKV_STRUCT(map_params, num_components, MKV_RESERVED(mkv_map_params_t, reserved));
MKV_STRUCT(map_attr, reserved, {NULL, 0, 0});
MKV_STRUCT(plan_attr, memory, {NULL, 0, 0});
MKV_STRUCT(xfer_params, reserved, MKV_RESERVED(mkv_xfer_params_t, flags),
           MKV_RESERVED(mkv_xfer_params_t, reserved));
MKV_STRUCT(sel, reserved_end, MKV_RESERVED(mkv_sel_t, reserved),
           MKV_RESERVED(mkv_sel_t, reserved_end));
MKV_STRUCT(gate, value, {NULL, 0, 0});
MKV_STRUCT(xfer_attr, quiet_ns, {NULL, 0, 0});
MKV_STRUCT(leg_attr, waiting_for, {NULL, 0, 0});
MKV_STRUCT(stats, blocks_held, {NULL, 0, 0});
MKV_STRUCT(event, op, {NULL, 0, 0});
MKV_STRUCT(op_params, user_data, {NULL, 0, 0});
MKV_STRUCT(op_attr, may_arrive, {NULL, 0, 0});

/* Offset of the first byte that is not zero, or size if there is none */
static size_t mkv_find_set(const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    size_t i;

    for (i = 0; (i < size) && (bytes[i] == 0); ++i) {
    }
    return i;
}

static mkv_status_t mkv_struct_check_size(const mkv_log_t *log,
                                          const mkv_struct_t *type, size_t size)
{
    return (size >= type->minimum)
               ? MKV_OK
               : mkv_error(log, MKV_ERR_INVALID,
                           "%s: size is %zu, expected sizeof(mkv_%s_t), %zu or more",
                           type->name, size, type->name, type->minimum);
}

static mkv_status_t mkv_struct_check_known(const mkv_log_t *log,
                                           const mkv_struct_t *type, const void *given,
                                           size_t size)
{
    const char *bytes = given;
    size_t i, at;

    for (i = 0; (i < 3) && (type->reserved[i].name != NULL); ++i) {
        if (mkv_find_set(bytes + type->reserved[i].offset, type->reserved[i].size) <
            type->reserved[i].size) {
            return mkv_error(log, MKV_ERR_UNSUPPORTED,
                             "%s: %s is set, which libmorikv %s does not support",
                             type->name, type->reserved[i].name, mkv_version_string());
        }
    }
    if (size <= type->known) {
        return MKV_OK;
    }
    at = type->known + mkv_find_set(bytes + type->known, size - type->known);
    return (at == size)
               ? MKV_OK
               : mkv_error(
                     log, MKV_ERR_UNSUPPORTED,
                     "%s: the member at byte %zu of %zu is set, which libmorikv %s "
                     "does not support: its structure has %zu bytes",
                     type->name, at, size, mkv_version_string(), type->known);
}

mkv_status_t mkv_struct_read(const mkv_log_t *log, const mkv_struct_t *type,
                             const void *given, void *copy)
{
    size_t size = *(const size_t *)given;
    mkv_status_t status = mkv_struct_check_size(log, type, size);

    if (status == MKV_OK) {
        status = mkv_struct_check_known(log, type, given, size);
    }
    if (status != MKV_OK) {
        return status;
    }
    size = (size < type->known) ? size : type->known;
    memcpy(copy, given, size);
    memset((char *)copy + size, 0, type->known - size);
    *(size_t *)copy = type->known;
    return MKV_OK;
}

void mkv_struct_write_sized(const mkv_struct_t *type, const void *values, size_t size,
                            void *given)
{
    size_t common = (size < type->known) ? size : type->known;

    memcpy(given, values, common);
    memset((char *)given + common, 0, size - common);
}

mkv_status_t mkv_struct_write(const mkv_log_t *log, const mkv_struct_t *type,
                              const void *values, void *given)
{
    size_t size = *(const size_t *)given;
    mkv_status_t status = mkv_struct_check_size(log, type, size);

    if (status == MKV_OK) {
        mkv_struct_write_sized(type, values, size, given);
        *(size_t *)given = size;
    }
    return status;
}

static mkv_status_t mkv_element_unknown(const mkv_log_t *log, const char *array,
                                        size_t index, const char *member)
{
    return mkv_error(log, MKV_ERR_UNSUPPORTED,
                     "%s[%zu].%s is set, which libmorikv %s does not support", array,
                     index, member, mkv_version_string());
}

mkv_status_t mkv_units_check_reserved(const mkv_log_t *log, const mkv_units_t *units,
                                      size_t num_units)
{
    size_t i;

    for (i = 0; i < num_units; ++i) {
        if ((units[i].flags | units[i].reserved[0] | units[i].reserved[1]) != 0) {
            return mkv_element_unknown(log, "units", i,
                                       (units[i].flags != 0) ? "flags" : "reserved");
        }
    }
    return MKV_OK;
}
