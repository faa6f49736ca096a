/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MUCT_LOADER_CORE_H
#define MUCT_LOADER_CORE_H

/**
 * @file
 * Interface of a core to the loader.
 *
 * A core is the module proper, mori-core-1.N.so, compiled against the headers of UCX
 * 1.N. It names no UCX library as a dependency and all of its references to UCX are
 * weak, so that it can be opened anywhere. No code in it may run before the loader has
 * pointed those references at one UCX (@ref muct_loader_bind): it has no constructors.
 */

/** Name of a core's only exported symbol, of type @ref muct_core_register_func_t */
#define MUCT_CORE_REGISTER "muct_core_register"

/**
 * Register the transports with the UCX this core was bound to. A second call finds them
 * registered and does nothing.
 *
 * @param [in] core  This core's file, for the log.
 * @param [in] ucs   UCX's file that it was bound to, for the log.
 */
typedef void (*muct_core_register_func_t)(const char *core, const char *ucs);

#endif
