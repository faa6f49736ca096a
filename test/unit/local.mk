# One Check program per module; one fragment per area.
include test/unit/hipcpu.mk
include test/unit/src.mk
include test/unit/base.mk
include test/unit/xgmi.mk
include test/unit/perf.mk
if HAVE_VERBS
include test/unit/verbs.mk
include test/unit/rdma.mk
endif
