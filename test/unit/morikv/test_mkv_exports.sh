#!/bin/sh
# The library exports the functions of morikv.h and nothing else, and a test calls each.
# It opens no port: it has no way to.
# MD-05, MD-09, PY-04, PY-10, TS-09
set -eu
build=${MKV_BUILD_DIR:-$PWD}
tests=$(dirname "$0")/../..
header=$tests/../src/morikv.h
status=0

for name in $(nm -D --defined-only "$build/.libs/libmorikv.so" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }'); do
    grep -q "[ *]$name(" "$header" || {
        echo "$name is exported, but not in morikv.h"
        status=1
    }
    grep -q "$name(" "$tests"/unit/morikv/*.c "$tests"/integration/kv/*.c "$tests"/support/*.c "$tests"/abi/*.c || {
        echo "$name is called by no test"
        status=1
    }
done
sed -n 's/^.*[ *]\(mkv_[a-z_]*\)(.*/\1/p' "$header" | sort -u >test_mkv_exports.tmp
while read -r name; do
    grep -q "^[a-z].*[ *]$name(" "$header" || continue # named in a comment only
    nm -D --defined-only "$build/.libs/libmorikv.so" | grep -q " T $name" || {
        echo "$name is in morikv.h, but not exported"
        status=1
    }
done <test_mkv_exports.tmp
rm -f test_mkv_exports.tmp
for name in socket bind listen accept accept4 connect; do
    if nm -D --undefined-only "$build/.libs/libmorikv.so" | grep -q " U $name@"; then
        echo "the library calls $name()"
        status=1
    fi
done
exit $status
