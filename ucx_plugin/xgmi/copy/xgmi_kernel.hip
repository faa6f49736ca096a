/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The copy kernel; xgmi_kernel.h says what it does.
 *
 * A thread block takes its range of tiles in the order of the list. It stages the
 * entries in shared memory, one vector a thread, and reads the next ones from the
 * host while it works on these. Its waves take every n-th tile, and of the list's
 * tail the next one that no wave of any block has taken. To find the entry of a
 * tile, the lanes of a wave look at as many entries at once.
 *
 * A tile is loaded whole, then stored whole: what keeps a link busy is the number
 * of bytes under way. Stores are always aligned vectors. When the source is not
 * aligned to match, the loads are, and lanes exchange what belongs together; no
 * byte outside the entry is ever read. Ragged ends are done a byte a lane. A tile of
 * pieces is loaded and stored by units, each lane dividing the number of its unit.
 *
 * Compiles as HIP for AMD, as CUDA for the tests' machines, and as C for a test that
 * plays the lanes with threads.
 */

#include "xgmi_kernel.h"

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define MUCT_GLOBAL __attribute__((address_space(1)))
#if defined(__GFX9__)
#define MUCT_WAVE 64
#else
#define MUCT_WAVE 32
#endif
typedef uint32_t muct_vec_t __attribute__((ext_vector_type(4)));
#else
#define MUCT_GLOBAL
#define MUCT_WAVE 32
typedef uint4 muct_vec_t;
#endif

#define MUCT_VEC_SIZE MUCT_XGMI_VECTOR_SIZE
#define MUCT_TILE_VECS (MUCT_XGMI_TILE_SIZE / MUCT_VEC_SIZE)
#define MUCT_UNROLL (MUCT_TILE_VECS / MUCT_WAVE)
#define MUCT_HALF (MUCT_UNROLL / 2)
#define MUCT_FEW 2

#if defined(__cplusplus)
#define MUCT_KERNEL extern "C" __global__
#else
#define MUCT_KERNEL __global__
#endif

/* Entries staged at once: half as many as the block has threads. */
#define MUCT_BATCH (MUCT_XGMI_MAX_THREADS / 2)
#define MUCT_FIRST_BATCH 64u

/* Below this, bytes are as good as vectors. */
#define MUCT_SHORT 64u


/* Two halves of a vector. */
union muct_pair {
    muct_vec_t vec;
    struct {
        uint64_t low, high;
    } half;
};

/* Batch of entries, split into two arrays: elements of the same index form an entry. */
struct muct_batch {
    ulonglong2 addr[MUCT_BATCH]; /* destination, source */
    ulonglong2 span[MUCT_BATCH]; /* length, place */
    uint32_t entry;              /* number of the first one */
    uint32_t count;
    uint32_t stop; /* behind the last tile to copy */
};

static __device__ __forceinline__ muct_vec_t muct_load(uint64_t addr)
{
    return *(const MUCT_GLOBAL muct_vec_t *)addr;
}

static __device__ __forceinline__ void muct_store(uint64_t addr, muct_vec_t vec)
{
    *(MUCT_GLOBAL muct_vec_t *)addr = vec;
}

static __device__ __forceinline__ uint64_t muct_shuffle(uint64_t value, uint32_t lane)
{
#if defined(__HIPCC__)
    return __shfl((unsigned long long)value, (int)lane, MUCT_WAVE);
#else
    return __shfl_sync(0xffffffffu, value, (int)lane);
#endif
}

/* Value of the wave's first lane. */
static __device__ __forceinline__ uint32_t muct_first(uint32_t value)
{
#if defined(__HIPCC__)
    return (uint32_t)__builtin_amdgcn_readfirstlane((int)value);
#else
    return (uint32_t)__shfl_sync(0xffffffffu, value, 0);
#endif
}

/* Lanes, counted from 0, up to the first whose condition does not hold. */
static __device__ __forceinline__ uint32_t muct_count(bool condition)
{
#if defined(__HIPCC__)
    return (uint32_t)__popcll(__ballot(condition));
#else
    return (uint32_t)__popc(__ballot_sync(0xffffffffu, condition));
#endif
}

static __device__ __forceinline__ void muct_copy_bytes(uint64_t dst, uint64_t src,
                                                       uint32_t length, uint32_t lane)
{
    uint32_t i;

    for (i = lane; i < length; i += MUCT_WAVE) {
        *(MUCT_GLOBAL uint8_t *)(dst + i) = *(const MUCT_GLOBAL uint8_t *)(src + i);
    }
}

/* Copy less than a tile, aligned on both ends. It goes in steps, for lack of registers.
 */
static __device__ __forceinline__ void muct_copy_vecs(uint64_t dst, uint64_t src,
                                                      uint32_t count, uint32_t lane)
{
    muct_vec_t vec[MUCT_FEW];
    uint32_t u, i;

    dst += lane * MUCT_VEC_SIZE;
    src += lane * MUCT_VEC_SIZE;
#pragma unroll 1
    for (i = lane; i < count; i += MUCT_FEW * MUCT_WAVE) {
#pragma unroll
        for (u = 0; u < MUCT_FEW; ++u) {
            if (i + (u * MUCT_WAVE) < count) {
                vec[u] = muct_load(src + (u * MUCT_WAVE * MUCT_VEC_SIZE));
            }
        }
#pragma unroll
        for (u = 0; u < MUCT_FEW; ++u) {
            if (i + (u * MUCT_WAVE) < count) {
                muct_store(dst + (u * MUCT_WAVE * MUCT_VEC_SIZE), vec[u]);
            }
        }
        dst += MUCT_FEW * MUCT_WAVE * MUCT_VEC_SIZE;
        src += MUCT_FEW * MUCT_WAVE * MUCT_VEC_SIZE;
    }
}

/* Bytes shift to shift + 15 of two vectors in a row. */
static __device__ __forceinline__ muct_vec_t muct_splice(const union muct_pair *first,
                                                         const union muct_pair *second,
                                                         uint32_t shift)
{
    uint32_t bits = (shift % 8) * 8;
    uint64_t a, b, c;
    union muct_pair out;

    a = (shift < 8) ? first->half.low : first->half.high;
    b = (shift < 8) ? first->half.high : second->half.low;
    c = (shift < 8) ? second->half.low : second->half.high;
    /* in two steps, as a shift by 64 is none */
    out.half.low = (a >> bits) | ((b << 1) << (63 - bits));
    out.half.high = (b >> bits) | ((c << 1) << (63 - bits));
    return out.vec;
}

/*
 * The source is aligned after all, but what belongs to vector i of the destination
 * begins at byte shift of vector i of the source; count + 1 of those are read. In
 * two steps, for want of registers.
 */
static __device__ __forceinline__ void muct_copy_shifted(uint64_t dst, uint64_t src,
                                                         uint32_t count, uint32_t shift,
                                                         uint32_t lane)
{
    union muct_pair vec[MUCT_HALF + 1];
    union muct_pair offer, next;
    uint32_t first, u, i;

#pragma unroll 1
    for (first = 0; first < count; first += MUCT_HALF * MUCT_WAVE) {
#pragma unroll
        for (u = 0; u <= MUCT_HALF; ++u) {
            i = first + lane + (u * MUCT_WAVE);
            vec[u].half.low = 0;
            vec[u].half.high = 0;
            if ((i <= count) && ((u < MUCT_HALF) || (lane == 0))) {
                vec[u].vec = muct_load(src + (i * MUCT_VEC_SIZE));
            }
        }
#pragma unroll
        for (u = 0; u < MUCT_HALF; ++u) {
            i = first + lane + (u * MUCT_WAVE);
            /* the last lane's neighbour is the first lane's next vector */
            offer.half.low = (lane == 0) ? vec[u + 1].half.low : vec[u].half.low;
            offer.half.high = (lane == 0) ? vec[u + 1].half.high : vec[u].half.high;
            next.half.low = muct_shuffle(offer.half.low, (lane + 1) % MUCT_WAVE);
            next.half.high = muct_shuffle(offer.half.high, (lane + 1) % MUCT_WAVE);
            if (i < count) {
                muct_store(dst + (i * MUCT_VEC_SIZE),
                           muct_splice(&vec[u], &next, shift));
            }
        }
    }
}

/*
 * A tile of any alignment and length, the one of this number in its entry. The vectors
 * read must not reach out of the entry.
 */
static __device__ __forceinline__ void muct_copy_ragged(ulonglong2 addr,
                                                        uint64_t length,
                                                        uint32_t number, uint32_t lane)
{
    uint64_t begin = muct_xgmi_tile_start(addr.x, number);
    uint64_t end = muct_xgmi_tile_end(addr.x, length, number);
    uint64_t dst = addr.x + begin;
    uint64_t src = addr.y + begin;
    uint32_t size = (uint32_t)(end - begin);
    uint32_t head = (uint32_t)(0 - dst) & (MUCT_VEC_SIZE - 1);
    uint32_t shift = (uint32_t)(src + head) & (MUCT_VEC_SIZE - 1);
    uint32_t count, tail;

    if (size < MUCT_SHORT) {
        muct_copy_bytes(dst, src, size, lane);
        return;
    }

    if ((begin == 0) && (head < shift)) {
        head += MUCT_VEC_SIZE;
    }
    count = (size - head) / MUCT_VEC_SIZE;
    tail = (size - head) % MUCT_VEC_SIZE;
    if ((shift != 0) && (end == length) && (tail < MUCT_VEC_SIZE - shift)) {
        --count;
        tail += MUCT_VEC_SIZE;
    }

    muct_copy_bytes(dst, src, head, lane);
    muct_copy_bytes(dst + size - tail, src + size - tail, tail, lane);
    if (shift == 0) {
        muct_copy_vecs(dst + head, src + head, count, lane);
    } else {
        muct_copy_shifted(dst + head, src + head - shift, count, shift, lane);
    }
}

/*
 * Copy the units of a tile of pieces that begins at these addresses; for units of one
 * type. Loads come first, in two steps. The lane's place is computed twice for want
 * of registers.
 */
#define MUCT_DEFINE_COPY_UNITS(_name, _type)                                           \
    static __device__ __forceinline__ void _name(const muct_xgmi_shape_t *shape,       \
                                                 uint64_t dst, uint64_t src,           \
                                                 uint32_t count, uint32_t lane)        \
    {                                                                                  \
        _type value[MUCT_HALF];                                                        \
        uint32_t piece, u, i, first;                                                   \
                                                                                       \
        _Pragma("unroll 1") for (first = lane; first < count;                          \
                                 first += MUCT_HALF * MUCT_WAVE)                       \
        {                                                                              \
            _Pragma("unroll") for (u = 0; u < MUCT_HALF; ++u)                          \
            {                                                                          \
                i = first + (u * MUCT_WAVE);                                           \
                piece = muct_xgmi_shape_piece(shape, i);                               \
                if (i < count) {                                                       \
                    value[u] = *(                                                      \
                        const MUCT_GLOBAL _type *)(src + (piece * shape->src_stride) + \
                                                   ((i - (piece * shape->units)) *     \
                                                    sizeof(_type)));                   \
                }                                                                      \
            }                                                                          \
            _Pragma("unroll") for (u = 0; u < MUCT_HALF; ++u)                          \
            {                                                                          \
                i = first + (u * MUCT_WAVE);                                           \
                piece = muct_xgmi_shape_piece(shape, i);                               \
                if (i < count) {                                                       \
                    *(MUCT_GLOBAL _type *)(dst + (piece * shape->dst_stride) +         \
                                           ((i - (piece * shape->units)) *             \
                                            sizeof(_type))) = value[u];                \
                }                                                                      \
            }                                                                          \
        }                                                                              \
    }

MUCT_DEFINE_COPY_UNITS(muct_copy_units16, muct_vec_t)
MUCT_DEFINE_COPY_UNITS(muct_copy_units8, uint64_t)
MUCT_DEFINE_COPY_UNITS(muct_copy_units4, uint32_t)

/* The same for single bytes, which are rare. */
static __device__ __forceinline__ void muct_copy_units1(const muct_xgmi_shape_t *shape,
                                                        uint64_t dst, uint64_t src,
                                                        uint32_t count, uint32_t lane)
{
    uint32_t piece, rest, i;

#pragma unroll 1
    for (i = lane; i < count; i += MUCT_WAVE) {
        piece = muct_xgmi_shape_piece(shape, i);
        rest = i - (piece * shape->units);
        *(MUCT_GLOBAL uint8_t *)(dst + (piece * shape->dst_stride) + rest) =
            *(const MUCT_GLOBAL uint8_t *)(src + (piece * shape->src_stride) + rest);
    }
}

/* The tile of this number of an entry of so many pieces. */
static __device__ __forceinline__ void muct_copy_pieces(const muct_xgmi_shape_t *shape,
                                                        ulonglong2 addr, uint32_t count,
                                                        uint32_t number, uint32_t lane)
{
    uint32_t first = number * shape->tile_pieces;
    uint32_t units = min(count - first, shape->tile_pieces) * shape->units;
    uint64_t dst = addr.x + (first * shape->dst_stride);
    uint64_t src = addr.y + (first * shape->src_stride);

    if (shape->unit == 16) {
        muct_copy_units16(shape, dst, src, units, lane);
    } else if (shape->unit == 8) {
        muct_copy_units8(shape, dst, src, units, lane);
    } else if (shape->unit == 4) {
        muct_copy_units4(shape, dst, src, units, lane);
    } else {
        muct_copy_units1(shape, dst, src, units, lane);
    }
}

/* A tile that is not whole vectors of a single piece. */
static __device__ __forceinline__ void muct_copy_other(
    const muct_xgmi_copy_args_t *args, const struct muct_batch *batch, uint32_t at,
    uint32_t tile, uint32_t lane)
{
    ulonglong2 span = batch->span[at];
    uint32_t number = tile - muct_xgmi_place_tile(span.y);
    /* the same in all lanes, so that scalar loads bring the shape */
    uint32_t shape_number = muct_first(muct_xgmi_place_shape(span.y));

    if (shape_number == 0) {
        muct_copy_ragged(batch->addr[at], span.x, number, lane);
        return;
    }
    muct_copy_pieces(&args->shapes[shape_number - 1], batch->addr[at], (uint32_t)span.x,
                     number, lane);
}

/* Find the entry that contains a tile, starting at an entry that contains this or an
 * earlier tile. */
static __device__ __forceinline__ uint32_t muct_find(const struct muct_batch *batch,
                                                     uint32_t at, uint32_t tile,
                                                     uint32_t lane)
{
    uint32_t steps, i;

    do {
        i = at + 1 + lane;
        steps = muct_count((i < batch->count) &&
                           (muct_xgmi_place_tile(batch->span[i].y) <= tile));
        at += steps;
    } while (steps == MUCT_WAVE);
    return at;
}

/* Find the lane's start in a tile that is whole and aligned on both ends; else return
 * false. */
static __device__ __forceinline__ bool muct_whole(const struct muct_batch *batch,
                                                  uint32_t at, uint32_t tile,
                                                  uint32_t lane, ulonglong2 *addr)
{
    uint64_t begin = (uint64_t)(tile - muct_xgmi_place_tile(batch->span[at].y)) *
                     MUCT_XGMI_TILE_SIZE;
    uint64_t left = batch->span[at].x - begin;

    *addr = batch->addr[at];
    if ((((addr->x | addr->y) % MUCT_VEC_SIZE) != 0) ||
        (muct_xgmi_place_shape(batch->span[at].y) != 0) ||
        ((left != MUCT_XGMI_TILE_SIZE) &&
         (left < MUCT_XGMI_TILE_SIZE + MUCT_VEC_SIZE))) {
        return false;
    }

    begin += lane * MUCT_VEC_SIZE;
    addr->x += begin;
    addr->y += begin;
    return true;
}

/* Take a tile of the tail. Its number arrives later, in the first lane only. */
static __device__ __forceinline__ uint32_t muct_take(const muct_xgmi_copy_args_t *args,
                                                     bool is_tail, uint32_t lane)
{
    return (is_tail && (lane == 0)) ? atomicAdd((uint32_t *)args->arrivals, 1u) : 0;
}

/* The next tile: the next of the block's range, or the one taken from the tail. */
static __device__ __forceinline__ uint32_t muct_next(const muct_xgmi_copy_args_t *args,
                                                     uint32_t tile, bool is_tail,
                                                     uint32_t taken)
{
    uint32_t waves = blockDim.x / MUCT_WAVE;

    if (!is_tail) {
        return tile + waves;
    }
    /* the first ones were not taken: each wave has its own */
    return (uint32_t)muct_xgmi_block_tile(args, gridDim.x) + (gridDim.x * waves) +
           (muct_first(taken) % MUCT_XGMI_ARRIVAL);
}

/* The tiles of one wave in a batch; returns its first one after the batch. */
static __device__ __forceinline__ uint32_t
muct_copy_batch(const muct_xgmi_copy_args_t *args, const struct muct_batch *batch,
                uint32_t tile, bool is_tail, uint32_t lane)
{
    muct_vec_t vec[MUCT_UNROLL];
    ulonglong2 addr;
    uint64_t dst;
    uint32_t at = 0;
    uint32_t taken, u;

    while (tile < batch->stop) {
        at = muct_find(batch, at, tile, lane);
        while (muct_whole(batch, at, tile, lane, &addr)) {
            dst = addr.x;
            taken = muct_take(args, is_tail, lane);
#pragma unroll
            for (u = 0; u < MUCT_UNROLL; ++u) {
                vec[u] = muct_load(addr.y + (u * MUCT_WAVE * MUCT_VEC_SIZE));
            }
            /* find the next tile while the loads are in flight */
            tile = muct_next(args, tile, is_tail, taken);
            at = muct_find(batch, at, tile, lane);
#pragma unroll
            for (u = 0; u < MUCT_UNROLL; ++u) {
                muct_store(dst + (u * MUCT_WAVE * MUCT_VEC_SIZE), vec[u]);
            }
            if (tile >= batch->stop) {
                return tile;
            }
        }
        taken = muct_take(args, is_tail, lane);
        muct_copy_other(args, batch, at, tile, lane);
        tile = muct_next(args, tile, is_tail, taken);
    }
    return tile;
}

/* A thread's half entry of those that begin at entry number first. */
static __device__ __forceinline__ ulonglong2 muct_fetch(uint64_t entries,
                                                        uint32_t first, uint32_t count)
{
    union {
        muct_vec_t vec;
        ulonglong2 pair;
    } half;

    half.pair.x = 0;
    half.pair.y = 0;
    if (threadIdx.x < count * 2) {
        half.vec = muct_load(entries + ((uint64_t)first * sizeof(muct_xgmi_entry_t)) +
                             (threadIdx.x * MUCT_VEC_SIZE));
    }
    return half.pair;
}

/*
 * Store the fetched halves in shared memory. The lane with the last entry's second half
 * computes the end of the batch; the lane before it holds the other half.
 */
static __device__ __forceinline__ void muct_stage(const muct_xgmi_copy_args_t *args,
                                                  struct muct_batch *batch,
                                                  ulonglong2 half, uint32_t entry,
                                                  uint32_t count, uint32_t end,
                                                  uint32_t lane)
{
    uint64_t dst = muct_shuffle(half.x, lane & ~1u);

    if (threadIdx.x % 2 == 0) {
        batch->addr[threadIdx.x / 2] = half;
    } else {
        batch->span[threadIdx.x / 2] = half;
    }
    if (threadIdx.x == (count * 2) - 1) {
        batch->entry = entry;
        batch->count = count;
        batch->stop = min(
            end, (uint32_t)(half.y + muct_xgmi_entry_tiles(args, dst, half.x, half.y)));
    }
}

/* Entries of the batch that begins with this one, of a range or of the tail. */
static __device__ __forceinline__ uint32_t
muct_batch_size(const muct_xgmi_copy_args_t *args, uint32_t entry)
{
    return min(args->num_entries - entry, blockDim.x / 2);
}

/* First entry of what a block copies after a batch: of its range, or of the tail; or
 * num_entries. */
static __device__ __forceinline__ uint32_t
muct_batch_next(const muct_xgmi_copy_args_t *args, const struct muct_batch *batch,
                uint32_t end, bool is_tail)
{
    if (batch->stop < end) {
        return batch->entry + batch->count;
    }
    return is_tail ? args->num_entries : args->first_entry[gridDim.x];
}

/*
 * This wave's stores have left it: they are where the block's write-back of its die's
 * cache finds them. Spelt out, because on AMD a barrier need not wait for stores.
 * Elsewhere what is before a barrier is before a fence behind it.
 */
static __device__ __forceinline__ void muct_drain(void)
{
#if defined(__GFX9__)
    __builtin_amdgcn_s_waitcnt(0);
#endif
}

/*
 * Make all that the caller sees visible to every observer. AMD's fence writes back the
 * L2 cache of the caller's die. The wait that has to follow is spelled out: LLVM before
 * 23 drops its own (llvm-project 178316), and then nothing waits for the write-back.
 */
static __device__ __forceinline__ void muct_release(void)
{
#if defined(__HIPCC__)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
#else
    __threadfence_system();
#endif
#if defined(__GFX9__)
    __builtin_amdgcn_s_waitcnt(0);
#endif
}

/*
 * No line of peers' memory is left in the caches from before this launch: on AMD they
 * keep such lines, and a launch begins with an invalidation of the device's scope only.
 */
static __device__ __forceinline__ void muct_acquire(void)
{
#if defined(__HIPCC__)
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
#endif
}

/*
 * Count this block's bytes as written; the last block sets the host's flag. Three
 * steps, each ordered for the observer of the next. The waves' stores reach the die's
 * L2 cache, and thread 0 writes it back. The write-back is over, so the block may
 * count. The last block, which sees all counts, stores the flag for the host and the
 * devices behind it. A block writes back once, because that also hits cached lines of
 * other kernels.
 */
static __device__ __forceinline__ void muct_finish(const muct_xgmi_copy_args_t *args)
{
    uint32_t *arrivals = (uint32_t *)args->arrivals;

    muct_drain();
    __syncthreads();
    if (threadIdx.x != 0) {
        return;
    }
    muct_release();
    if (gridDim.x > 1) {
        if (atomicAdd(arrivals, MUCT_XGMI_ARRIVAL) / MUCT_XGMI_ARRIVAL !=
            gridDim.x - 1) {
            return;
        }
        *arrivals = 0;
    }
    if (args->flag != 0) {
        /* the other blocks' bytes, too: the model makes a release pass them on */
        muct_release();
        *(volatile uint32_t *)args->flag = args->sequence;
    }
}

#if defined(__CUDACC__) || defined(__GFX9__) ||                                        \
    (defined(__HIPCC__) && !defined(__HIP_DEVICE_COMPILE__))
/* Says by being there that the flag of this machine code is behind the bytes. */
MUCT_KERNEL void muct_xgmi_flag_is_last(void)
{
}
#endif

MUCT_KERNEL void __launch_bounds__(MUCT_XGMI_MAX_THREADS)
    muct_xgmi_copy(const muct_xgmi_copy_args_t args)
{
    __shared__ struct muct_batch batches[2];
    const uint32_t lane = threadIdx.x % MUCT_WAVE;
    const uint32_t tail = (uint32_t)muct_xgmi_block_tile(&args, gridDim.x);
    uint32_t end = (uint32_t)muct_xgmi_block_tile(&args, blockIdx.x + 1);
    uint32_t tile =
        (uint32_t)muct_xgmi_block_tile(&args, blockIdx.x) + (threadIdx.x / MUCT_WAVE);
    uint32_t entry = args.first_entry[blockIdx.x];
    uint32_t count = min(muct_batch_size(&args, entry), MUCT_FIRST_BATCH);
    const struct muct_batch *batch;
    bool is_tail = false;
    uint32_t turn = 0;
    ulonglong2 half = muct_fetch(args.entries, entry, count);

    if (threadIdx.x < MUCT_WAVE) { /* the others wait at the first barrier */
        muct_acquire();
    }
    for (;;) {
        muct_stage(&args, &batches[turn], half, entry, count, end, lane);
        __syncthreads();
        batch = &batches[turn];
        entry = muct_batch_next(&args, batch, end, is_tail);
        half = muct_fetch(args.entries, entry, muct_batch_size(&args, entry));
        tile = muct_copy_batch(&args, batch, tile, is_tail, lane);

        entry = muct_batch_next(&args, batch, end, is_tail);
        if (entry == args.num_entries) {
            break;
        }
        if (!is_tail &&
            (batch->stop == end)) { /* of the tail, the first tiles are dealt already */
            is_tail = true;
            end = (uint32_t)args.num_tiles;
            tile = tail + (((blockIdx.x * blockDim.x) + threadIdx.x) / MUCT_WAVE);
        }
        count = muct_batch_size(&args, entry);
        /* all leave the other batch before the next barrier */
        turn ^= 1;
    }
    muct_finish(&args);
}
