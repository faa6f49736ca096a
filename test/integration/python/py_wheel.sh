#!/bin/bash
# The wheel as a user has it: in a fresh virtual environment, beside a UCX that came as a
# wheel too, with no environment but what it prints; two processes, every byte compared.
#
#   test/integration/python/py_wheel.sh WHEEL HIP_FOLDER PYTHON UCX_FOLDER FIND
#
# HIP_FOLDER holds the HIP runtime, UCX_FOLDER the package whose UCX is to be found, FIND
# the wheels that this one depends on. Prints PASS: and FAIL: lines.
# DO-02, PY-05, PY-09
set -uo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
wheel=$1 hip=$2 python=$3 ucx=$4 find=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"
unset UCX_PLUGIN_PATH UCX_TLS LIBMORIKV LIBMORIKV_UCX PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1

verdict() { # NAME STATUS
    if [ "$2" = 0 ]; then
        echo "PASS: $1"
    else
        failed=1
        echo "FAIL: $1"
        sed 's/^/    /' "$work/out" | tail -n 20
    fi
}

moves() { # MEMORY [TEST]
    KV_MEMORY=$1 HIP_LIBRARY=$hip/libamdhip64.so.6 timeout 900 "$work/venv/bin/python" \
        "$source/test/integration/python/py_kv.py" ${2:+"$2"} >"$work/out" 2>&1
}

version=$("$python" -V)
"$python" -m venv --without-pip "$work/venv" >"$work/out" 2>&1 &&
    "$python" -m pip --python "$work/venv/bin/python" install -q --disable-pip-version-check --no-index \
        --find-links "$find" "$wheel" >>"$work/out" 2>&1
verdict "$version: the wheel installs" $?
[ $failed = 0 ] || exit 1

# a wheel's UCX is found because its package can be imported
echo "$ucx" >"$(echo "$work"/venv/lib/python3*/site-packages)/ucx.pth"
"$work/venv/bin/python" -m morikv where >"$work/out" 2>&1 &&
    grep -q "^libmorikv $work/venv/.*/libmorikv-any.so" "$work/out" && grep -q "^ucx 1\..* $ucx/" "$work/out"
verdict "its UCX is that of the wheel beside it" $?
"$work/venv/bin/python" -c 'import morikv.as_mori, mori.io, mori.cpp; mori.io.IOEngine' >"$work/out" 2>&1
verdict "it has the names of mori.io" $?
UCX_TLS=tcp,self moves host TwoProcesses
verdict "host memory over tcp" $?

export LD_LIBRARY_PATH=$hip
"$work/venv/bin/python" -m morikv env >"$work/env" 2>"$work/out" && eval "$(cat "$work/env")" &&
    moves gpu TwoProcesses
verdict "GPU memory over mori_xgmi with the environment it prints" $?
! HIPCPU_COPY=0 moves gpu TwoProcesses.test_every_byte_of_a_write_and_a_read
verdict "bytes that are not copied are seen" $?

LIBMORIKV_UCX=$work/none.so "$work/venv/bin/python" -c 'import morikv' >"$work/out" 2>&1
[ $? = 1 ] && grep -q "ImportError: no UCX that libmorikv can use ($work/none.so" "$work/out"
verdict "a UCX that is not there is named" $?
exit $failed
