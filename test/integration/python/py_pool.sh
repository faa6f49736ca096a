#!/bin/bash
# The example of a pool in a process of its own: engines store and load blocks between their GPUs
# (libhipcpu, or the machine's with MKV_TEST_REAL_HIP) and the pool's shared memory, one engine is killed,
# and lists of mori_xgmi moved the bytes. The control: without mori_xgmi the path is another one.
# XM-08
set -uo pipefail

# shellcheck source=test/integration/python/python_env.sh
. "$(dirname "${BASH_SOURCE[0]}")/python_env.sh"
export UCX_NET_DEVICES=lo

demo() {
    mkv_foreign "$LIBMORIKV" timeout 900 env UCX_TLS="$1" "$python" "$source/contrib/examples/kv_pool.py" demo 2>&1
}

out=$(demo mori_xgmi,mori_copy,tcp)
status=$?
if [ "$status" != 0 ] || ! grep -q 'list put rocm>host: xgmi (sgl mori_xgmi/' <<<"$out" ||
    ! grep -q '128 blocks stored and loaded, an engine killed.*get host>rocm: xgmi (zero-copy mori_xgmi/' <<<"$out"; then
    echo "$out"
    echo "py_pool.sh: exit status $status; expected 0, and the paths of mori_xgmi for lists and gets"
    exit 1
fi
# the control
out=$(demo mori_copy,tcp)
status=$?
if [ "$status" != 0 ] || grep -q 'mori_xgmi/' <<<"$out" || ! grep -q 'killed.*get host>rocm: ' <<<"$out"; then
    echo "$out"
    echo "py_pool.sh: exit status $status without mori_xgmi; expected 0, and another path"
    exit 1
fi
echo "py_pool.sh: passed"
