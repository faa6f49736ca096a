# libuct_mori: the UCT module.
include ucx_plugin/base/local.mk
include ucx_plugin/xgmi/local.mk
if HAVE_VERBS
include ucx_plugin/rdma/local.mk
endif
