/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef PERF_TABLE_H
#define PERF_TABLE_H

/**
 * @file
 * Tables on stdout, printed row by row; an array of the tool describes the columns. No
 * side effects but stdout.
 */

#include <stdbool.h>
#include <stddef.h>

/** Characters of a line, without and with --wide. A narrower terminal sets the width if
 * it has room for a row without a note. */
#define PERF_TABLE_WIDTH 100
#define PERF_TABLE_NARROW 76
#define PERF_TABLE_WIDE 200

/** Value of a row in one column: text where the column's width is negative, else a
 * number. */
typedef struct perf_cell {
    double number;
    const char *text;
} perf_cell_t;

typedef struct perf_column {
    const char *name;
    const char *unit; /**< Unit, printed under the name; "": none */
    int width;        /**< Least characters; negative: text, aligned to the left */
    int digits;       /**< Decimals of numbers */
    bool is_wide;     /**< Shown in wide tables alone */
} perf_column_t;

typedef struct perf_table {
    const perf_column_t *columns;
    size_t num_columns;
    bool is_wide;
} perf_table_t;

/** Print the two lines of the head: names and units. */
void perf_table_head(const perf_table_t *table);

/**
 * Print one row.
 *
 * @param [in] cells  One for each column, those not shown included.
 * @param [in] note   Behind the last column, or in a line of its own; "": none.
 */
void perf_table_row(const perf_table_t *table, const perf_cell_t *cells,
                    const char *note);

/** Print words that fit the table's width; lines after the first one are indented. */
void perf_table_text(const perf_table_t *table, const char *text);

#endif
