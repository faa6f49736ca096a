/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_CHUNKS_H
#define RISKS_CHUNKS_H

/** @file Risks of memory that the application maps itself. */

/** Is memory that the application has mapped chunk by chunk described correctly? */
void risk_chunks(void);

/**
 * Are copies right from memory that sleeps, which is unmapped, and wakes at its
 * address?
 *
 * @param [in] copy  Copies RISKS_COPIED bytes of this memory to remote, in several
 * ways.
 */
void risk_wake_up(unsigned rounds, void (*copy)(void *));

/** The same by a NIC: from memory that UCP has registered, into a new registration. */
void risk_nic_anew(unsigned rounds);

#endif
