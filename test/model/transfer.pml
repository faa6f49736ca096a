/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The two sides of one leg of a WRITE, after src/xfer: what leg.c, leg_receive.c,
 * early.c, reply.c and tombstone.c do, with the states of state.c. One pair (id, epoch)
 * is opened INSTANCES times on each side. Messages come in order: that is inbox.pml's.
 *
 * Anything may happen in any order: either side gives up at any time, before the other
 * has opened, too; a put lands at any time between its call and the end of the flush;
 * the active side dies, and what it gave to the hardware still lands.
 *
 * OPEN is left out: it changes nothing unless both sides are active. So is ARRIVED, which
 * changes no state: it is sent behind a flush, and FIN waits for it.
 *
 * What must hold is asserted where it could break:
 *   - no byte lands in memory that is quiet, or of another instance (the one sentence);
 *   - DONE comes after the last byte, on both sides, and never to one whose other side
 *     was told of a failure before it had sent FIN;
 *   - each side comes to an end: a run that gets stuck is an invalid end state.
 *
 * contrib/check_model.sh searches all of it, also with a rule taken out.
 *
 * The table of tombstones may lose entries: no assertion needs them.
 *
 * holds: DEATH, WITHOUT_TOMBSTONES, DEATH+WITHOUT_TOMBSTONES
 * breaks: WITHOUT_DOUBT, WITHOUT_FLUSH, WITHOUT_NONCES, WITHOUT_CANCEL+WITHOUT_TOMBSTONES
 * breaks: WITHOUT_DRAINED_IN_TERM, WITHOUT_WORD_OF_DRAINED, WITHOUT_QUIET, DEATH+WITHOUT_PROOF
 */

#ifndef INSTANCES
#define INSTANCES 2
#endif
#define PUTS 2
#define FRESH 99 /* a nonce that is nobody's */

mtype = { EXPOSE, BIND, FIN, TERM, DRAINED };
mtype = { CLOSED, WAITING, EXPOSED, BOUND, SEALED, FINISHED, TOLD, SILENT, LOST };
mtype = { ARRIVED, GIVEN, FLUSHING };

chan to_p = [7] of { mtype, byte, byte, bool, bool }; /* type, from, to, drained, answer */
chan to_a = [7] of { mtype, byte, byte, bool, bool };

typedef side_t {
    mtype state = CLOSED;
    byte nonce;
    byte remote;
    bool is_terminal;
    bool is_done;
    bool is_peer_drained;
    bool is_answer;
    byte early;       /* EXPOSE that came before the open, by its nonce */
    byte early_abort; /* TERM that did */
    bool tombstones[INSTANCES + 1]; /* of the other side's instances, by number */
    byte num_opened;
};

side_t a, p;

/* Numbers of instances: passive 1.., active 11.. */
#define A_NONCE(i) (10 + (i))
#define INDEX(nonce) ((nonce) > 10 -> (nonce) - 10 : (nonce))
#define KNOWN(nonce) ((nonce) != 0 && (nonce) != FRESH)

mtype puts = ARRIVED;
byte flying;       /* puts that were given and have not landed */
byte target;       /* whose memory they go to */
byte running;      /* calls that have not come back */
byte num_landed;   /* of the instance that is open */
byte num_given;
bool is_dead;      /* the active process */
bool is_harmless;  /* and it is proven that nothing of it lands any more */
bool is_p_quiet;   /* of the instance that is open at the passive side */
bool has_exposed;

/* All that was opened is closed; who does not come here is stuck. */
#define IS_OVER (p.state == CLOSED && p.num_opened == INSTANCES && empty(to_p) && \
    (is_dead || (a.state == CLOSED && a.num_opened == INSTANCES && empty(to_a))))

#ifdef WITHOUT_DRAINED_IN_TERM
#define A_DRAINED true
#else
#define A_DRAINED (running == 0 && puts == ARRIVED)
#endif

/* ---- Ending by error ---- */

inline a_terminate()
{
    a.is_terminal = true;
    if
    :: a.state == FINISHED || a.state == TOLD || a.state == SILENT -> skip
    :: else ->
        to_p!TERM(a.nonce, a.remote, A_DRAINED, a.is_answer);
        a.state = (A_DRAINED -> SILENT : TOLD)
    fi
}

/* the passive side has nothing in flight */
inline p_terminate()
{
    p.is_terminal = true;
    if
    :: p.state == FINISHED || p.state == TOLD || p.state == SILENT -> skip
    :: else ->
        to_a!TERM(p.nonce, p.remote, true, p.is_answer);
        p.state = SILENT
    fi
}

/* A TERM was taken: it is answered by DRAINED, not by TERM */
inline a_step_terminal()
{
    if
    :: a.state == TOLD && running == 0 && puts == ARRIVED ->
        to_p!DRAINED(a.nonce, a.remote, true, false);
        a.state = SILENT
    :: else -> skip
    fi
}

/* ---- The active side ---- */

#ifdef WITHOUT_NONCES
#define ADDRESSED(side) (side.state != CLOSED)
#else
#define ADDRESSED(side) (side.state != CLOSED && \
    ((to == side.nonce && (side.remote == 0 || side.remote == from)) || \
     (to == 0 && type == TERM && (side.remote == 0 || side.remote == from))))
#endif

#ifdef WITHOUT_TOMBSTONES
#define IS_BURIED(side) false
#else
#define IS_BURIED(side) (KNOWN(from) && side.tombstones[INDEX(from)])
#endif

inline a_exposed(nonce_)
{
    a.remote = nonce_;
    to_p!BIND(a.nonce, a.remote, false, false);
    a.state = BOUND
}

inline a_receive_expose()
{
    if
    :: IS_BURIED(a) || (a.state != CLOSED && a.remote == from) -> skip /* stale */
    :: else ->
        if
        :: a.state == WAITING && a.remote == 0 && !a.is_terminal -> a_exposed(from)
        :: else -> a.early = from; a.early_abort = 0 /* it takes the place of what was before */
        fi
    fi
}

inline a_receive_term()
{
#ifdef WITHOUT_CANCEL
    if :: a.early == from && !ADDRESSED(a) -> a.early = 0 :: else -> skip fi;
#else
    if :: a.early == from -> a.early = 0 :: else -> skip fi;
#endif
    if
    :: !ADDRESSED(a) ->
        if
        :: to == 0 && !answer && !IS_BURIED(a) -> a.early_abort = from
        :: else -> skip
        fi;
        to_p!DRAINED((to != 0 -> to : FRESH), from, true, false)
    :: else ->
        a.remote = from;
        a.is_peer_drained = a.is_peer_drained || drained;
        if
        :: a.state == FINISHED || a.state == SILENT ->
            to_p!DRAINED((to != 0 -> to : FRESH), from, true, false)
        :: a.state == TOLD -> skip
        :: else ->
            a.state = TOLD;
            a.is_terminal = true;
            a_step_terminal()
        fi
    fi
}

inline a_receive_drained()
{
    if :: a.early == from -> a.early = 0 :: else -> skip fi;
    if :: ADDRESSED(a) -> a.is_peer_drained = true :: else -> skip fi
}

inline a_receive()
{
    if
    :: type == EXPOSE -> a_receive_expose()
    :: type == TERM -> a_receive_term()
    :: type == DRAINED -> a_receive_drained()
    :: else -> assert(false) /* not the passive side's to send */
    fi
}

inline a_open()
{
    a.num_opened++;
    a.nonce = A_NONCE(a.num_opened);
    a.state = WAITING;
    a.remote = 0;
    a.is_terminal = false;
    a.is_done = false;
    a.is_peer_drained = false;
    a.is_answer = false;
    num_given = 0;
    if
    :: a.early_abort != 0 ->
        a.early_abort = 0;
        a.is_answer = true;
        a_terminate()
    :: else -> skip
    fi;
    if
    :: a.early != 0 ->
        from = a.early;
        a.early = 0;
        a_receive_expose()
    :: else -> skip
    fi
}

/* Its callers may have it only when it is quiet: nothing of it is in flight */
inline a_close()
{
    if :: KNOWN(a.remote) -> a.tombstones[INDEX(a.remote)] = true :: else -> skip fi;
    a.state = CLOSED
}

active proctype Active()
{
    mtype type;
    byte from, to;
    bool drained, answer;

    do
    :: is_dead -> break
    :: IS_OVER -> break
    :: atomic { !is_dead && nempty(to_a) -> to_a?type, from, to, drained, answer; a_receive() }
    :: atomic { !is_dead && a.state == CLOSED && a.num_opened < INSTANCES -> a_open() }
    :: atomic { !is_dead && a.early != 0 -> /* its time is over, and its sender may wait on */
           to_p!TERM(FRESH, a.early, true, false);
           a.early = 0 }

    /* posting, completing, flushing */
    :: atomic { !is_dead && a.state == BOUND && !a.is_terminal && num_given < PUTS ->
           assert(p.nonce == a.remote || flying == 0);
           target = a.remote;
           flying++; running++; num_given++;
           puts = GIVEN }
    :: atomic { !is_dead && running > 0 -> running--; a_step_terminal() }
    :: atomic { !is_dead && a.state == BOUND && !a.is_terminal && num_given == PUTS -> a.state = SEALED }
    :: atomic { !is_dead && puts == GIVEN && running == 0 && (a.state == SEALED || a.is_terminal) ->
#ifdef WITHOUT_FLUSH
           puts = ARRIVED;
           a_step_terminal()
#else
           puts = FLUSHING
#endif
       }
    :: atomic { !is_dead && puts == FLUSHING && flying == 0 -> puts = ARRIVED; a_step_terminal() }
    :: atomic { !is_dead && a.state == SEALED && !a.is_terminal && running == 0 && puts == ARRIVED ->
           to_p!FIN(a.nonce, a.remote, false, false);
           a.state = FINISHED; a.is_terminal = true; a.is_done = true;
#ifndef WITHOUT_FLUSH
           assert(flying == 0);
#endif
           skip }

    :: atomic { !is_dead && a.state != CLOSED && !a.is_terminal -> a_terminate() } /* abort, deadline */
    :: atomic { !is_dead && a.state != CLOSED && a.is_terminal && running == 0 && puts == ARRIVED -> a_close() }
    od
}

/* ---- The passive side ---- */

inline p_receive_bind()
{
    if
    :: ADDRESSED(p) ->
        p.remote = from;
        if
        :: p.is_terminal -> skip
        :: p.state == EXPOSED -> p.state = BOUND
        :: else -> assert(false) /* it comes once, after EXPOSE */
        fi
    :: else -> skip
    fi
}

inline p_receive_fin()
{
    if
    :: ADDRESSED(p) ->
        p.is_peer_drained = true;
        if
        :: p.is_terminal -> skip
        :: p.state == BOUND ->
            p.state = FINISHED;
            p.is_terminal = true;
            p.is_done = true;
            assert(num_landed == PUTS) /* DONE is visible data */
        :: else -> assert(false)
        fi
    :: else -> skip
    fi
}

inline p_receive_term()
{
    if
    :: !ADDRESSED(p) ->
        if
        :: to == 0 && !answer && !IS_BURIED(p) -> p.early_abort = from
        :: else -> skip
        fi;
        to_a!DRAINED((to != 0 -> to : FRESH), from, true, false)
#ifndef WITHOUT_DOUBT
    :: ADDRESSED(p) && to == 0 && p.remote == 0 ->
        /* It had not heard of this one: another may have, and is asked */
        if
        :: !p.is_terminal -> p.is_answer = true; p_terminate()
        :: else -> skip /* our TERM is on its way, and will be answered */
        fi
#endif
    :: else ->
        p.remote = from;
#ifdef WITHOUT_WORD_OF_DRAINED
        p.is_peer_drained = true;
#else
        p.is_peer_drained = p.is_peer_drained || drained;
#endif
        if
        :: p.state == FINISHED || p.state == SILENT ->
            to_a!DRAINED((to != 0 -> to : FRESH), from, true, false)
        :: else ->
            to_a!DRAINED(p.nonce, p.remote, true, false);
            p.state = SILENT;
            p.is_terminal = true
        fi
    fi
}

inline p_receive()
{
    if
    :: type == BIND -> p_receive_bind()
    :: type == FIN -> p_receive_fin()
    :: type == TERM -> p_receive_term()
    :: type == DRAINED ->
        if :: ADDRESSED(p) -> p.is_peer_drained = true :: else -> skip fi
    :: else -> assert(false)
    fi
}

inline p_open()
{
    p.num_opened++;
    p.nonce = p.num_opened;
    p.state = WAITING;
    p.remote = 0;
    p.is_terminal = false;
    p.is_done = false;
    p.is_peer_drained = false;
    p.is_answer = false;
    is_p_quiet = false;
    num_landed = 0;
    if
    :: p.early_abort != 0 ->
        p.early_abort = 0;
        p.is_answer = true;
        p_terminate()
    :: else -> skip
    fi
}


active proctype Passive()
{
    mtype type;
    byte from, to;
    bool drained, answer;

    do
    :: IS_OVER -> break
    :: atomic { nempty(to_p) -> to_p?type, from, to, drained, answer; p_receive() }
    :: atomic { p.state == CLOSED && p.num_opened < INSTANCES -> has_exposed = false; p_open() }
    :: atomic { p.state == WAITING && !p.is_terminal && !is_dead ->
           to_a!EXPOSE(p.nonce, 0, false, false); has_exposed = true; p.state = EXPOSED }
    :: atomic { p.state != CLOSED && !p.is_terminal -> p_terminate() } /* abort, deadline, the peer's end */
    :: atomic { p.state != CLOSED && p.is_terminal && !is_p_quiet &&
#ifdef WITHOUT_QUIET
                true
#else
                (!has_exposed || p.state == FINISHED || p.is_peer_drained || is_harmless)
#endif
                -> is_p_quiet = true }
    :: atomic { p.state != CLOSED && p.is_terminal && is_p_quiet ->
           if :: KNOWN(p.remote) -> p.tombstones[INDEX(p.remote)] = true :: else -> skip fi;
           p.state = CLOSED }
    od
}

/* ---- The hardware ---- */

active proctype Hardware()
{
    do
    :: IS_OVER && flying == 0 -> break
    :: atomic { flying > 0 ->
           assert(p.state != CLOSED && p.nonce == target && !is_p_quiet);
           num_landed++;
           flying-- }
#ifdef DEATH
    :: atomic { !is_dead && (a.num_opened > 0) -> is_dead = true }
#ifdef WITHOUT_PROOF
    :: atomic { is_dead && !is_harmless -> is_harmless = true }
#else
    :: atomic { is_dead && flying == 0 && empty(to_p) && !is_harmless -> is_harmless = true }
#endif
#endif
    od
}
