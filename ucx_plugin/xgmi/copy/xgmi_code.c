/* SPDX-License-Identifier: BSD-3-Clause */

#include "xgmi_code.h"

#ifdef HAVE_MUCT_XGMI_CODE
#include "xgmi_code_file.h"
#endif

#include <stdint.h>
#include <string.h>

/* Magic and number of code objects, by which a bundle begins. */
#define MUCT_XGMI_CODE_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define MUCT_XGMI_CODE_COUNT (sizeof(MUCT_XGMI_CODE_MAGIC) - 1)
#define MUCT_XGMI_CODE_HEADER (MUCT_XGMI_CODE_COUNT + sizeof(uint64_t))

#ifdef MUCT_XGMI_CODE_FILE
/* Page-aligned, because the runtime maps the code objects from here. */
__asm__(".section .rodata.muct_xgmi_code, \"a\", @progbits\n"
        ".balign 4096\n"
        ".global muct_xgmi_code\n"
        ".hidden muct_xgmi_code\n"
        ".type muct_xgmi_code, @object\n"
        "muct_xgmi_code:\n"
        ".incbin \"" MUCT_XGMI_CODE_FILE "\"\n"
        ".size muct_xgmi_code, . - muct_xgmi_code\n"
        ".previous\n");

extern const char muct_xgmi_code[];
#else
static const char muct_xgmi_code[MUCT_XGMI_CODE_HEADER] = MUCT_XGMI_CODE_MAGIC;
#endif


const void *muct_xgmi_code_image(void)
{
    return muct_xgmi_code;
}

const char *muct_xgmi_code_archs(void)
{
#ifdef MUCT_XGMI_CODE_ARCHS
    return MUCT_XGMI_CODE_ARCHS;
#else
    return "no GPU";
#endif
}

bool muct_xgmi_code_is_empty(void)
{
    uint64_t count;

    memcpy(&count, muct_xgmi_code + MUCT_XGMI_CODE_COUNT, sizeof(count));
    return count == 0;
}
