#!/bin/bash
# Compare the bandwidth of UCX's own lane and of one of ours, in alternate runs: print the ratios,
# and fail when ours is too slow.
#
#   perf/kv_perf/lane_ratios.sh FIGURES median|mean
#
# A line of FIGURES is a run: API, operation, bytes of a block, lane, bandwidth in any unit. The
# lanes are two; ours begins with mori_. LANE_LEAST (0.95) is the least ratio that passes.
#
# Exit status 1: a ratio is less. 2: there are no figures of two lanes, or not as many of each.
set -uo pipefail
[[ ${1-} != -* ]] || {
    echo "perf/kv_perf/lane_ratios.sh: no option '$1'; expected FIGURES median|mean" >&2
    exit 2
}

sort -k1,1 -k2,2r -k3,3n -k4,4 -k5,5g "${1:?a file of figures is expected}" |
    awk -v least="${LANE_LEAST:-0.95}" -v kind="${2:?median or mean is expected}" '
    function average(name, i, sum) {
        if (kind == "median")
            return (figures[name, int((num[name] + 1) / 2)] + figures[name, int((num[name] + 2) / 2)]) / 2
        for (i = 1; i <= num[name]; i++) sum += figures[name, i]
        return sum / num[name]
    }
    function fail(text) { print "lane_ratios.sh: " text; status = 2; exit 2 }
    # of one run beside another, in the order of their size
    function spread(plain, ours) {
        return sprintf("%.2f to %.2f", figures[ours, 1] / figures[plain, num[plain]],
            figures[ours, num[ours]] / figures[plain, 1])
    }

    NF != 5 || $5 + 0 <= 0 { fail("not a figure: " $0) }
    {
        row = $1 " " $2 " " $3
        if (!(row in seen)) { seen[row] = 1; rows[++num_rows] = row }
        figures[row, $4, ++num[row SUBSEP $4]] = $5
        if ($4 ~ /^mori_/) ours = $4; else plain = $4
    }

    END {
        if (status) exit status
        if (ours == "" || plain == "") fail("no figures of two lanes")
        printf "%-4s %-5s %10s  %10s %10s  %5s  %s\n", "api", "op", "bytes", plain, ours, "ratio", "any two runs"
        for (i = 1; i <= num_rows; i++) {
            p = rows[i] SUBSEP plain; o = rows[i] SUBSEP ours
            if (num[p] == 0 || num[p] != num[o])
                fail(rows[i] ": " num[p] + 0 " runs over " plain ", " num[o] + 0 " over " ours)
            ratio = average(o) / average(p)
            worst = (i == 1 || ratio < worst) ? ratio : worst
            num_slow += (ratio < least)
            split(rows[i], word, " ")
            printf "%-4s %-5s %10.0f  %10.2f %10.2f  %5.2f  %s%s\n", word[1], word[2], word[3], average(p), average(o),
                ratio, spread(p, o), (ratio < least) ? "  SLOWER" : ""
        }
        printf "%s beside %s, %ss of %d in turn: least ratio %.2f, %d of %d below %.2f\n", ours, plain, kind, num[p],
            worst, num_slow, num_rows, least
        exit num_slow > 0
    }'
