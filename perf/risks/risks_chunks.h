/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_CHUNKS_H
#define RISKS_CHUNKS_H

/** @file Risks of memory that the application maps itself. */

/** Is memory that the application has mapped chunk by chunk described correctly? */
void risk_chunks(void);

#endif
