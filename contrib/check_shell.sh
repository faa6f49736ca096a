#!/bin/bash
# Every shell script of the tree passes shellcheck.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

scripts() { # DIR
    (cd "$1" && find . -type f -not -path './build*' -not -path './.git/*' \
        -not -path './contrib/build-aux/*' -not -path './configure*' -not -name '*.m4') | sort |
        while read -r path; do
            case $path in
            *.sh) echo "$path" ;;
            *)
                if head -c 64 "$1/$path" | head -n 1 | grep -qaE '^#!.*[/ ](ba)?sh\b'; then
                    echo "$path"
                fi
                ;;
            esac
        done
}

check() { # DIR
    scripts "$1" | (cd "$1" && xargs -r shellcheck -x --source-path=SCRIPTDIR -P "$1" -S style)
}

samples() {
    write contrib/bad <<'TEXT'
#!/bin/sh
rm -rf $1/lib
TEXT
    bad 'a word that splits' contrib/bad
    write contrib/good <<'TEXT'
#!/bin/sh
rm -rf "${1:?}/lib"
TEXT
    good 'quoted words'
}

tool shellcheck
main "$@"
