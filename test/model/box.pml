/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages within a host, after ucx_plugin/xgmi/message: a sender publishes a message in its
 * ring, then sets the ring's bit where that is clear, then rings the bell of a receiver that
 * is armed. The receiver looks at rings with a bit, clears the bit of a quiet one, and
 * sleeps until its bell rings. Stores that are not in the one order of sequential consistency
 * stay in a store buffer, and become visible at any later time or with the next exchange.
 *
 * What must hold: the receiver gets all messages. A message that is lost, or left while the
 * receiver sleeps, is an end of this model with a receiver that waits.
 *
 * breaks: WITHOUT_BIT, WITHOUT_LAST_LOOK, BIT_BEFORE_MESSAGE, BUFFERED_MESSAGE, WITHOUT_BELL, BUFFERED_ARM, ARM_AFTER_LOOK
 */

#define NUM 3

byte published, written;  /* messages: visible, and with those in the sender's store buffer */
bool is_armed, arming;    /* visible, and in the receiver's store buffer */
bool is_ready, is_rung;
byte num_got;

inline publish()
{
    written++;
#ifndef BUFFERED_MESSAGE
    published = written
#endif
}

inline set_bit()
{
#ifdef WITHOUT_BIT
    skip
#else
    if
    :: !is_ready -> atomic { published = written; is_ready = true }
    :: else -> skip
    fi
#endif
}

active proctype Sender()
{
    byte i;

    for (i : 1 .. NUM) {
#ifdef BIT_BEFORE_MESSAGE
        set_bit();
        publish();
#else
        publish();
        set_bit();
#endif
#ifndef WITHOUT_BELL
        if
        :: is_armed ->
            atomic {
                published = written;
                is_rung = is_rung || is_armed; /* an exchange: the receiver may be awake again */
                is_armed = false
            }
        :: else -> skip
        fi
#endif
    }
}

active proctype Sender_buffer()
{
end:
    do
    :: atomic { published != written -> published = written }
    od
}

active proctype Receiver_buffer()
{
end:
    do
    :: atomic { arming -> arming = false; is_armed = true }
    od
}

inline rest()
{
    is_ready = false;
#ifndef WITHOUT_LAST_LOOK
    if
    :: published > num_got -> is_ready = true
    :: else -> skip
    fi
#endif
}

inline arm()
{
#ifdef BUFFERED_ARM
    arming = true
#else
    is_armed = true
#endif
}

active proctype Receiver()
{
    bool found;

    do
    :: num_got == NUM -> break
    :: num_got < NUM && is_ready ->
        if
        :: published > num_got -> num_got++
        :: else -> if
            :: rest()
            :: skip
            fi
        fi
    :: num_got < NUM ->
        is_rung = false;
#ifndef ARM_AFTER_LOOK
        arm();
#endif
        found = is_ready;
        if
        :: found -> found = (published > num_got)
        :: else -> skip
        fi;
#ifdef ARM_AFTER_LOOK
        arm();
#endif
        if
        :: found -> atomic { arming = false; is_armed = false }
        :: else -> is_rung
        fi
    od
}
