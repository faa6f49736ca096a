# Two processes over an unmodified UCX: by UCP alone, and by libmorikv.
include test/integration/ucp/local.mk
include test/integration/kv/local.mk
include test/integration/python/local.mk
include test/integration/soak/local.mk

# The proof for owners of GPUs, on the runtime of the tests.
dist_check_SCRIPTS += test/integration/prove_amd.sh test/integration/prove_amd_faults.sh
TESTS += test/integration/prove_amd.sh test/integration/prove_amd_faults.sh

# The command for owners of GPUs and NICs, on both stand-ins
dist_check_SCRIPTS += test/integration/prove.sh
TESTS += test/integration/prove.sh

# And the lane of CI that runs the proof.
dist_check_SCRIPTS += test/integration/ci_rocm.sh
TESTS += test/integration/ci_rocm.sh

# Output of mori_doctor for machines that lack something
dist_check_SCRIPTS += test/integration/doctor.sh
TESTS += test/integration/doctor.sh

# Pictures of the tools in the pages match their output.
EXTRA_DIST += test/integration/screen.py
dist_check_SCRIPTS += test/integration/pictures.sh
TESTS += test/integration/pictures.sh
EXTRA_DIST += docs/doctor.md docs/prove.md \
	docs/img/doctor-100.svg docs/img/doctor-80.svg \
	docs/img/kv_perf-100.svg docs/img/kv_perf-80.svg \
	docs/img/plot.svg

# And for owners of NICs, on the fake libibverbs.
EXTRA_DIST += test/integration/prove_lib.sh
dist_check_SCRIPTS += test/integration/prove_nic.sh
TESTS += test/integration/prove_nic.sh
EXTRA_DIST += test/integration/README.md
