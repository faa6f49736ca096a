#!/bin/bash
# The last commits' messages: "area: imperative" in one plain line that git log can show, no
# trailers. An area names folders or files of the tree, or is "build". Aim at 60 characters;
# more than 72 are refused. Commits before the last change of this script had other rules.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

count=30
# First words that are no imperative: articles, pronouns, conjunctions, participles.
no_verb='^(an?|the|no|not|none|who|what|which|whose|when|where|why|how|of|it|its|that|those|these|this|one|'
no_verb+='all|each|every|more|only|also|with|without|for|in|on|from|at|by|as|if|and|some|any)\b'
no_verb+='|^(?!(bring|string|embed|feed|speed|shed|seed|need)\b)[a-z]+(ing|ed)\b|^[A-Z][a-z]+ '

# Names of folders and files, with and without their suffix, also of those that the last
# commits removed.
names_of() { # DIR
    {
        echo build
        git -C "$1" ls-files
        git -C "$1" log --no-merges -n $count --name-only --format=
    } | tr / '\n' | sed 'p; s/\..*//' | sort -u
}

check() { # DIR
    local subject hash words unknown rc=0 names since
    names=$(names_of "$1")
    since=$(git -C "$1" log -1 --format=%H -- contrib/check_commits.sh)
    since=${since:+$since..}HEAD

    while read -r hash subject; do
        if [ ${#subject} -gt 72 ]; then
            echo "$hash: ${#subject} characters in '$subject'"
            rc=1
        fi
        [[ $subject =~ ^[A-Za-z0-9_./-]+(,\ [A-Za-z0-9_./-]+)*:\ [^\ ].*[^.\ ]$ ]] || {
            echo "$hash: '$subject' is not of the form 'area: imperative'"
            rc=1
        }
        words=${subject#*: }
        unknown=$(tr -s ', /' '\n' <<<"${subject%%: *}" | grep -vxFf <(echo "$names"))
        if [ -n "$unknown" ]; then
            echo "$hash: no folder or file is named '${unknown//$'\n'/, }' as in '$subject'"
            rc=1
        fi
        if grep -qP "$no_verb" <<<"$words"; then
            echo "$hash: '$subject' has no imperative verb after the area"
            rc=1
        fi
        if grep -qiwE 'who|whose|what|nobody|somebody|tells|told|hears|heard' <<<"$subject"; then
            echo "$hash: '$subject' does not name the change in plain words"
            rc=1
        fi
    done < <(git -C "$1" log --no-merges -n $count --format='%h %s' "$since")
    if git -C "$1" log --no-merges -n $count --format='%h %b' "$since" | grep -iE '(signed-off|co-authored)-by:'; then
        echo "trailers are not used here"
        rc=1
    fi
    return $rc
}

commit() { # MESSAGE
    git init -q "$sample"
    mkdir -p "$sample/ucx_plugin/xgmi"
    : >"$sample/ucx_plugin/xgmi/file.c"
    git -C "$sample" add .
    git -C "$sample" -c user.name=sample -c user.email=sample@localhost \
        commit -q --allow-empty -m "$1"
}

forget() { rm -rf "$sample/.git" "$sample/ucx_plugin"; }

samples() {
    commit 'Fix stuff'
    bad 'a subject without an area' "'Fix stuff' is not"
    forget
    commit "xgmi: $(printf 'word %.0s' {1..20})end"
    bad 'a long subject' 'characters in'
    forget
    commit 'xgmi: who can open no more files is told'
    bad 'people in a subject' 'plain words'
    forget
    commit 'xgmi: wait for what a copy needs'
    bad 'a clause with what' 'plain words'
    forget
    commit 'xgmi: the mapping of a dead peer'
    bad 'a subject without a verb' 'no imperative verb'
    forget
    commit 'copier: find mappings by peer'
    bad 'an unknown area' "no folder or file is named 'copier'"
    forget
    commit "$(printf 'xgmi: find mappings by peer\n\nReason.\n\nCo-authored-by: a <b@c>')"
    bad 'a trailer' 'trailers'
    forget
    commit 'xgmi, ucx_plugin/file.c: find mappings by peer and handle'
    good 'a subject'
    forget
}

tool git
git -C "$(dirname "$here")" rev-parse HEAD >/dev/null 2>&1 || {
    echo "no history here: a tarball, or git cannot see the repository"
    exit 77
}
main "$@"
