/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The order of messages, after src/message/inbox.c: a sender numbers them, UCX delivers them
 * over several lanes in any order, and here twice as well. The sequence begins at a number
 * that the receiver learns from HELLO, and messages of a former connection of the same
 * two processes may still be on their way: their numbers are far away.
 *
 * What must hold: the receiver dispatches each message of this connection once, in order,
 * and none of the former; when all have come, none waits.
 *
 * holds: TWICE
 * breaks: WITHOUT_ORDER, TWICE+WITHOUT_ONCE, WITHOUT_WINDOW, WITHOUT_START
 */

#define NUM 4       /* messages, the first one is HELLO */
#define FIRST 10    /* its number, chosen at random */
#define WINDOW 6
#define FORMER 30   /* the number of one of the former connection, which is no HELLO */

bool on_way[NUM];   /* by number, less FIRST */
bool again[NUM];    /* and once more */
bool former_on_way = true;

bool is_started;
byte next = 0;      /* rx_seq, once started; before it the answer's number, never a HELLO's */
bool waits[NUM];
byte num_waiting;
bool former_waits;
byte num_dispatched;

inline dispatch(number)
{
    assert(number == num_dispatched); /* in order, and once */
    num_dispatched++
}

inline resume()
{
    do
    :: next >= FIRST && next < FIRST + NUM && waits[next - FIRST] ->
        waits[next - FIRST] = false;
        num_waiting--;
        next++;
        dispatch(next - 1 - FIRST)
    :: else -> break
    od
}

/* HELLO starts the sequence; what came before it is looked at again */
inline start(number)
{
#ifndef WITHOUT_START
    if
    :: !is_started && number == 0 -> is_started = true; next = FIRST; former_waits = false
    :: else -> skip
    fi
#else
    if
    :: !is_started -> is_started = true; next = FIRST + number
    :: else -> skip
    fi
#endif
}

inline receive(number)
{
    start(number);
    if
#ifndef WITHOUT_ORDER
    :: is_started && FIRST + number == next -> next++; dispatch(number); resume()
#else
    :: is_started && FIRST + number >= next -> next = FIRST + number + 1; dispatch(number)
#endif
    :: is_started && FIRST + number < next ->
#ifdef WITHOUT_ONCE
        dispatch(number)
#else
        skip /* stale */
#endif
    :: else ->
        if
        :: waits[number] -> skip /* several equal numbers are one message */
        :: else -> waits[number] = true; num_waiting++
        fi
    fi
}

inline receive_former()
{
    if
#ifdef WITHOUT_WINDOW
    :: is_started -> assert(false) /* it is taken for one of this connection */
#else
    :: is_started && FORMER - next >= WINDOW -> skip /* stale */
#endif
    :: !is_started -> former_waits = true
    fi
}

active proctype Sender()
{
    byte i;

    for (i : 0 .. NUM - 1) {
        atomic {
            on_way[i] = true;
#ifdef TWICE
            again[i] = true
#endif
        }
    }
}

active proctype Receiver()
{
    byte i;

    do
    :: atomic { select (i : 0 .. NUM - 1); if
        :: on_way[i] -> on_way[i] = false; receive(i)
        :: !on_way[i] && again[i] -> again[i] = false; receive(i)
        :: else -> skip
        fi }
    :: atomic { former_on_way -> former_on_way = false; receive_former() }
    :: atomic { num_dispatched == NUM && !former_on_way && !again[0] && !again[1] && !again[2] && !again[3] ->
           assert(num_waiting == 0 && !former_waits);
           break }
    od
}
