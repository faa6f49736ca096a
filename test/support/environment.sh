# shellcheck shell=sh
# The environment of every test: sourced by `make check` for each one, and by the scripts
# that start tests in other ways. Nothing else sets what is set here.

# Loading UCX starts its VFS thread; a child forked meanwhile may find a lock held for
# ever. Tests fork.
UCX_VFS_ENABLE=n
export UCX_VFS_ENABLE
