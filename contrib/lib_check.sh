# shellcheck shell=bash
# Common part of the check_*.sh scripts. A script defines
#
#   check DIR    look at the tree in DIR; print each finding; return 1 if there is any
#   samples      call "bad NAME PATTERN" and "good NAME" after writing files into $sample
#
# and ends in: main "$@". Every run first applies the check to the samples, as a check that
# cannot fail proves nothing. A bad one must fail with PATTERN in the output, a good one pass.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
sample='' sample_failures=0

tool() { # NAME
    command -v "$1" >/dev/null || {
        echo "$1 is missing; contrib/devroot create installs it"
        exit 77
    }
}

# C files of the tree by kind, as paths relative to it.
sources() { # DIR SUFFIX...
    local dir=$1 suffix folder
    shift

    for suffix in "$@"; do
        for folder in src ucx_plugin test perf contrib; do
            [ ! -d "$dir/$folder" ] || (cd "$dir" && find $folder -type f -name "*.$suffix")
        done
    done | sort
}

write() { # PATH < TEXT
    mkdir -p "$(dirname "$sample/$1")"
    cat >"$sample/$1"
}

seen() { # VERDICT NAME OUTPUT
    [ "$1" = right ] || {
        echo "self-test: $2 was judged wrongly; the check said:"
        echo "$3"
        sample_failures=$((sample_failures + 1))
    }
    rm -rf "${sample:?}"/*
}

bad() { # NAME PATTERN
    local output
    if output=$(check "$sample" 2>&1) || ! grep -q "$2" <<<"$output"; then
        seen wrong "$1" "$output"
    else
        seen right "$1"
    fi
}

good() { # NAME
    local output
    if output=$(check "$sample" 2>&1); then seen right "$1"; else seen wrong "$1" "$output"; fi
}

main() { # [DIR]
    local tree=${1:-$(dirname "$here")}

    [[ ${1-} != -* ]] || {
        echo "${0##*/}: no option '$1'; expected [TREE]" >&2
        exit 2
    }
    sample=$(mktemp -d)
    samples
    rm -rf "$sample"
    [ $sample_failures = 0 ] || return 1
    echo "self-test passed"
    check "$tree"
}
