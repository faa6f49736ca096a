#!/bin/bash
# clang-format and .clang-format decide spacing.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

check() { # DIR
    local style
    style=$(dirname "$here")/.clang-format

    sources "$1" c h hip |
        (cd "$1" && xargs -r clang-format --style="file:$style" --dry-run -Werror)
}

samples() {
    printf 'int f(int a)\n{\n  return a;\n}\n' | write src/bad.c
    bad 'two spaces where four belong' src/bad.c
    printf 'int f(int a)\n{\n    return a;\n}\n' | write src/good.c
    good 'formatted code'
}

tool clang-format
main "$@"
