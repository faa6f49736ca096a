#!/bin/bash
# Reject names that two suites on one machine would share: TCP ports by number, names under /tmp and
# /dev/shm that each run has, programs that are killed by name. Instead the kernel chooses a port,
# which stays bound (test/support/mkv_port.h, keep_port, ports.py). A folder is made by mkdtemp or
# mktemp. Other names contain the process's number. A line that is exempt has the reason after "#
# beside: ".
# TS-13
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

folder='(?<![\w}.)*])/(tmp|var/tmp|dev/shm)/(?![^"'\'' ]*(XXXXXX|%|\$|\*))[\w.-]'
port='\bports?["\x27]?\)?( *[:=] *|[ (=]+)(\$\(+)?[\[{("\x27]*([1-9]\d{3,4}\b|RANDOM|[^,;]*\$\$ *%)'
address='(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)["\x27]?[:,] *[1-9]\d{2,4}\b|htons\(\(?[a-z_0-9 ]*\)?[1-9]\d{2,4}\)|(?<=[\w.] )-p [1-9]\d{3,4}\b'
table='\bPORTS?\b *(:[^=]*)?= *.*\b[1-9]\d{3,4}\b'
killing='(^|[\s;&|("])(pkill|killall|fuser -k)\s'

# A virtual machine's guest has /tmp and ports of its own; the package is the user's.
is_apart() { # PATH
    case $1 in
    test/vm/jobs/* | test/vm/rdma.sh | test/vm/serve.sh | contrib/python/morikv/* | contrib/build-aux/*) return 0 ;;
    *.md | perf/results/* | contrib/check_beside.sh) return 0 ;;
    esac
    return 1
}

check() { # DIR
    local path rc=0
    local -a files=()
    cd "$1" || return 1

    while IFS= read -r path; do
        is_apart "$path" || files+=("$path")
    done < <(for path in test perf contrib; do [ ! -d $path ] || find $path -type f; done | sort)
    [ ${#files[@]} -gt 0 ] || return 0
    complain 'a folder that every run would have: mkdtemp, mktemp or the number of the process' "$folder" "${files[@]}" || rc=1
    complain 'a port by number: test/support/mkv_port.h, keep_port or ports.py keeps one' "$port|$address|$table" "${files[@]}" || rc=1
    complain 'programs by name are those of other runs as well' "$killing" "${files[@]}" || rc=1
    return $rc
}

complain() { # TEXT PATTERN FILE...
    local text=$1 found
    found=$(grep -nHIP "$2" "${@:3}" | grep -v '# beside: ' | cut -c1-140)
    [ -z "$found" ] || {
        echo "$text:"
        echo "$found"
        return 1
    }
}

# shellcheck disable=SC2016
samples() {
    echo 'mkdir("/tmp/case", 0700);' | write test/a.c
    bad 'a folder under /tmp' 'test/a.c:1'
    echo 'dir=/dev/shm/case' | write perf/a.sh
    bad 'a folder under /dev/shm' 'perf/a.sh:1'
    echo 'port=$((20000 + $$ % 4000 * 3))' | write test/a.sh
    bad 'a port by the process' 'test/a.sh:1'
    echo 'port=$((13400 + (RANDOM % 1000)))' | write test/a.sh
    bad 'a port by chance' 'test/a.sh:1'
    echo 'PORTS = {"kv_producer": 5600, "kv_consumer": 5800}' | write test/a.py
    bad 'a table of ports' 'test/a.py:1'
    echo 'addr.sin_port = htons(13337);' | write test/a.c
    bad 'a port in C' 'test/a.c:1'
    echo 'probe.bind(("127.0.0.1", 8000))' | write contrib/a.py
    bad 'a port that is bound' 'contrib/a.py:1'
    echo 'ucx_perftest -p 13337 -t tag_lat' | write test/a.sh
    bad 'a port as an option' 'test/a.sh:1'
    echo 'pkill -f ucx_perftest' | write test/a.sh
    bad 'a program by name' 'test/a.sh:1'
    {
        echo 'char dir[] = "/tmp/case.XXXXXX";'
        echo 'snprintf(wire, sizeof(wire), "/tmp/wire.%d", (int)getpid());'
        echo 'ucx_perftest -p "$port" 127.0.0.1'
        echo 'probe.bind(("", 0))'
    } | write test/a.c
    good 'what is of one run'
}

main "$@"
