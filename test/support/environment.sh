# shellcheck shell=sh
# The environment of every test: sourced by `make check` for each one, and by the scripts
# that start tests in other ways. Nothing else sets what is set here.

# Loading UCX starts its VFS thread; a child forked meanwhile may find a lock held for
# ever. Tests fork.
UCX_VFS_ENABLE=n
export UCX_VFS_ENABLE

# When it is loaded UCX patches half a dozen functions of libc and spins 50 ms for each, in
# case that a thread is among the bytes it changes. Tests load it thousands of times, and
# before they have threads.
UCX_MEM_BISTRO_GRACE_DURATION=100us
export UCX_MEM_BISTRO_GRACE_DURATION

# Check gives a case four seconds. That says nothing on a busy machine with a sanitizer, where
# one of a second has taken a minute; a case that hangs is seen as well after five. Those that
# wait have limits of their own.
CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT-300}
export CK_DEFAULT_TIMEOUT

# Run a program that is not ours, which loads a library of ours: with AddressSanitizer in
# the library, its runtime must be the first in the process.
mkv_foreign() { # LIBRARY COMMAND..
    mkv_first=$(ldd "$1" | awk '/libasan/ { print $3 }')
    shift
    LD_PRELOAD=$mkv_first "$@"
}
