/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/workload/table.h"

#include <stdio.h>
#include <string.h>

static void perf_table_head_line(const perf_table_t *table, bool is_unit)
{
    const perf_column_t *column;
    const char *space = "";
    size_t i;

    for (i = 0; i < table->num_columns; ++i) {
        column = &table->columns[i];
        if (!column->is_wide || table->is_wide) {
            printf("%s%*s", space, column->width,
                   is_unit ? column->unit : column->name);
            space = " ";
        }
    }
    putchar('\n');
}

void perf_table_head(const perf_table_t *table)
{
    perf_table_head_line(table, false);
    perf_table_head_line(table, true);
}

void perf_table_row(const perf_table_t *table, const perf_cell_t *cells,
                    const char *note)
{
    const perf_column_t *column;
    const char *space = "";
    size_t i;

    for (i = 0; i < table->num_columns; ++i) {
        column = &table->columns[i];
        if (column->is_wide && !table->is_wide) {
            continue;
        }
        if (column->width < 0) {
            printf("%s%*s", space, column->width, cells[i].text);
        } else {
            printf("%s%*.*f", space, column->width, column->digits, cells[i].number);
        }
        space = " ";
    }
    printf("%s%s\n", (note[0] != '\0') ? "  " : "", note);
    fflush(stdout);
}

void perf_table_text(const perf_table_t *table, const char *text)
{
    size_t width = table->is_wide ? PERF_TABLE_WIDE : PERF_TABLE_WIDTH;
    size_t at = 0, word;

    while (*text != '\0') {
        word = strcspn(text, " ");
        if ((at > 0) && (at + 1 + word > width)) {
            at = (size_t)printf("\n ") - 1; /* the line's end takes no place */
        }
        at += (size_t)printf("%s%.*s", (at > 0) ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}
