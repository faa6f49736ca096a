/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef ISA_IMPL_H
#define ISA_IMPL_H

/**
 * @file
 * Inside the interpreter: instructions, waves, workgroups, the GPU.
 */

#include "isa.h"
#include "isa_cache.h"

#define ISA_MAX_LANES 64
#define ISA_MAX_OPERANDS 6
#define ISA_MAX_DWORDS 4 /* of a lane's load or store */

/* Scalar registers by their number in the encoding, the same on all architectures but
 * for null. */
#define ISA_NUM_SGPRS 106
#define ISA_VCC 106
#define ISA_M0 124
#define ISA_EXEC 126
#define ISA_NUM_SCALARS 128
#define ISA_MAX_VGPRS 512

typedef struct isa_wave isa_wave_t;
typedef struct isa_inst isa_inst_t;

typedef enum isa_kind {
    ISA_OFF, /* no operand: "off" */
    ISA_SCALAR,
    ISA_VECTOR,
    ISA_CONST,
    ISA_FLOAT, /* a constant with a point */
    ISA_SCC,
    ISA_NULL, /* reads as 0, writes go nowhere */
} isa_kind_t;

typedef struct isa_operand {
    isa_kind_t kind;
    unsigned index; /* of the first register */
    unsigned count; /* registers */
    uint64_t value; /* of a constant */
    unsigned shift; /* SDWA: the bits of a source that count */
    uint32_t mask;
} isa_operand_t;

/* Modifiers, each allowed by the rows of opcodes that implement it */
#define ISA_MOD_OFFSET 0x001u
#define ISA_MOD_SC0 0x002u
#define ISA_MOD_SC1 0x004u
#define ISA_MOD_NT 0x008u
#define ISA_MOD_GLC 0x010u
#define ISA_MOD_SLC 0x020u
#define ISA_MOD_DLC 0x040u
#define ISA_MOD_OP_SEL 0x080u
#define ISA_MOD_SDWA 0x100u
#define ISA_MOD_BITOP3 0x200u
#define ISA_MOD_WAITS 0x400u
#define ISA_MOD_ANY 0x800u /* a hint: whatever follows has no effect */

/* Counters of s_waitcnt */
typedef enum isa_counter {
    ISA_VM,
    ISA_LGKM,
    ISA_VS,
    ISA_EXP,
    ISA_NUM_COUNTERS,
} isa_counter_t;

#define ISA_NO_WAIT 0xffffu

typedef uint64_t (*isa_value_t)(uint64_t a, uint64_t b, uint64_t c);
typedef uint64_t (*isa_scalar_t)(uint64_t a, uint64_t b, uint32_t *scc);
typedef void (*isa_exec_t)(isa_wave_t *wave, const isa_inst_t *inst);

/* An opcode: how it is executed, and the numbers that its executor uses. */
typedef struct isa_op {
    const char *name;
    isa_exec_t exec;
    isa_value_t value;
    isa_scalar_t scalar;
    unsigned width[4]; /* dwords of the destination and of each source; 0: none */
    unsigned modifiers;
    unsigned arg;
} isa_op_t;

struct isa_inst {
    char text[160];
    uint64_t address;
    uint64_t size;
    uint8_t bytes[24];
    const isa_op_t *op;
    unsigned num_operands;
    isa_operand_t operand[ISA_MAX_OPERANDS];
    unsigned modifiers;
    int64_t offset;
    unsigned op_sel[3];
    unsigned bitop3;
    unsigned waits[ISA_NUM_COUNTERS];
    isa_inst_t *dual; /* second half of a pair that gfx11 issues together */
};

/* A memory operation under way, until its wave waits for it. */
typedef struct isa_pending {
    struct isa_pending *next;
    const isa_inst_t *inst;
    void (*perform)(isa_wave_t *wave, struct isa_pending *pending);
    bool performed;
    uint64_t exec;
    uint64_t address[ISA_MAX_LANES];
    uint32_t data[ISA_MAX_DWORDS][ISA_MAX_LANES];
    uint64_t low, high;   /* all addresses, to find overlaps */
    unsigned size;        /* bytes a lane */
    unsigned flags;       /* of the access, ISA_BYPASS_* */
    isa_operand_t result; /* registers written at the end; ISA_OFF: none */
    bool keep_high;       /* a result of 16 bits leaves the register's others */
    bool out_of_order;    /* scalar or flat: not counted in order with others */
    bool at_once;         /* ISA_LATE performs it at its issue */
    isa_line_t *lines;    /* those of a write-back */
} isa_pending_t;

typedef struct isa_queue {
    isa_pending_t *head, *tail;
    unsigned count;
} isa_queue_t;

typedef enum isa_state {
    ISA_RUNNING,
    ISA_WAITING, /* for memory operations */
    ISA_AT_BARRIER,
    ISA_ENDED,
} isa_state_t;

typedef struct isa_group {
    struct isa_gpu *gpu;
    unsigned die;
    unsigned num_waves, num_ended, num_at_barrier;
    isa_wave_t *waves;
    uint8_t *lds;
    uint32_t lds_size;
    isa_cache_t l1;
    struct isa_group *next;
} isa_group_t;

struct isa_wave {
    struct isa_gpu *gpu;
    isa_group_t *group;
    isa_state_t state;
    uint64_t pc;
    uint32_t scalar[ISA_NUM_SCALARS];
    uint32_t scc;
    uint32_t (*vector)[ISA_MAX_LANES];
    unsigned num_vectors;
    isa_queue_t queue[ISA_NUM_COUNTERS];
    unsigned waits[ISA_NUM_COUNTERS]; /* operations that may be left, while waiting */
    bool is_slow;                     /* waits longer than others */
};

typedef struct isa_arch {
    const char *name;
    unsigned lanes;
    unsigned num_dies;  /* that have an L2 each */
    bool has_vs;        /* stores have a counter of their own */
    bool scopes_by_bit; /* sc0 and sc1 select the scope of an access */
    bool flat_in_order; /* flat operations are counted in order with others
                         * (hasFlatLgkmVMemCountInOrder() of LLVM's GCNSubtarget.h) */
} isa_arch_t;

#define ISA_MAX_DIES 8
#define ISA_PROGRAM_SIZE 16384

struct isa_gpu {
    const isa_arch_t *arch;
    isa_memory_t memory;
    isa_timing_t timing;
    uint64_t random;
    char error[320];
    bool failed;
    uint64_t executed;
    uint64_t decoder; /* handle of libamd_comgr */
    isa_inst_t *decoding;
    isa_inst_t shown; /* by isa_gpu_text() */
    isa_inst_t *program[ISA_PROGRAM_SIZE];
    isa_cache_t l2[ISA_MAX_DIES];
    isa_group_t *groups;   /* resident */
    isa_group_t *finished; /* their memory operations may still be under way */
};


/** Record the first reason of a failure; the launch then ends. */
void isa_fail(struct isa_gpu *gpu, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

uint32_t isa_random(struct isa_gpu *gpu, uint32_t below);

/* isa_decode.c */
int isa_decoder_open(struct isa_gpu *gpu);
void isa_decoder_close(struct isa_gpu *gpu);
const isa_inst_t *isa_decode(struct isa_gpu *gpu, uint64_t address);

/* isa_parse.c: false and isa_fail() when the text is not understood */
bool isa_parse(struct isa_gpu *gpu, isa_inst_t *inst);

/* isa_ops.c: NULL when there is no such opcode */
const isa_op_t *isa_op_find(const char *name);

/* Opcodes of each kind; the last row has no name. */
extern const isa_op_t isa_salu_ops[];
extern const isa_op_t isa_valu_ops[];
extern const isa_op_t isa_compare_ops[];
extern const isa_op_t isa_mem_ops[];
extern const isa_op_t isa_lds_ops[];
extern const isa_op_t isa_flow_ops[];

/* isa_wave.c: registers */
uint64_t isa_exec_mask(const isa_wave_t *wave);
uint64_t isa_read_scalar(isa_wave_t *wave, const isa_operand_t *operand,
                         unsigned width);
void isa_write_scalar(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                      uint64_t value);
uint64_t isa_read_lane(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                       unsigned lane);
void isa_write_lane(isa_wave_t *wave, const isa_operand_t *operand, unsigned width,
                    unsigned lane, uint64_t value);
uint64_t isa_read_mask(isa_wave_t *wave, const isa_operand_t *operand);
void isa_write_mask(isa_wave_t *wave, const isa_operand_t *operand, uint64_t value);

/* isa_queue.c: memory operations under way */
isa_pending_t *isa_pending_create(isa_wave_t *wave, const isa_inst_t *inst);
void isa_issue(isa_wave_t *wave, isa_counter_t counter, isa_pending_t *pending);
void isa_wait(isa_wave_t *wave, const unsigned counts[ISA_NUM_COUNTERS]);
void isa_wait_end(isa_wave_t *wave);
void isa_perform_memory(isa_wave_t *wave);
void isa_complete_some(isa_wave_t *wave);
void isa_drop(isa_wave_t *wave);

/* isa_memory.c: through the caches */
#define ISA_BYPASS_L1 1u
#define ISA_BYPASS_L2 2u
void isa_load(isa_wave_t *wave, uint64_t address, void *buffer, unsigned length,
              unsigned flags);
void isa_store(isa_wave_t *wave, uint64_t address, const void *buffer, unsigned length,
               unsigned flags);
uint64_t isa_atomic(isa_wave_t *wave, uint64_t address, unsigned length,
                    isa_value_t value, uint64_t operand, uint64_t compare);
void isa_write_lines(struct isa_gpu *gpu, isa_line_t *lines);

#endif
