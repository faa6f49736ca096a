# mori_copy: copies between host and GPU memory of a process, for any UCX.
libmuct_la_SOURCES += \
	ucx_plugin/copy/copy_queue.c \
	ucx_plugin/copy/copy_queue.h
