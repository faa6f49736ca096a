/* SPDX-License-Identifier: BSD-3-Clause */

#include "isa_impl.h"

#include <string.h>


static const isa_op_t *const ops_tables[] = {
    isa_salu_ops, isa_valu_ops, isa_compare_ops, isa_mem_ops, isa_lds_ops, isa_flow_ops,
};

const isa_op_t *isa_op_find(const char *name)
{
    const isa_op_t *op;
    size_t i;

    for (i = 0; i < sizeof(ops_tables) / sizeof(ops_tables[0]); ++i) {
        for (op = ops_tables[i]; op->name != NULL; ++op) {
            if (strcmp(op->name, name) == 0) {
                return op;
            }
        }
    }
    return NULL;
}
