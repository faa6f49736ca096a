/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/kv_perf/report/link.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { PERF_LINK_MAX = 16, PERF_LINK_NAME = 64, PERF_LINK_XGMI = 11 };


/* First number of a file; 0 if there is none */
static double perf_link_number(const char *path)
{
    FILE *file = fopen(path, "re");
    double number = 0;

    if (file == NULL) {
        return 0;
    }
    if ((fscanf(file, "%lf", &number) != 1) || (number < 0)) {
        number = 0; /* a device without a cable has -1 */
    }
    fclose(file);
    return number;
}

/* "400 Gb/sec (4X NDR)" */
static double perf_link_port(const char *device, const char *sys)
{
    const char *port = strchr(device, ':');
    char path[512];

    snprintf(path, sizeof(path), "%s/class/infiniband/%.*s/ports/%s/rate", sys,
             (int)(port - device), device, port + 1);
    return perf_link_number(path) / 8;
}

/* Mbit/s */
static double perf_link_net(const char *device, const char *sys)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/class/net/%s/speed", sys, device);
    return perf_link_number(path) / 8000;
}

/* A value of the driver's list of names and numbers; false if there is no such file */
static bool perf_link_property(const char *path, const char *name, uint64_t *value_p)
{
    FILE *file = fopen(path, "re");
    char found[64];
    uint64_t value;

    *value_p = 0;
    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%63s %" SCNu64, found, &value) == 2) {
        if (strcmp(found, name) == 0) {
            *value_p = value;
        }
    }
    fclose(file);
    return true;
}

static bool perf_link_is_gpu(const char *sys, uint64_t node)
{
    uint64_t simds;
    char path[512];

    snprintf(path, sizeof(path),
             "%s/class/kfd/kfd/topology/nodes/%" PRIu64 "/properties", sys, node);
    return perf_link_property(path, "simd_count", &simds) && (simds > 0);
}

/* Rates of a GPU's links to other GPUs, in MB/s: the smallest and the largest so far */
static void perf_link_of_gpu(const char *sys, uint64_t node, uint64_t *least_p,
                             uint64_t *most_p)
{
    uint64_t type, to, rate;
    char path[512];
    unsigned i;

    for (i = 0;; ++i) {
        snprintf(path, sizeof(path),
                 "%s/class/kfd/kfd/topology/nodes/%" PRIu64 "/io_links/%u/properties",
                 sys, node, i);
        if (!perf_link_property(path, "type", &type)) {
            return;
        }
        (void)perf_link_property(path, "node_to", &to);
        (void)perf_link_property(path, "max_bandwidth", &rate);
        if ((type == PERF_LINK_XGMI) && perf_link_is_gpu(sys, to)) {
            *least_p = (rate < *least_p) ? rate : *least_p;
            *most_p = (rate > *most_p) ? rate : *most_p;
        }
    }
}

static double perf_link_xgmi(const char *sys)
{
    uint64_t node, simds, least = UINT64_MAX, most = 0;
    char path[512];

    for (node = 0;; ++node) {
        snprintf(path, sizeof(path),
                 "%s/class/kfd/kfd/topology/nodes/%" PRIu64 "/properties", sys, node);
        if (!perf_link_property(path, "simd_count", &simds)) {
            break;
        }
        if (simds > 0) {
            perf_link_of_gpu(sys, node, &least, &most);
        }
    }
    return (least == most) ? (double)most / 1e3 : 0;
}

static double perf_link_of(const char *transport, const char *device, const char *sys)
{
    if (strcmp(transport, "mori_xgmi") == 0) {
        return perf_link_xgmi(sys);
    }
    return (strchr(device, ':') != NULL) ? perf_link_port(device, sys)
                                         : perf_link_net(device, sys);
}

/* "mori_rdma" and "nic0:1" of ".. mori_rdma/nic0:1;", by its slash */
static void perf_link_names(const char *path, const char *slash, char *transport,
                            char *device)
{
    const char *begin = slash;

    while ((begin > path) && (strchr(" (;", begin[-1]) == NULL)) {
        --begin;
    }
    snprintf(transport, PERF_LINK_NAME, "%.*s", (int)(slash - begin), begin);
    snprintf(device, PERF_LINK_NAME, "%.*s", (int)strcspn(slash + 1, " );,"),
             slash + 1);
}

double perf_link_rate(const char *path, const char *sys)
{
    char devices[PERF_LINK_MAX][PERF_LINK_NAME], transports[2][PERF_LINK_NAME];
    const char *slash;
    unsigned num = 0, i;
    double rate, sum = 0;

    for (slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        if (num == PERF_LINK_MAX) {
            return 0;
        }
        perf_link_names(path, slash, transports[num > 0], devices[num]);
        if ((num > 0) && (strcmp(transports[0], transports[1]) != 0)) {
            return 0;
        }
        for (i = 0; strcmp(devices[i], devices[num]) != 0; ++i) {
        }
        if (i < num) {
            continue;
        }
        rate = perf_link_of(transports[0], devices[num++], sys);
        if (rate == 0) {
            return 0;
        }
        sum += rate;
    }
    return sum;
}
