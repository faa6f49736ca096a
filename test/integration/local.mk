# Two processes over an unmodified UCX: by UCP alone, and by libmorikv.
include test/integration/ucp/local.mk
include test/integration/kv/local.mk
include test/integration/python/local.mk

# The proof for owners of GPUs, on the runtime of the tests.
dist_check_SCRIPTS += test/integration/prove_amd.sh
TESTS += test/integration/prove_amd.sh

# What mori_doctor says of machines that lack something.
dist_check_SCRIPTS += test/integration/doctor.sh
TESTS += test/integration/doctor.sh

# And for owners of NICs, on the fake libibverbs.
EXTRA_DIST += test/integration/prove_lib.sh
dist_check_SCRIPTS += test/integration/prove_nic.sh
TESTS += test/integration/prove_nic.sh
EXTRA_DIST += test/integration/README.md
