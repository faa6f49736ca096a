# Tests; each area has its own fragment.

AM_TESTS_ENVIRONMENT = . $(abs_top_srcdir)/test/support/environment.sh;

# Output to this descriptor is shown on the terminal, not only in the test's log.
AM_TESTS_FD_REDIRECT = 9>&2

# A script leaves its log as NAME.log, as a program does.
TEST_EXTENSIONS = .sh
# run by the interpreter in its first line
SH_LOG_COMPILER =

include test/support/local.mk
include test/abi/local.mk
include test/fake/local.mk
include test/kfd/local.mk
include test/bench/local.mk
include test/gpu/local.mk
include test/vm/local.mk
if HAVE_CHECK
include test/unit/local.mk
include test/isa/local.mk
include test/conformance/local.mk
include test/integration/local.mk
else
TESTS += test/no_check.sh
endif
dist_check_SCRIPTS += test/no_check.sh
EXTRA_DIST += test/README.md test/requirements.txt test/model/box.pml test/model/inbox.pml test/model/transfer.pml \
	test/litmus/arm.litmus test/litmus/bell.litmus test/litmus/page.litmus \
	test/litmus/ready.litmus test/litmus/ring.litmus test/litmus/wake.litmus \
	test/support/tsan.supp \
	test/mutation/find test/mutation/mutation.py test/mutation/run test/mutation/make_commands test/mutation/rules.txt
