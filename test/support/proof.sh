#!/bin/bash
# A report, a log, and stages on real hardware. Sourced by test/gpu/stages.sh after it has set:
#
#   out         folder of the results
#   limit       seconds for everything
#   patience    (1) factor for the time of a stage: simulated hardware is slow, and the
#               machine may be busy
#
# A stage that fails is reported and the next one runs. Sourcing makes report.txt and log.txt
# in $out.
# shellcheck shell=bash disable=SC2154,SC2034

started=$(date +%s)
report=$out/report.txt
log=$out/log.txt
work=$(mktemp -d "${TMPDIR:-/tmp}/proof.XXXXXX")
num_failed=0
# Port for all pairs of this run, one after the other. keep_port reserves it where the tests
# are built. It may be in use elsewhere; the server then reports it and its stage fails.
port=$((10000 + $$ % 20000)) # beside: only where keep_port is not built
if [ -x "${build_here:-$build}/test/support/keep_port" ]; then
    coproc keep { exec "${build_here:-$build}/test/support/keep_port"; }
    read -rt 20 port <&"${keep[0]}"
fi
: >"$report"
: >"$log"

print() {
    printf '%s\n' "$*" | tee -a "$report"
}

left() {
    echo $((limit - $(date +%s) + started))
}

# stage NAME SECONDS COMMAND..: its output goes to the log, its result to the report.
stage() {
    local name=$1 seconds=$(($2 * ${patience:-1})) status begin
    shift 2

    [ "$seconds" -le "$(left)" ] || seconds=$(left)
    if [ "$seconds" -lt 5 ]; then
        print "-- $name: no time left"
        num_failed=$((num_failed + 1))
        return 1
    fi
    begin=$(date +%s)
    printf '\n==== %s: %s\n' "$name" "$*" >>"$log"
    stage_seconds=$seconds "$@" >"$work/stage.log" 2>&1
    status=$?
    cat "$work/stage.log" >>"$log"
    if [ $status -eq 0 ]; then
        print "-- $name: ok, $(($(date +%s) - begin)) s"
    elif [ $status -eq 77 ]; then
        print "-- $name: skipped: $(tail -n 1 "$work/stage.log")"
    else
        print "-- $name: FAILED with $status after $(($(date +%s) - begin)) s of $seconds"
        tail -n 15 "$work/stage.log" | sed 's/^/     /' | tee -a "$report"
        num_failed=$((num_failed + 1))
    fi
    return $status
}

# Data for a row of docs/versions.md, from the build's mori_doctor.
versions() {
    inside contrib/mori_doctor --no-selftest --modules "$build/.libs" --python /none |
        grep -E '^[a-z]+ +(version|ucx) ' | tee -a "$report"
}
