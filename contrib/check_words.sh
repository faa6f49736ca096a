#!/bin/bash
# Plain technical English: comments and log texts have a subject and a verb. This counts
# sentences that begin with a pronoun or a fragment, people as subjects of code ("who",
# "nobody"), and code that tells, hears or asks. Each part has limits; subjects of commits
# are in check_commits.sh.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

# Most permille of the comments of a part: fragment first, "who", "tell". The aim is
# 30 5 10 everywhere; a limit only goes down.
limits_of() { # PART
    case $1 in
    src) echo 30 5 10 ;;
    ucx_plugin) echo 30 8 10 ;;
    perf) echo 30 5 10 ;;
    test) echo 30 5 10 ;;
    logs) echo 30 5 30 ;;
    esac
}

# "FILE:LINE TEXT" of each comment of 15 characters and more, or log text.
texts() { # DIR PART
    python3 - "$1" "$2" <<'END'
import os, re, sys

top, part = sys.argv[1:]


def files(folders, suffixes):
    for folder in folders:
        for place, _, names in os.walk(os.path.join(top, folder)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.join(place, name)


def comments(path, text):
    for found in re.finditer(r"/\*(.*?)\*/", text, re.S):
        lines = (line.strip().lstrip("*").lstrip("<! ").strip() for line in found[1].split("\n"))
        sentence = re.sub(r"^@(return|file|param \[\w+\] +\w+)\s*", "", " ".join(lines).strip())
        if len(sentence) >= 15 and "SPDX" not in sentence and not sentence.startswith("---"):
            yield path, text[: found.start()].count("\n") + 1, sentence


def logs(path, text):
    call = r"\b(?:muct|mkv)_(?:log_)?(?:error|warn|diag|info|debug|fatal)\(\s*((?:\"(?:[^\"\\]|\\.)*\"\s*|PRI\w+\s*)+)"
    for found in re.finditer(call, text):
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[1]))
        yield path, text[: found.start()].count("\n") + 1, words


if part == "logs":
    found = [x for p in files(["src", "ucx_plugin"], (".c", ".h")) for x in logs(p, open(p).read())]
else:
    found = [x for p in files([part], (".c", ".h", ".hip")) for x in comments(p, open(p).read())]
for path, line, text in found:
    print(f"{os.path.relpath(path, top)}:{line} {text}")
END
}

declare -A patterns=()
patterns[fragment]='^[^ ]+ (Who|Whoever|Whose|What|Whatever|Of|Those|None|One|Another|It|They|That|Such|Nobody|Neither|Both|Not|As|Else|With|Without|Only|Where|Behind|Before|After|By|From|To|In|Also|Until|Taken|Told|Asked)\b'
patterns[people]='\b([Ww]ho|[Ww]hoever|[Nn]obody|[Ss]omebody)\b'
patterns[speech]="\b(is told|are told|is asked|is heard|[Hh]ears?|[Tt]ells?|[Tt]old|is dear|another's|another one's)\b"

check_part() { # DIR PART
    local all total kind pattern count most rc=0
    local -a limits
    all=$(texts "$1" "$2")
    [ -n "$all" ] || return 0
    total=$(wc -l <<<"$all")
    read -ra limits <<<"$(limits_of "$2")"
    for kind in fragment people speech; do
        pattern=${patterns[$kind]}
        count=$(grep -cP "$pattern" <<<"$all")
        most=${limits[0]}
        limits=("${limits[@]:1}")
        [ $((1000 * count)) -le $((most * total + 999)) ] || {
            echo "$2: $count of $total begin or speak as '$kind' does; at most $most in 1000 may:"
            grep -P "$pattern" <<<"$all" | head -n 20
            rc=1
        }
        echo "$2: $kind $((1000 * count / total)) of 1000"
    done
    return $rc
}

check() { # DIR
    local part rc=0

    for part in src ucx_plugin perf test logs; do
        check_part "$1" "$part" || rc=1
    done
    return $rc
}

samples() {
    printf '/* Who sleeps does not hear messages. */\n/* Nobody is told of it. */\n' | write src/a.c
    bad 'a dialect' "src: 2 of 2 begin or speak as 'fragment'"
    printf 'void f(void)\n{\n    muct_warn("who sleeps does "\n              "not hear messages");\n    muct_diag("nobody waits here");\n}\n' |
        write ucx_plugin/a.c
    bad 'a log text' "logs: 2 of 2 begin or speak as 'people'"
    printf '/** A blocked wait misses messages that arrive meanwhile. */\n' | write src/a.h
    good 'plain words'
}

tool python3
main "$@"
