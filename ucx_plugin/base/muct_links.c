/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The driver's folder has a node for each processor, GPU and partition of a GPU,
 * nodes/N, with its PCI address in nodes/N/properties, and its links in
 * nodes/N/io_links/M/properties. All are lines of a name and a number.
 *
 * Functions are ignored in addresses: the driver has function 0 for each partition, and
 * HIP the functions 0 to 7.
 */

#include "base/muct_links.h"

#include "base/muct_log.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUCT_LINKS_XGMI 11 /* io_links' type */
#define MUCT_LINKS_MAX_NODES 512

/* Bus, device and function of location_id; a partition's number is in bits 28 to 31. */
#define MUCT_LINKS_LOCATION_MASK 0xffff
#define MUCT_LINKS_FUNCTION_MASK 7u

/* Bandwidth of a link of MI300X, used if the driver reports none. */
#define MUCT_LINKS_KNOWN_BANDWIDTH 50e9

/* Numbers of a properties file; missing ones are 0. */
typedef struct muct_links_properties {
    uint64_t simd_count, domain, location_id;     /* of a node */
    uint64_t type, node_from, node_to, bandwidth; /* of a link; MB/s */
} muct_links_properties_t;


static bool muct_links_read_properties(const char *path,
                                       muct_links_properties_t *properties)
{
    const struct {
        const char *name;
        uint64_t *value_p;
    } names[] = {
        {"simd_count", &properties->simd_count},   {"domain", &properties->domain},
        {"location_id", &properties->location_id}, {"type", &properties->type},
        {"node_from", &properties->node_from},     {"node_to", &properties->node_to},
        {"max_bandwidth", &properties->bandwidth}};
    FILE *file = fopen(path, "re");
    char name[64];
    uint64_t value;
    size_t i;

    memset(properties, 0, sizeof(*properties));
    if (file == NULL) {
        return false;
    }
    while (fscanf(file, "%63s %" SCNu64, name, &value) == 2) {
        for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
            if (strcmp(name, names[i].name) == 0) {
                *names[i].value_p = value;
            }
        }
    }
    fclose(file);
    return true;
}

static void muct_links_add(muct_links_t *links, const muct_links_properties_t *link,
                           const uint32_t *bdfs)
{
    muct_link_t *grown;

    if ((link->type != MUCT_LINKS_XGMI) || (link->node_from >= MUCT_LINKS_MAX_NODES) ||
        (link->node_to >= MUCT_LINKS_MAX_NODES) || (bdfs[link->node_from] == 0) ||
        (bdfs[link->node_to] == 0) || (bdfs[link->node_from] == bdfs[link->node_to])) {
        return; /* the driver lists links between partitions of one GPU as well */
    }

    grown = realloc(links->links, (links->count + 1) * sizeof(*grown));
    if (grown == NULL) {
        return;
    }
    links->links = grown;
    grown[links->count++] = (muct_link_t){
        .from = bdfs[link->node_from],
        .to = bdfs[link->node_to],
        .bandwidth = (link->bandwidth == 0) ? MUCT_LINKS_KNOWN_BANDWIDTH
                                            : (double)link->bandwidth * 1e6};
}

/* The links that a node has, which are numbered from 0. */
static void muct_links_read_node(const char *dir, unsigned node, const uint32_t *bdfs,
                                 muct_links_t *links)
{
    muct_links_properties_t link;
    char path[512];
    unsigned i;

    for (i = 0;; ++i) {
        snprintf(path, sizeof(path), "%s/nodes/%u/io_links/%u/properties", dir, node,
                 i);
        if (!muct_links_read_properties(path, &link)) {
            return;
        }
        muct_links_add(links, &link, bdfs);
    }
}

void muct_links_read(const char *dir, muct_links_t *links)
{
    uint32_t bdfs[MUCT_LINKS_MAX_NODES] = {0};
    muct_links_properties_t node;
    char path[512];
    unsigned i, count;

    memset(links, 0, sizeof(*links));
    for (count = 0; count < MUCT_LINKS_MAX_NODES; ++count) {
        snprintf(path, sizeof(path), "%s/nodes/%u/properties", dir, count);
        if (!muct_links_read_properties(path, &node)) {
            break;
        }
        if (node.simd_count > 0) {
            bdfs[count] = (uint32_t)((node.domain << 16) |
                                     (node.location_id & MUCT_LINKS_LOCATION_MASK)) &
                          ~MUCT_LINKS_FUNCTION_MASK;
        }
    }
    for (i = 0; i < count; ++i) {
        muct_links_read_node(dir, i, bdfs, links);
    }
    muct_debug("%s lists %zu xGMI links of %u nodes", dir, links->count, count);
}

static bool muct_links_parse(const char *text, uint32_t *bdf_p)
{
    unsigned domain, bus, device, function;

    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) {
        return false;
    }
    *bdf_p = (domain << 16) | (bus << 8) | (device << 3); /* any function */
    return true;
}

double muct_links_bandwidth(const muct_links_t *links, const char *from, const char *to)
{
    uint32_t from_bdf = 0, to_bdf = 0;
    double bandwidth = 0;
    const muct_link_t *link;

    if (((from != NULL) && !muct_links_parse(from, &from_bdf)) ||
        ((to != NULL) && !muct_links_parse(to, &to_bdf))) {
        return 0;
    }

    for (link = links->links; link < links->links + links->count; ++link) {
        if (((from == NULL) || (link->from == from_bdf)) &&
            ((to == NULL) || (link->to == to_bdf)) &&
            ((bandwidth == 0) || (link->bandwidth < bandwidth))) {
            bandwidth = link->bandwidth;
        }
    }
    return bandwidth;
}
