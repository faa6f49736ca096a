/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LIB_H
#define MUCT_LIB_H

/**
 * @file
 * Which files the functions that we call came from: what a user has to name who asks
 * for help, as several releases of a library are often installed side by side.
 */

#include <limits.h>

/**
 * The file of the library that a function is in, with links resolved, as the version is
 * often in the name of what they lead to.
 *
 * @param [in]  function  Where a pointer to the function is.
 * @param [out] path      The file; "unknown" where the linker or the system cannot
 * tell.
 */
void muct_lib_file(const void *function, char path[PATH_MAX]);

#endif
