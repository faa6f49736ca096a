#!/bin/bash
# Commands of docs/sglang.md, run as they are written in a fresh virtual environment. SGLang's
# own manager of the mori backend then runs there between two processes, with GPU memory on
# libhipcpu. Every byte is compared, and so are the log lines that the page shows.
#
#   test/integration/python/py_sglang.sh BUILD
#
# Prints PASS: and FAIL: lines; exit status 77: the registry could not give SGLang's files.
# PY-11
set -uo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
build=$(cd "$1" && pwd)
page=$source/docs/sglang.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"$source/contrib/fetch_engines" || exit $?
engines=$("$source/contrib/fetch_engines" --path)
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"
unset UCX_PLUGIN_PATH UCX_TLS LIBMORIKV LIBMORIKV_UCX PYTHONPATH
# from the machine: a HIP runtime, and the other packages that SGLang imports
export LD_LIBRARY_PATH=$build/test/fake/hip/lib PYTHONPATH=$engines/packages PYTHONDONTWRITEBYTECODE=1
export HIP_LIBRARY=$LD_LIBRARY_PATH/libamdhip64.so.6

verdict() { # NAME STATUS
    if [ "$2" = 0 ]; then
        echo "PASS: $1"
    else
        failed=1
        echo "FAIL: $1"
        sed 's/^/    /' "$work/out" | tail -n 20
    fi
}

# cffi and NumPy come from the root; nothing is fetched
make_environment() {
    make -s -C "$build" wheel WHEEL_DIR="$work" && python3 -m venv --system-site-packages --without-pip "$work/venv" &&
        printf '#!/bin/sh\nPIP_NO_INDEX=1 exec "%s/python3" -m pip -q "$@"\n' "$work/venv/bin" >"$work/venv/bin/pip" &&
        chmod +x "$work/venv/bin/pip"
}

# Run in this shell, which keeps exported variables as a user's shell does
type_page() {
    local line
    local -a lines

    mapfile -t lines < <("$source/contrib/page_commands" --of test/integration/python/py_sglang.sh "$page")
    [ ${#lines[@]} = 6 ] || { echo "$page has ${#lines[@]} commands of this test"; return 1; }
    for line in "${lines[@]}"; do
        echo "== $line"
        eval "$line" || return 1
    done
}

moves() {
    MORI_BACKEND=RDMA timeout 200 python3 "$source/test/integration/python/py_engines.py" "$engines/wheels" \
        -k sglang >"$work/out" 2>&1
}

make_environment >"$work/out" 2>&1
verdict "a wheel, and a fresh virtual environment" $?
[ $failed = 0 ] || exit 1
export PATH=$work/venv/bin:$PATH
cd "$work" || exit 1
! python3 -c 'import morikv' >"$work/out" 2>&1 && type_page >"$work/out" 2>&1 &&
    grep -q "^libmorikv $work/venv/" "$work/out" && grep -q "^module $work/venv/" "$work/out" &&
    grep -q '^morikv\.mori_io\.engine$' "$work/out"
verdict "the commands of the page" $?
says=$(sed -n 's/^morikv io-prefill-.. info: peer io-decode-..: //p' "$page")
moves && [ -n "$says" ] && grep -qF "$says" "$work/out"
verdict "SGLang's manager in that environment, and the line that tells over what" $?
! UCX_PLUGIN_PATH='' moves && grep -q 'UCX has no way for a put of rocm memory to rocm memory over \[tcp/' "$work/out"
verdict "they fail without the module, with a message" $?
! PYTHONPATH=$engines/packages python3 -c 'import mori.io' >"$work/out" 2>&1
verdict "without the page's PYTHONPATH there is no mori.io" $?
exit $failed
