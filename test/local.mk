# Tests; each area has its own fragment.

# Loading UCX starts its VFS thread; a child forked meanwhile may find a lock held for
# ever. Tests fork.
AM_TESTS_ENVIRONMENT = UCX_VFS_ENABLE=n; export UCX_VFS_ENABLE;

# A script leaves its log as NAME.log, as a program does.
TEST_EXTENSIONS = .sh

include test/fake/local.mk
include test/support/local.mk
include test/gpu/local.mk
include test/vm/local.mk
if HAVE_CHECK
include test/unit/local.mk
include test/conformance/local.mk
include test/integration/local.mk
endif
