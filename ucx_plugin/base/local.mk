# Common part of the transports: UCX's structures, the GPU runtime, messages, stubs.
muct_sources += \
	ucx_plugin/base/muct_am.c \
	ucx_plugin/base/muct_am.h \
	ucx_plugin/base/muct_bytes.h \
	ucx_plugin/base/muct_gpu.c \
	ucx_plugin/base/muct_gpu.h \
	ucx_plugin/base/muct_gpu_tl.c \
	ucx_plugin/base/muct_gpu_tl.h \
	ucx_plugin/base/muct_lib.c \
	ucx_plugin/base/muct_lib.h \
	ucx_plugin/base/muct_links.c \
	ucx_plugin/base/muct_links.h \
	ucx_plugin/base/muct_lock.c \
	ucx_plugin/base/muct_lock.h \
	ucx_plugin/base/muct_log.c \
	ucx_plugin/base/muct_log.h \
	ucx_plugin/base/memory/muct_pin.c \
	ucx_plugin/base/memory/muct_pin.h \
	ucx_plugin/base/memory/muct_shm.h \
	ucx_plugin/base/muct_stub_ops.c \
	ucx_plugin/base/muct_stub_ops.h \
	ucx_plugin/base/muct_topo.c \
	ucx_plugin/base/muct_topo.h \
	ucx_plugin/base/muct_transport.h \
	ucx_plugin/base/muct_tuning.h \
	ucx_plugin/base/muct_uct_abi.h \
	ucx_plugin/base/muct_ucx_rocm.c \
	ucx_plugin/base/muct_ucx_rocm.h
