/* SPDX-License-Identifier: BSD-3-Clause */

/* No public structure has a hole or a padded end: a member that comes later would lie
 * where an older library does not look. */

#include <ucp/api/ucp_def.h>
#include <ucs/memory/memory_type.h>

#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic error "-Wpadded"
#include "src/morikv.h"

int main(void)
{
    return 0;
}
