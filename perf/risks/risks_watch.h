/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_WATCH_H
#define RISKS_WATCH_H

/** @file Risks of a kernel that reads behind a flag. */

#define RISKS_MAX_PIECES 4096

/** Does a kernel that spins already ever see an old byte behind the flag of a list? */
void risk_consumer(unsigned rounds, unsigned num_pieces);

/** Does such a kernel see an old byte behind the number that follows a small copy? */
void risk_mark(unsigned rounds);

/** Does such a kernel see an old byte after UCP's flush of a small put by a NIC, which
 * the host reports to it? */
void risk_nic_flush(unsigned rounds);

#endif
