# Stand-ins for what this machine may lack: a HIP runtime on the CPU, verbs, UCP.
include test/fake/hip/local.mk
include test/fake/ucp/local.mk
if HAVE_VERBS
include test/fake/verbs/local.mk
endif
EXTRA_DIST += test/fake/README.md
