/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The text of an instruction, as LLVM prints it, to its opcode, operands and modifiers:
 * "global_load_dwordx4 v[14:17], v4, s[12:13] offset:16 sc0".
 */

#include "isa_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static const struct {
    const char *name;
    isa_kind_t kind;
    unsigned index, count;
} parse_names[] = {
    {"vcc", ISA_SCALAR, ISA_VCC, 2},
    {"vcc_lo", ISA_SCALAR, ISA_VCC, 1},
    {"vcc_hi", ISA_SCALAR, ISA_VCC + 1, 1},
    {"m0", ISA_SCALAR, ISA_M0, 1},
    {"exec", ISA_SCALAR, ISA_EXEC, 2},
    {"exec_lo", ISA_SCALAR, ISA_EXEC, 1},
    {"exec_hi", ISA_SCALAR, ISA_EXEC + 1, 1},
    {"null", ISA_NULL, 0, 2},
    {"off", ISA_OFF, 0, 0},
    {"src_scc", ISA_SCC, 0, 1},
};

static const struct {
    const char *name;
    unsigned modifier;
} parse_flags[] = {
    {"sc0", ISA_MOD_SC0}, {"sc1", ISA_MOD_SC1}, {"nt", ISA_MOD_NT},
    {"glc", ISA_MOD_GLC}, {"slc", ISA_MOD_SLC}, {"dlc", ISA_MOD_DLC},
};

static const struct {
    const char *name;
    isa_counter_t counter;
} parse_counters[] = {
    {"vmcnt(", ISA_VM},
    {"lgkmcnt(", ISA_LGKM},
    {"vscnt(", ISA_VS},
    {"expcnt(", ISA_EXP},
};

static const struct {
    const char *name;
    unsigned shift;
    uint32_t mask;
} parse_selects[] = {
    {"BYTE_0", 0, 0xff},      {"BYTE_1", 8, 0xff},   {"BYTE_2", 16, 0xff},
    {"BYTE_3", 24, 0xff},     {"WORD_0", 0, 0xffff}, {"WORD_1", 16, 0xffff},
    {"DWORD", 0, UINT32_MAX},
};

#define PARSE_COUNT(_array) (sizeof(_array) / sizeof((_array)[0]))

static bool parse_number(const char *text, isa_operand_t *operand)
{
    char *end;

    operand->count = 1;
    operand->kind = ISA_CONST;
    operand->value = (uint64_t)strtoll(text, &end, 0);
    if ((end != text) && (*end == '\0')) {
        return true;
    }
    operand->value = strtoull(text, &end, 0);
    if ((end != text) && (*end == '\0')) {
        return true;
    }
    operand->kind = ISA_FLOAT;
    {
        double value = strtod(text, &end);

        memcpy(&operand->value, &value, sizeof(value));
    }
    return (end != text) && (*end == '\0');
}

/* "v5", "s[4:5]" */
static bool parse_register(const char *text, isa_operand_t *operand)
{
    unsigned first, last;
    int length = 0;

    switch (text[0]) {
    case 'v':
        operand->kind = ISA_VECTOR;
        break;
    case 's':
        operand->kind = ISA_SCALAR;
        break;
    default:
        return false;
    }
    if ((sscanf(text + 1, "[%u:%u]%n", &first, &last, &length) == 2) && (length > 0) &&
        (last >= first)) {
        ++length;
    } else if (isdigit((unsigned char)text[1]) &&
               (sscanf(text + 1, "%u%n", &first, &length) == 1)) {
        last = first;
        ++length;
    } else {
        return false;
    }
    operand->index = first;
    operand->count = last - first + 1;
    return (text[length] == '\0') &&
           (last < ((operand->kind == ISA_VECTOR) ? ISA_MAX_VGPRS : ISA_NUM_SGPRS));
}

static bool parse_operand(const char *text, isa_operand_t *operand)
{
    size_t i;

    operand->mask = UINT32_MAX;
    for (i = 0; i < PARSE_COUNT(parse_names); ++i) {
        if (strcmp(text, parse_names[i].name) == 0) {
            operand->kind = parse_names[i].kind;
            operand->index = parse_names[i].index;
            operand->count = parse_names[i].count;
            return true;
        }
    }
    return parse_register(text, operand) || parse_number(text, operand);
}

static bool parse_counter(const char *text, isa_inst_t *inst)
{
    size_t i, length;

    for (i = 0; i < PARSE_COUNT(parse_counters); ++i) {
        length = strlen(parse_counters[i].name);
        if (strncmp(text, parse_counters[i].name, length) == 0) {
            inst->waits[parse_counters[i].counter] =
                (unsigned)strtoul(text + length, NULL, 0);
            inst->modifiers |= ISA_MOD_WAITS;
            return true;
        }
    }
    return false;
}

/* "src0_sel:BYTE_3"; a destination has to be whole. */
static bool parse_sdwa(const char *text, isa_inst_t *inst)
{
    unsigned source = (unsigned)(text[3] - '0');
    isa_operand_t *operand;
    size_t i;

    if (strcmp(text, "dst_sel:DWORD") == 0) {
        return true;
    }
    if (strcmp(text, "dst_unused:UNUSED_PAD") == 0) {
        return true;
    }
    if ((strncmp(text, "src", 3) != 0) || (source > 1) ||
        (strncmp(text + 4, "_sel:", 5) != 0) || (source + 1 >= inst->num_operands)) {
        return false;
    }
    operand = &inst->operand[source + 1];
    for (i = 0; i < PARSE_COUNT(parse_selects); ++i) {
        if (strcmp(text + 9, parse_selects[i].name) == 0) {
            operand->shift = parse_selects[i].shift;
            operand->mask = parse_selects[i].mask;
            inst->modifiers |= ISA_MOD_SDWA;
            return true;
        }
    }
    return false;
}

static bool parse_modifier(const char *text, isa_inst_t *inst)
{
    long long offset;
    size_t i;

    for (i = 0; i < PARSE_COUNT(parse_flags); ++i) {
        if (strcmp(text, parse_flags[i].name) == 0) {
            inst->modifiers |= parse_flags[i].modifier;
            return true;
        }
    }
    if (sscanf(text, "offset:%lli", &offset) == 1) {
        inst->offset = offset;
        inst->modifiers |= ISA_MOD_OFFSET;
        return true;
    }
    if (sscanf(text, "op_sel:[%u,%u]", &inst->op_sel[0], &inst->op_sel[1]) == 2) {
        inst->modifiers |= ISA_MOD_OP_SEL;
        return true;
    }
    if (sscanf(text, "bitop3:%i", (int *)&inst->bitop3) == 1) {
        inst->modifiers |= ISA_MOD_BITOP3;
        return true;
    }
    return parse_counter(text, inst) || parse_sdwa(text, inst);
}

/* Parse the text between two commas: an operand, and modifiers after it. */
static bool parse_piece(struct isa_gpu *gpu, isa_inst_t *inst, char *piece)
{
    isa_operand_t operand;
    char *rest, *word;

    for (word = strtok_r(piece, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        memset(&operand, 0, sizeof(operand));
        if (parse_operand(word, &operand)) {
            if (inst->num_operands == ISA_MAX_OPERANDS) {
                isa_fail(gpu, "'%s' has too many operands", inst->text);
                return false;
            }
            inst->operand[inst->num_operands++] = operand;
        } else if (!parse_modifier(word, inst)) {
            isa_fail(gpu, "'%s' of '%s' is not implemented", word, inst->text);
            return false;
        }
    }
    return true;
}

static bool parse_operands(struct isa_gpu *gpu, isa_inst_t *inst, char *text)
{
    int depth = 0;
    char *piece = text;
    char *at;

    for (at = text; *at != '\0'; ++at) {
        depth += (*at == '[') - (*at == ']');
        if ((*at == ',') && (depth == 0)) {
            *at = '\0';
            if (!parse_piece(gpu, inst, piece)) {
                return false;
            }
            piece = at + 1;
        }
    }
    return parse_piece(gpu, inst, piece);
}

/* The name of an opcode without the encoding that was chosen for it. */
static void parse_strip(char *name)
{
    static const char *const endings[] = {"_e32", "_e64", "_sdwa"};
    size_t length, i;

    for (i = 0; i < PARSE_COUNT(endings); ++i) {
        length = strlen(endings[i]);
        if ((strlen(name) > length) &&
            (strcmp(name + strlen(name) - length, endings[i]) == 0)) {
            name[strlen(name) - length] = '\0';
            return;
        }
    }
}

static bool parse_half(struct isa_gpu *gpu, isa_inst_t *inst, char *text)
{
    char name[64];
    int length = 0;
    unsigned i;

    for (i = 0; i < ISA_NUM_COUNTERS; ++i) {
        inst->waits[i] = ISA_NO_WAIT;
    }
    if (sscanf(text, " %63s%n", name, &length) != 1) {
        isa_fail(gpu, "an instruction without text at 0x%lx",
                 (unsigned long)inst->address);
        return false;
    }
    parse_strip(name);
    inst->op = isa_op_find(name);
    if (inst->op == NULL) {
        isa_fail(gpu, "'%s' is not implemented", inst->text);
        return false;
    }
    if (inst->op->modifiers & ISA_MOD_ANY) {
        return true;
    }
    if (!parse_operands(gpu, inst, text + length)) {
        return false;
    }
    if (inst->modifiers & ~inst->op->modifiers) {
        isa_fail(gpu, "a modifier of '%s' is not implemented", inst->text);
        return false;
    }
    return true;
}

bool isa_parse(struct isa_gpu *gpu, isa_inst_t *inst)
{
    char text[sizeof(inst->text)];
    char *second;

    snprintf(text, sizeof(text), "%s", inst->text);
    second = strstr(text, "::");
    if (second == NULL) {
        return parse_half(gpu, inst, text);
    }
    *second = '\0';
    second += strspn(second + 2, " ") + 2;
    inst->dual = calloc(1, sizeof(*inst->dual));
    if (inst->dual == NULL) {
        isa_fail(gpu, "no memory for an instruction");
        return false;
    }
    snprintf(inst->dual->text, sizeof(inst->dual->text), "%s", inst->text);
    inst->dual->address = inst->address;
    /* "v_dual_mov_b32" is v_mov_b32 */
    if ((strncmp(text, "v_dual_", 7) != 0) || (strncmp(second, "v_dual_", 7) != 0)) {
        isa_fail(gpu, "'%s' is not a pair", inst->text);
        return false;
    }
    memmove(text + 2, text + 7, strlen(text + 7) + 1);
    memmove(second + 2, second + 7, strlen(second + 7) + 1);
    return parse_half(gpu, inst, text) && parse_half(gpu, inst->dual, second);
}
