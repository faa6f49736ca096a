# shellcheck shell=bash
# Server in a machine that test/vm/hosts.sh directs: runs each incoming line as a command. The
# output is sent back, and after it a line with the exit status, which begins with the byte 1.
host_limit=600 # seconds of a program, on a busy machine

# A program beside the commands: its output is in /tmp/NAME, and at its end its exit status
# in /tmp/NAME.rc.
host_begin() { # NAME CMD...
    local name=$1
    shift

    rm -f "/tmp/$name.rc"
    {
        timeout -k 5 "$host_limit" "$@"
        echo $? >"/tmp/$name.end"
        mv "/tmp/$name.end" "/tmp/$name.rc"
    } >"/tmp/$name" 2>&1 &
}

# Wait for its end; return its output and its exit status.
host_end() { # NAME
    until [ -e "/tmp/$1.rc" ]; do
        sleep 0.1
    done
    cat "/tmp/$1"
    return "$(cat "/tmp/$1.rc")"
}

# Wait until the output of a program matches, or print that output and fail.
wait_for_output() { # NAME PATTERN
    vm_wait grep -q -e "$2" "/tmp/$1" || { cat "/tmp/$1"; return 1; }
}

printf '\001%d\n' 0
while IFS= read -r line; do
    (eval "$line") </dev/null 2>&1
    printf '\001%d\n' $?
done
