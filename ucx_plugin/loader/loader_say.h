/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_SAY_H
#define MUCT_LOADER_SAY_H

/**
 * @file
 * A warning, in the form of UCX's own, on standard error: said where no UCX could be
 * bound to, so that UCX's logger cannot be called.
 */

/** Warn; UCX_LOG_LEVEL=error or fatal silences it, as it does UCX's. */
void muct_loader_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
