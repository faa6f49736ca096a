/* SPDX-License-Identifier: BSD-3-Clause */

#include "wire/utf8.h"

#include <stdint.h>
#include <string.h>

/* First bytes of characters, and the second bytes that RFC 3629 allows after them. Two
 * bytes from c2 80 to c2 9f are control characters. */
static const struct {
    uint8_t first, last, second_min, second_max, size;
} mkv_utf8_rows[] = {
    {0x20, 0x7e, 0, 0, 1},       {0xc2, 0xc2, 0xa0, 0xbf, 2},
    {0xc3, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
    {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

/* @return Bytes of the character at the front; 0: there is no printable one. */
static size_t mkv_utf8_size(const uint8_t *p, size_t length)
{
    size_t size, i, k;

    for (i = 0; i < sizeof(mkv_utf8_rows) / sizeof(mkv_utf8_rows[0]); ++i) {
        if ((p[0] >= mkv_utf8_rows[i].first) && (p[0] <= mkv_utf8_rows[i].last)) {
            break;
        }
    }
    if (i == sizeof(mkv_utf8_rows) / sizeof(mkv_utf8_rows[0])) {
        return 0;
    }
    size = mkv_utf8_rows[i].size;
    if ((size > length) || ((size > 1) && ((p[1] < mkv_utf8_rows[i].second_min) ||
                                           (p[1] > mkv_utf8_rows[i].second_max)))) {
        return 0;
    }
    for (k = 2; k < size; ++k) {
        if ((p[k] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return size;
}

bool mkv_utf8_copy(char *text, size_t size, const void *data, size_t length)
{
    const uint8_t *p = data, *end = p + length;
    bool is_same = true;
    size_t next;

    while (p < end) {
        next = mkv_utf8_size(p, (size_t)(end - p));
        if (((next > 0) ? next : 1) >= size) {
            is_same = false;
            break;
        }
        if (next > 0) {
            memcpy(text, p, next);
        } else {
            *text = '?';
            is_same = false;
            next = 1;
        }
        text += next;
        size -= next;
        p += next;
    }
    *text = '\0';
    return is_same;
}
