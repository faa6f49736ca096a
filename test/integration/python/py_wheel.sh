#!/bin/bash
# The wheel as a user has it: in a fresh virtual environment, beside a UCX that came as a
# wheel too, with no environment but the one that it prints; two processes, every byte compared.
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


# its programs, which are linked without UCX
perf() { # NAME=VALUE... OPTION...
    local settings=()
    while [[ $1 = *=* ]]; do
        settings+=("$1")
        shift
    done
    env "${settings[@]}" "$work/venv/bin/python" -m morikv kv_perf --initiator_seg_type VRAM --target_seg_type VRAM \
        --start_block_size 64k --max_block_size 64k --num_iter 4 --warmup_iter 1 --total_buffer_size 16m \
        --check_consistency "$@" >"$work/out" 2>&1
}
perf HIPCPU_DEVICES=2 --start_batch_size 16 && grep -q 'xgmi (' "$work/out" && grep -q 'every byte checked' "$work/out"
verdict "mori_kv_perf moves GPU memory over mori_xgmi, every byte checked" $?
! perf HIPCPU_DEVICES=2 HIPCPU_COPY=0 --start_batch_size 16
verdict "mori_kv_perf sees bytes that are not copied" $?
HIPCPU_DEVICES=2 "$work/venv/bin/python" -m morikv prove --quick --limit 300 --minutes 60 --path 'xGMI put' --path risks \
    --report "$work/report.json" >"$work/out" 2>&1 && grep -q '^SAFE  *xGMI put' "$work/out" &&
    grep -q '^  not seen  *a flag overtakes the bytes of a kernel' "$work/out" && grep -q '^0 risks broken' "$work/report.log"
verdict "mori_prove runs, and gpu_risks with it" $?
program=$(echo "$work"/venv/lib/python3*/site-packages/morikv/bin/mori_kv_perf)
! LIBMORIKV_UCX=$work/none.so "$program" --version >"$work/out" 2>&1 &&
    grep -q "mori_kv_perf: $work/none.so: .*; expected a UCX" "$work/out"
verdict "a program without a UCX names the way to get one" $?
"$work/venv/bin/python" -m morikv top --help >"$work/out" 2>&1 && grep -q 'morikv top URL' "$work/out"
verdict "python -m morikv top --help" $?

LIBMORIKV_UCX=$work/none.so "$work/venv/bin/python" -c 'import morikv' >"$work/out" 2>&1
[ $? = 1 ] && grep -q "ImportError: no UCX that libmorikv can use ($work/none.so" "$work/out"
verdict "a UCX that is not there is named" $?
exit $failed
