# Stand-ins for what this machine may lack: a HIP runtime on the CPU, verbs.
include test/fake/hipcpu.mk
if HAVE_VERBS
include test/fake/verbs.mk
endif
