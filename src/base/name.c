/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/name.h"

#include "wire/codec.h"
#include "wire/utf8.h"

#include <stdio.h>
#include <string.h>

#define MKV_NAME_HASH_SIZE 10u /* "~", 8 digits and NUL */

void mkv_name_set(char *name, const char *given)
{
    size_t length = strlen(given), kept;

    if (mkv_utf8_copy(name, MKV_NAME_SIZE, given, length)) {
        return;
    }
    (void)mkv_utf8_copy(name, MKV_NAME_SIZE - MKV_NAME_HASH_SIZE + 1, given, length);
    kept = strlen(name);
    snprintf(name + kept, MKV_NAME_SIZE - kept, "~%08x",
             (unsigned)mkv_wire_checksum(length, given, length));
}
