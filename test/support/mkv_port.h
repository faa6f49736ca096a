/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef MKV_PORT_H
#define MKV_PORT_H

/**
 * @file
 * A TCP port for a program that must be told one, such as ucx_perftest.
 *
 * The kernel chooses it, and the socket that is kept stands for it: nobody else gets
 * this port, from the kernel or by name, but a server that sets SO_REUSEADDR listens
 * there, as often as it likes. So tests may run beside one
 * another.
 */


/**
 * Keep a port, of all addresses of this machine.
 *
 * @param [out] port  Its number.
 *
 * @return Socket whose close() gives the port back, or -1 with errno set.
 */
int mkv_port_keep(unsigned *port);


#endif
