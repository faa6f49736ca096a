# Two processes over an unmodified UCX: by UCP alone, and by libmorikv.
include test/integration/ucp/local.mk
include test/integration/kv/local.mk
include test/integration/python/local.mk
include test/integration/soak/local.mk

# The stages for developers with GPUs, and the known behaviour of runtimes, on the runtime of the tests.
dist_check_SCRIPTS += test/integration/gpu_stages.sh test/integration/gpu_risks.sh
TESTS += test/integration/gpu_stages.sh test/integration/gpu_risks.sh
EXTRA_DIST += test/integration/gpu_lib.sh

# The command for owners of GPUs and NICs, on both stand-ins
dist_check_SCRIPTS += test/integration/prove.sh test/integration/prove_ssh.sh
TESTS += test/integration/prove.sh test/integration/prove_ssh.sh

# CI's lane that runs the stages.
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

EXTRA_DIST += test/integration/README.md
