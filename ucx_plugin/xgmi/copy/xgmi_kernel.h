/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_XGMI_KERNEL_H
#define MUCT_XGMI_KERNEL_H

/**
 * @file
 * Interface between the host and the copy kernel.
 *
 * One launch moves a whole list of (destination, source, length). The list lies in
 * pinned host memory and the kernel reads it there. Entries have any length and any
 * alignment, must not overlap each other's destinations, and are copied in no
 * particular order.
 *
 * Work is counted in tiles of at most @ref MUCT_XGMI_TILE_SIZE bytes, the share of one
 * wave at a time. An entry holds the number of its first tile, so that thread blocks
 * take equal ranges of tiles, whatever entries these belong to. All blocks share a long
 * entry, and a short one costs one tile. Inside an entry, tiles begin where the
 * destination is aligned to a vector; the first one may have a ragged start and the
 * last one a ragged end.
 *
 * An entry with a shape is a run of pieces of one length at constant strides, as a
 * change of layout makes them. Its tiles are of whole pieces, and a lane computes its
 * place in them. Shapes are few, so they come with the argument.
 *
 * Thread blocks are not equally fast: some share a path to the link. Therefore the tail
 * of a long list is in no block's range. A block that is done with its range takes
 * tiles of the tail, wave by wave, until none is left.
 *
 * Tile numbers fit in 32 bits: 16 TiB a launch, more than devices have.
 *
 * End. The thread block that arrives last stores args.sequence to args.flag. By then
 * every byte of the list is visible to the host and to all devices, if the architecture
 * supports that (@ref MUCT_XGMI_FLAG_IS_LAST_NAME), and args.arrivals, which counts
 * blocks and the tiles taken of the tail, is zero again. Launches that may run at the
 * same time need separate arrivals and flags; launches of one stream may share them.
 *
 * All structures have the same layout on the host, on AMD and on NVIDIA.
 */

#include <stddef.h>
#include <stdint.h>

#if defined(__HIPCC__) || defined(__CUDACC__)
#define MUCT_XGMI_FUNC static inline __host__ __device__
#else
#define MUCT_XGMI_FUNC static inline
#endif


/** Name of the kernel in its code object; it takes one muct_xgmi_copy_args_t */
#define MUCT_XGMI_KERNEL_NAME "muct_xgmi_copy"

/**
 * Name of an empty kernel in the same code object. If it is missing, the architecture
 * has no instruction for a running kernel to write back its caches, so the flag could
 * overtake the data. Launches then have no flag, and an event recorded after the launch
 * shows its end.
 */
#define MUCT_XGMI_FLAG_IS_LAST_NAME "muct_xgmi_flag_is_last"

/** Version of the layout and meaning of this file */
#define MUCT_XGMI_KERNEL_VERSION 3

/** Bytes of a vector, the unit of a lane's loads and stores */
#define MUCT_XGMI_VECTOR_SIZE 16

/** Most bytes of a tile, without up to 15 bytes of a ragged end */
#define MUCT_XGMI_TILE_SIZE 4096

/** Most thread blocks of a launch */
#define MUCT_XGMI_MAX_BLOCKS 128

/** Thread blocks that leave compute alone and still fill a link */
#define MUCT_XGMI_DEFAULT_BLOCKS 8

/** Most threads of a thread block; block sizes are multiples of the minimum */
#define MUCT_XGMI_MAX_THREADS 1024
#define MUCT_XGMI_MIN_THREADS 64

/** Most tiles of the tail; the counter of taken tiles may exceed it, but stays below an
 * arrival */
#define MUCT_XGMI_MAX_TAIL_TILES (1u << 22)

/** A thread block's arrival; below it args.arrivals counts tiles taken of the tail */
#define MUCT_XGMI_ARRIVAL (1u << 24)

/** Most entries of one launch */
#define MUCT_XGMI_MAX_ENTRIES (1u << 30)

/** Most shapes of one launch */
#define MUCT_XGMI_MAX_SHAPES 15

/** Units of a tile of pieces, and most of a single piece: two pieces fill a tile */
#define MUCT_XGMI_TILE_UNITS (MUCT_XGMI_TILE_SIZE / MUCT_XGMI_VECTOR_SIZE)
#define MUCT_XGMI_MAX_UNITS (MUCT_XGMI_TILE_UNITS / 2)

/** Most pieces of one entry: with these the divisions by multiplying are exact */
#define MUCT_XGMI_MAX_PIECES (1u << 20)


/** Piece of memory to copy, or a run of them; an array of these is a list. */
typedef struct muct_xgmi_entry {
    uint64_t dst;    /**< Address the device writes */
    uint64_t src;    /**< Address the device reads */
    uint64_t length; /**< Bytes, or pieces if it has a shape; not 0 */
    uint64_t place;  /**< Tiles of all entries before this one in the low 32 bits, the
                          number of its shape above them; 0: none */
} muct_xgmi_entry_t;


/** Layout of the pieces of a run. Set by @ref muct_xgmi_shape_init. */
typedef struct muct_xgmi_shape {
    uint64_t dst_stride;  /**< From a piece to the next one, modulo 2^64 */
    uint64_t src_stride;  /**< The same for the source */
    uint32_t piece;       /**< Bytes of a piece */
    uint32_t unit;        /**< Bytes that a lane copies at once: 16, 8, 4 or 1 */
    uint32_t units;       /**< Units of a piece */
    uint32_t tile_pieces; /**< Pieces of a tile, at least 2 */
    uint32_t unit_magic;  /**< Divides a unit of a tile by units: times this, >> 24 */
    uint32_t tile_magic;  /**< Divides pieces by tile_pieces: times this, >> 32 */
} muct_xgmi_shape_t;


/** The kernel's only argument, passed by value. */
typedef struct muct_xgmi_copy_args {
    uint32_t version;      /**< MUCT_XGMI_KERNEL_VERSION */
    uint32_t num_entries;  /**< Not 0 */
    uint64_t num_tiles;    /**< Tiles of all entries */
    uint64_t block_tiles;  /**< Tiles of a thread block's range */
    uint64_t entries;      /**< muct_xgmi_entry_t[num_entries], aligned to 32 */
    uint64_t arrivals;     /**< uint32_t in device memory, 0 before the launch */
    uint64_t flag;         /**< uint32_t in pinned host memory; 0: no flag */
    uint32_t sequence;     /**< Value that ends up in the flag */
    uint32_t extra_blocks; /**< Number of first blocks that have one tile more */
    /** Entry that holds the first tile of each thread block, and behind them that of
     * the tail; without a tail, num_entries */
    uint32_t first_entry[MUCT_XGMI_MAX_BLOCKS + 1];
    uint32_t num_shapes;
    muct_xgmi_shape_t shapes[MUCT_XGMI_MAX_SHAPES]; /**< Numbers begin with 1 */
} muct_xgmi_copy_args_t;


/** Tiles of all entries before this one. */
MUCT_XGMI_FUNC uint32_t muct_xgmi_place_tile(uint64_t place)
{
    return (uint32_t)place;
}


/** Number of an entry's shape; 0: it is a single piece. */
MUCT_XGMI_FUNC uint32_t muct_xgmi_place_shape(uint64_t place)
{
    return (uint32_t)(place >> 32);
}


/**
 * Set a shape.
 *
 * @param [in] unit   Divides the piece, both strides and both addresses of every entry.
 * @param [in] piece  At most @ref MUCT_XGMI_MAX_UNITS units.
 */
MUCT_XGMI_FUNC void muct_xgmi_shape_init(muct_xgmi_shape_t *shape, uint32_t unit,
                                         uint32_t piece, uint64_t dst_stride,
                                         uint64_t src_stride)
{
    shape->dst_stride = dst_stride;
    shape->src_stride = src_stride;
    shape->piece = piece;
    shape->unit = unit;
    shape->units = piece / unit;
    shape->tile_pieces = MUCT_XGMI_TILE_UNITS / shape->units;
    shape->unit_magic = ((1u << 24) / shape->units) + 1;
    shape->tile_magic = (uint32_t)((1ull << 32) / shape->tile_pieces) + 1;
}


/** Piece, counted from the tile's first one, that has a unit of a tile. */
MUCT_XGMI_FUNC uint32_t muct_xgmi_shape_piece(const muct_xgmi_shape_t *shape,
                                              uint32_t unit)
{
    return (unit * shape->unit_magic) >> 24;
}


/** Number of tiles of this many pieces. */
MUCT_XGMI_FUNC uint32_t muct_xgmi_shape_tiles(const muct_xgmi_shape_t *shape,
                                              uint32_t count)
{
    uint64_t pieces = count + shape->tile_pieces - 1;

    return (uint32_t)((pieces * shape->tile_magic) >> 32);
}


/** Tiles of an entry: at least one, also for a single byte. */
MUCT_XGMI_FUNC uint64_t muct_xgmi_tile_count(uint64_t dst, uint64_t length)
{
    uint64_t ragged = dst & (MUCT_XGMI_VECTOR_SIZE - 1);
    uint64_t count = (length + ragged + MUCT_XGMI_TILE_SIZE - MUCT_XGMI_VECTOR_SIZE) /
                     MUCT_XGMI_TILE_SIZE;

    return count + (count == 0);
}


/** First byte of tile number @a tile of an entry, relative to the entry. */
MUCT_XGMI_FUNC uint64_t muct_xgmi_tile_start(uint64_t dst, uint64_t tile)
{
    uint64_t ragged = dst & (MUCT_XGMI_VECTOR_SIZE - 1);

    return (tile == 0) ? 0 : ((tile * MUCT_XGMI_TILE_SIZE) - ragged);
}


/** End of tile number @a tile, exclusive; a short rest belongs to it. */
MUCT_XGMI_FUNC uint64_t muct_xgmi_tile_end(uint64_t dst, uint64_t length, uint64_t tile)
{
    uint64_t next = muct_xgmi_tile_start(dst, tile + 1);

    return (length < next + MUCT_XGMI_VECTOR_SIZE) ? length : next;
}


/** Tiles of an entry. */
MUCT_XGMI_FUNC uint64_t muct_xgmi_entry_tiles(const muct_xgmi_copy_args_t *args,
                                              uint64_t dst, uint64_t length,
                                              uint64_t place)
{
    uint32_t shape = muct_xgmi_place_shape(place);

    return (shape == 0)
               ? muct_xgmi_tile_count(dst, length)
               : muct_xgmi_shape_tiles(&args->shapes[shape - 1], (uint32_t)length);
}


/** First tile of a thread block; that of the block behind the last begins the tail. */
MUCT_XGMI_FUNC uint64_t muct_xgmi_block_tile(const muct_xgmi_copy_args_t *args,
                                             uint32_t block)
{
    uint32_t extra = (block < args->extra_blocks) ? block : args->extra_blocks;

    return (args->block_tiles * block) + extra;
}


/** Whether a monotonic flag, which may wrap around, has reached @a sequence. */
MUCT_XGMI_FUNC int muct_xgmi_flag_reached(uint32_t flag, uint32_t sequence)
{
    return (int32_t)(flag - sequence) >= 0;
}

#endif
