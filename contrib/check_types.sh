#!/bin/bash
# The annotations of the Python package are complete and correct by mypy --strict: for the oldest
# Python that it is installed with and for the newest one that is out.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

config=$here/python/pyproject.toml
oldest=$(sed -n 's/^requires-python = ">=\(.*\)"$/\1/p' "$config")
newest=3.14

# mypy's data about Python itself, read once for all runs
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT

check() { # DIR
    local version rc=0

    for version in "$oldest" "$newest"; do
        (cd "$1/contrib/python" && mypy --strict --config-file "$config" --cache-dir "$cache" \
            --python-version "$version" --no-error-summary morikv) || {
            echo "that is for Python $version"
            rc=1
        }
    done
    return $rc
}

samples() {
    write contrib/python/morikv/bad.py <<<'def double(count): return 2 * count'
    bad 'a function without annotations' 'bad.py:1: .*no-untyped-def'
    write contrib/python/morikv/bad.py <<<'def double(count: int) -> str: return 2 * count'
    bad 'an annotation that does not hold' 'bad.py:1: .*return-value'
    write contrib/python/morikv/bad.py <<<'from typing import Self as Self'
    bad 'what the oldest Python lacks' 'has no attribute "Self"'
    write contrib/python/morikv/bad.py <<<'import asyncore as asyncore'
    bad 'what the newest Python lacks' '"asyncore"'
    write contrib/python/morikv/bad.py <<<'import cffy'
    bad 'a module that nobody has' '"cffy"'
    write contrib/python/morikv/good.py <<'TEXT'
from typing import Any

import cffi

ffi: Any = cffi.FFI()


def double(count: int) -> int:
    return 2 * count
TEXT
    good 'a function with annotations'
}

[ -n "$oldest" ] || {
    echo "$config does not state the Python version that it requires"
    exit 1
}
tool mypy
main "$@"
