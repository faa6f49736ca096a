# A Check program per module, in a room for each part of the product
include test/unit/morikv/local.mk
include test/unit/base/local.mk
include test/unit/copy/local.mk
include test/unit/xgmi/local.mk
include test/unit/perf/local.mk
include test/unit/support/local.mk
if HAVE_VERBS
include test/unit/rdma/local.mk
endif
EXTRA_DIST += test/unit/README.md
