/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PORT_H
#define MKV_PORT_H

/**
 * @file
 * A TCP port for a program that needs its number, such as ucx_perftest.
 *
 * The kernel chooses it, and the kept socket reserves it: no other program gets this
 * port, from the kernel or by number, but a server that sets SO_REUSEADDR may listen
 * there any number of times. So tests may run beside one another.
 */


/**
 * Reserve a port on all addresses of this machine.
 *
 * @param [out] port  Its number.
 *
 * @return Socket whose close() releases the port, or -1 with errno set.
 */
int mkv_port_keep(unsigned *port);


#endif
