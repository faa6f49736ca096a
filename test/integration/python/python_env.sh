# shellcheck shell=bash
# The environment of tests that run Python with morikv of this build over two GPUs of libhipcpu, or over
# those of the machine with MKV_TEST_REAL_HIP. Sets source and python; skips the test without cffi.

build=${MKV_BUILD_DIR:-$PWD}
source=${srcdir:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)}
hip=$build/test/fake/hip/lib
python=${PYTHON:-python3}

"$python" -c 'import cffi' 2>/dev/null || {
    echo "$python has no cffi (Debian: python3-cffi)"
    exit 77
}
export PYTHONPATH=$source/contrib/python PYTHONDONTWRITEBYTECODE=1 LIBMORIKV=${LIBMORIKV:-$build/.libs/libmorikv.so.0}
export UCX_PLUGIN_PATH=${UCX_PLUGIN_PATH:-$build/.libs} UCX_WARN_UNUSED_ENV_VARS=n
if [ -z "${MKV_TEST_REAL_HIP:-}" ]; then
    export LD_LIBRARY_PATH=$hip${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} HIPCPU_DEVICES=2
    unset HIP_VISIBLE_DEVICES
fi
# shellcheck source=test/support/environment.sh
. "$source/test/support/environment.sh"
# the interpreter keeps its memory until its end
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
