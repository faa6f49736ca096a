# shellcheck shell=sh
# The environment of every test: sourced by `make check` for each one, and by the scripts
# that start tests in other ways. Nothing else sets what is set here.

# Loading UCX starts its VFS thread; a child forked meanwhile may find a lock held for
# ever. Tests fork.
UCX_VFS_ENABLE=n
export UCX_VFS_ENABLE

# When it is loaded UCX patches half a dozen functions of libc and spins 50 ms for each, in case a
# thread executes the bytes that it changes. Tests load it thousands of times, and before they
# have threads.
UCX_MEM_BISTRO_GRACE_DURATION=100us
export UCX_MEM_BISTRO_GRACE_DURATION

# Check gives a case four seconds. A busy machine with a sanitizer has taken a minute for a
# case of one second.
CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT-120}
export CK_DEFAULT_TIMEOUT

# A time limit only ends a hang. The limits in the sources fit an idle machine; two
# whole runs side by side on two processors stay far below five times these.
CK_TIMEOUT_MULTIPLIER=${CK_TIMEOUT_MULTIPLIER-5}
export CK_TIMEOUT_MULTIPLIER

# Run a foreign program that loads a library of this build: with AddressSanitizer in
# the library, its runtime must be the first in the process.
mkv_foreign() { # LIBRARY COMMAND..
    mkv_first=$(ldd "$1" | awk '/libasan/ { print $3 }')
    shift
    LD_PRELOAD=$mkv_first "$@"
}
