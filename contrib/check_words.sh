#!/bin/bash
# Plain technical English: comments, docstrings and log texts have a subject and a verb.
# Counted are sentences that begin with a pronoun or a fragment, people as subjects of code,
# and verbs of speech with code as the subject. The parts are the C code of each folder, its
# log texts, all comments of Python and of shell, make and m4, and the pages. Each part has
# limits. Names of functions and of test cases contain no such word. check_commits.sh looks at
# subjects of commits.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

# Most permille of the comments of a part: fragments, people, speech. The aim is 30 5 10
# everywhere; a limit only goes down.
limits_of() { # PART
    case $1 in
    src) echo 30 5 10 ;;
    ucx_plugin) echo 30 5 10 ;;
    perf) echo 30 5 10 ;;
    test) echo 30 5 10 ;;
    python) echo 30 5 10 ;;
    shell) echo 30 5 10 ;;
    logs) echo 30 5 10 ;;
    pages) echo 1000 5 10 ;; # a sentence of prose may begin with "it" or "with"
    esac
}

# "FILE:LINE TEXT" of each comment of 15 characters and more, or log text.
texts() { # DIR PART
    python3 - "$1" "$2" <<'END'
import ast, io, os, re, sys, tokenize

top, part = sys.argv[1:]


def files(folders, suffixes):
    for folder in folders:
        for place, inside, names in os.walk(os.path.join(top, folder)):
            inside[:] = [name for name in inside if not name.startswith((".", "build"))]
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


def blocks(marks, lines, path):
    """Comments by line; those of adjacent lines in the same column are one."""
    last, column, words = None, None, []
    for number, (start, text) in sorted(marks.items()):
        if text.startswith("#!"):
            continue
        begins = lines[number - 1][:start].strip() == ""
        if begins and (last, column) == (number - 1, start):
            words[-1][1] += " " + text.lstrip("#:").strip()
        else:
            words.append([number, text.lstrip("#:").strip()])
        last, column = (number, start) if begins else (None, None)
    for number, text in words:
        text = " ".join(w for w in re.sub(r"shellcheck [a-z]+=\S+( \S+=\S+)*|SPDX\S+ \S+", "", text).split())
        if len(text) >= 15:
            yield path, number, text


def scripts(kind):
    folders = (".ci", "contrib", "perf", "src", "test", "ucx_plugin")
    found = [os.path.join(top, name) for name in ("Makefile.am", "configure.ac")]
    for folder in folders:
        for place, inside, names in os.walk(os.path.join(top, folder)):
            inside[:] = sorted(i for i in inside if i != "build-aux" and not i.startswith((".", "_")))
            found += [os.path.join(place, name) for name in sorted(names)]
    for path in found:
        name = os.path.basename(path)
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        python, shell = name.endswith(".py"), name.endswith((".sh", ".mk", ".am", ".ac"))
        shell = shell or re.fullmatch(r"mkv_.*\.m4", name) is not None
        if not python and not shell and ("." not in name or name.startswith("mori_")):
            with open(path, errors="replace") as file:
                first = file.readline()
            python = first.startswith("#!/") and "python" in first
            shell = first.startswith("#!/") and not python
        if (python, shell)[kind]:
            yield path


def of_python(path, text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    marks = {t.start[0]: (t.start[1], t.string) for t in tokens if t.type == tokenize.COMMENT}
    yield from blocks(marks, text.split("\n"), path)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = " ".join((ast.get_docstring(node) or "").split())
            if len(words) >= 15:
                yield path, node.body[0].lineno, words


def of_shell(path, text):
    lines = text.split("\n")
    found = ((n, re.search(r"^\s*(#.*)|\s(#\s[^'\"`]*)$", line)) for n, line in enumerate(lines, 1))
    marks = {n: (m.start(m.lastindex), m[m.lastindex]) for n, m in found if m}
    yield from blocks(marks, lines, path)


def sentences(path, text):
    """Of paragraphs, lists and cells of tables, without commands, code and links."""
    text = re.sub(r"^```.*?^```|^    .*?$", lambda m: "\n" * m[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda m: "x" + "\n" * m[0].count("\n"), text)
    for found in re.finditer(r"(?:[^.:;?!|\n]|\n(?!\n|[-|#]|\d\.)|[.:;?!](?!\s))+", text):
        words = " ".join(found[0].split())
        if len(words) >= 15:
            yield path, text[: found.start()].count("\n") + 1, words


if part == "pages":
    found = [x for p in files([""], (".md",)) for x in sentences(p, open(p).read())]
elif part in ("python", "shell"):
    look = (of_python, of_shell)[part == "shell"]
    found = [x for p in scripts(part == "shell") for x in look(p, open(p).read())]
elif part == "logs":
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

person_or_speech='who|whoever|whose|nobody|somebody|tells?|told|hears?|heard|asks?|asked|asking|says?|said|knows?'

# "FILE:LINE:NAME" of each test case that is named after people or after speech of code: cases
# of Check, of the conformance suite's tables, and of Python.
case_names() { # DIR
    local words=$person_or_speech
    local start='START_TEST\(|^ +\{"|^ *def test_'

    (cd "$1" && find test -name '*.c' -o -name '*.py' 2>/dev/null | sort |
        xargs -r grep -noP "(?:$start)\K(?=\w*_)(?:\w+_)?(?:$words)(?:_\w+)?(?=\)|\"|\()" /dev/null) | grep _
}

# The same of each function that is defined or declared in C, Python or shell.
function_names() { # DIR
    local words=$person_or_speech
    local start='^(?:[A-Za-z_][\w *]*[ *])?|^ *(?:async )?def '

    (cd "$1" && find src ucx_plugin perf test contrib -type f ! -name '*.md' ! -path '*/__pycache__/*' 2>/dev/null | sort |
        xargs -r grep -InoP "(?:$start)\K(?<!return )(?<!else )(?:\w+_)?(?:$words)(?:_\w+)?(?=\()" /dev/null)
}

check() { # DIR
    local part names rc=0

    names=$(case_names "$1"; function_names "$1")
    [ -z "$names" ] || { echo "name in terms of the field: $names" && rc=1; }
    for part in src ucx_plugin perf test logs python shell pages; do
        check_part "$1" "$part" || rc=1
    done
    return $rc
}

# shellcheck disable=SC2016
samples() {
    printf '/* Who sleeps does not hear messages. */\n/* Nobody is told of it. */\n' | write src/a.c
    bad 'a dialect' "src: 2 of 2 begin or speak as 'fragment'"
    printf 'void f(void)\n{\n    muct_warn("who sleeps does "\n              "not hear messages");\n    muct_diag("nobody waits here");\n}\n' |
        write ucx_plugin/a.c
    bad 'a log text' "logs: 2 of 2 begin or speak as 'people'"
    printf '# Who sleeps\n# hears nothing.\nprint("# what it is")  # Nobody is told of it.\n' | write perf/a.py
    bad 'comments of Python' "python: 2 of 2 begin or speak as 'fragment'"
    printf '"""Code that tells."""\n\n\ndef f():\n    """What a caller is told."""\n' | write test/a.py
    bad 'docstrings' "python: 2 of 2 begin or speak as 'speech'"
    printf '#!/bin/sh\n# Whoever runs this\n# is asked.\nrun # nobody waits for it\n' | write contrib/run
    bad 'comments of a script' "shell: 2 of 2 begin or speak as 'people'"
    printf '# One\n\nThe receiver is told of it. Nobody waits for it.\n\n    run  # nobody\n\n| who sleeps here | `who` |\n' | write docs/a.md
    bad 'a page' "pages: 2 of 3 begin or speak as 'people'"
    printf 'START_TEST(an_end_is_told_once)\n' | write test/unit/a.c
    bad 'a case of Check' 'test/unit/a.c:1:an_end_is_told_once'
    printf '    {"death_of_who_waits",\n     .run = death_of_who_waits},\n' | write test/conformance/a.c
    bad 'a case of the conformance suite' 'test/conformance/a.c:1:death_of_who_waits'
    printf 'def test_who_is_late_fails():\n    pass\n' | write test/a.py
    bad 'a case of Python' 'test/a.py:1:who_is_late_fails'
    printf 'static void *tell_that_it_is_gone(void *arg)\n{\n    return NULL;\n}\n' | write test/support/a.c
    bad 'a function of C' 'test/support/a.c:1:tell_that_it_is_gone'
    printf 'class A:\n    def ask(self):\n        pass\n' | write perf/a.py
    bad 'a function of Python' 'perf/a.py:2:ask'
    printf '#!/bin/sh\nhost_says() {\n    :\n}\n' | write contrib/run
    bad 'a function of the shell' 'contrib/run:2:host_says'
    printf '/** A blocked wait misses messages that arrive meanwhile. */\nint sayings(void);\n' | write src/a.h
    printf 'START_TEST(an_end_is_one_event)\n' | write test/unit/a.c
    good 'plain words'
}

tool python3
main "$@"
