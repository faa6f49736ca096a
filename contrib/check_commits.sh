#!/bin/bash
# The last commits' messages: "area: imperative" in one plain line that git log can show, no
# trailers. Aim at 60 characters; more than 72 are refused.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

count=30

check() { # DIR
    local subject hash rc=0

    while read -r hash subject; do
        if [ ${#subject} -gt 72 ]; then
            echo "$hash: ${#subject} characters in '$subject'"
            rc=1
        fi
        [[ $subject =~ ^[a-z0-9_./-]+(,\ [a-z0-9_./-]+)*:\ [^\ ].*[^.\ ]$ ]] || {
            echo "$hash: '$subject' is not of the form 'area: what'"
            rc=1
        }
        if grep -qiwE 'who|nobody|somebody|told|heard' <<<"$subject"; then
            echo "$hash: '$subject' does not name the change in plain words"
            rc=1
        fi
    done < <(git -C "$1" log --no-merges -n $count --format='%h %s')
    if git -C "$1" log --no-merges -n $count --format='%h %b' | grep -iE '(signed-off|co-authored)-by:'; then
        echo "trailers are not used here"
        rc=1
    fi
    return $rc
}

commit() { # MESSAGE
    git init -q "$sample"
    git -C "$sample" -c user.name=sample -c user.email=sample@localhost \
        commit -q --allow-empty -m "$1"
}

forget() { rm -rf "$sample/.git"; }

samples() {
    commit 'Fix stuff'
    bad 'a subject without an area' "'Fix stuff' is not"
    forget
    commit "xgmi: $(printf 'word %.0s' {1..20})end"
    bad 'a long subject' 'characters in'
    forget
    commit 'xgmi: who can open no more files is told'
    bad 'a subject without a verb' 'plain words'
    forget
    commit "$(printf 'xgmi: find mappings by peer\n\nReason.\n\nCo-authored-by: a <b@c>')"
    bad 'a trailer' 'trailers'
    forget
    commit 'xgmi: find mappings by peer and handle'
    good 'a subject'
    forget
}

tool git
git -C "$(dirname "$here")" rev-parse HEAD >/dev/null 2>&1 || {
    echo "no history here: a tarball, or git cannot see the repository"
    exit 77
}
main "$@"
