/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/fake/verbs/fake_verbs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Disturb the wire of other processes: FAKE_VERBS_WIRE and FAKE_VERBS_DEVICES as
 * theirs.
 *
 *   verbs_ctl link DEVICE up|down
 *   verbs_ctl lose DEVICE on|off
 *   verbs_ctl remove DEVICE
 *   verbs_ctl bytes DEVICE         prints bytes sent and bytes read
 */

static int usage(void)
{
    fprintf(stderr, "verbs_ctl: expected link DEVICE up|down, lose DEVICE on|off, "
                    "remove DEVICE or bytes DEVICE\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t out, in;

    if (getenv("FAKE_VERBS_WIRE") == NULL) {
        fprintf(stderr, "verbs_ctl: FAKE_VERBS_WIRE is not set\n");
        return 2;
    }

    if ((argc == 4) && (strcmp(argv[1], "link") == 0)) {
        fake_verbs_link(argv[2], strcmp(argv[3], "up") == 0);
    } else if ((argc == 4) && (strcmp(argv[1], "lose") == 0)) {
        fake_verbs_lose_device(argv[2], strcmp(argv[3], "on") == 0);
    } else if ((argc == 3) && (strcmp(argv[1], "remove") == 0)) {
        fake_verbs_remove(argv[2]);
    } else if ((argc == 3) && (strcmp(argv[1], "bytes") == 0)) {
        fake_verbs_wire_bytes(argv[2], &out, &in);
        printf("%" PRIu64 " %" PRIu64 "\n", out, in);
        fflush(stdout); /* before a sanitizer's report at the end */
    } else {
        return usage();
    }

    return 0;
}
