/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LIB_H
#define MUCT_LIB_H

/**
 * @file
 * Files that the functions we call came from. A report of a problem has to name them,
 * as several releases of a library are often installed side by side.
 */

#include <limits.h>

/**
 * File of the library that a function is in, with links resolved, as the version is
 * often in the name of the links' target.
 *
 * @param [in]  function  Where a pointer to the function is.
 * @param [out] path      The file; "unknown" where the linker or the system does not
 *                        report it.
 */
void muct_lib_file(const void *function, char path[PATH_MAX]);

#endif
