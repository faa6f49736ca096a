# mori_copy: copies between host and GPU memory of a process, for any UCX.
muct_sources += \
	ucx_plugin/copy/copy_ep.c \
	ucx_plugin/copy/copy_ep.h \
	ucx_plugin/copy/copy_iface.c \
	ucx_plugin/copy/copy_iface.h \
	ucx_plugin/copy/copy_md.c \
	ucx_plugin/copy/copy_md.h \
	ucx_plugin/copy/copy_queue.c \
	ucx_plugin/copy/copy_queue.h \
	ucx_plugin/copy/copy_tl.c \
	ucx_plugin/copy/copy_tl.h
EXTRA_DIST += docs/copy.md
