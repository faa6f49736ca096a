/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_LOG_H
#define MUCT_LOADER_LOG_H

/**
 * @file
 * Warnings on standard error in the format of UCX's logger. The loader prints them
 * itself when it could not bind to a UCX, because that logger is then not available.
 */

/** Log a warning; UCX_LOG_LEVEL=error or fatal silences it, like UCX's warnings. */
void muct_loader_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
