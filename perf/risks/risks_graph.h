/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef RISKS_GRAPH_H
#define RISKS_GRAPH_H

/** @file Risks of graphs. */

/**
 * Is every byte right of a graph that is replayed beside copies, and of those?
 *
 * @param [in] copy  Copies RISKS_COPIED bytes of local to remote, in several ways.
 */
void risk_replay(unsigned rounds, void (*copy)(void *));

#endif
