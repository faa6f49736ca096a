/* SPDX-License-Identifier: BSD-3-Clause */

#include "perf/base/table.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Characters of a line: a terminal's, when it has fewer */
static size_t perf_table_width(const perf_table_t *table)
{
    struct winsize size;

    if (table->is_wide) {
        return PERF_TABLE_WIDE;
    }
    if (isatty(STDOUT_FILENO) && (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) &&
        (size.ws_col >= PERF_TABLE_NARROW) && (size.ws_col < PERF_TABLE_WIDTH)) {
        return size.ws_col;
    }
    return PERF_TABLE_WIDTH;
}

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

/* Print the note to the right of the row, or below it if the line has no room */
static void perf_table_note(const perf_table_t *table, size_t at, const char *note)
{
    const char *space = "";

    if (note[0] != '\0') {
        space = (at + 2 + strlen(note) > perf_table_width(table)) ? "\n  " : "  ";
    }
    printf("%s%s\n", space, note);
}

void perf_table_row(const perf_table_t *table, const perf_cell_t *cells,
                    const char *note)
{
    const perf_column_t *column;
    const char *space = "";
    size_t i, at = 0;

    for (i = 0; i < table->num_columns; ++i) {
        column = &table->columns[i];
        if (column->is_wide && !table->is_wide) {
            continue;
        }
        if (column->width < 0) {
            at += (size_t)printf("%s%*s", space, column->width, cells[i].text);
        } else {
            at += (size_t)printf("%s%*.*f", space, column->width, column->digits,
                                 cells[i].number);
        }
        space = " ";
    }
    perf_table_note(table, at, note);
    fflush(stdout);
}

void perf_table_text(const perf_table_t *table, const char *text)
{
    const size_t width = perf_table_width(table);
    size_t at = 0, word;

    while (*text != '\0') {
        word = strcspn(text, " ");
        if ((at > 0) && (at + 1 + word > width)) {
            at = (size_t)printf("\n ") - 1; /* the newline does not count */
        }
        at += (size_t)printf("%s%.*s", (at > 0) ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    putchar('\n');
}
