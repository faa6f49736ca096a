# mori_xgmi: copies between GPUs of one host.
libmuct_la_SOURCES += \
	ucx_plugin/xgmi/xgmi_addr.c \
	ucx_plugin/xgmi/xgmi_addr.h \
	ucx_plugin/xgmi/xgmi_batch.c \
	ucx_plugin/xgmi/xgmi_batch.h \
	ucx_plugin/xgmi/xgmi_closer.c \
	ucx_plugin/xgmi/xgmi_closer.h \
	ucx_plugin/xgmi/xgmi_ep.c \
	ucx_plugin/xgmi/xgmi_ep.h \
	ucx_plugin/xgmi/xgmi_export.c \
	ucx_plugin/xgmi/xgmi_export.h \
	ucx_plugin/xgmi/xgmi_gather.c \
	ucx_plugin/xgmi/xgmi_gather.h \
	ucx_plugin/xgmi/xgmi_iface.c \
	ucx_plugin/xgmi/xgmi_iface.h \
	ucx_plugin/xgmi/xgmi_key.c \
	ucx_plugin/xgmi/xgmi_key.h \
	ucx_plugin/xgmi/xgmi_loader.c \
	ucx_plugin/xgmi/xgmi_loader.h \
	ucx_plugin/xgmi/xgmi_map.c \
	ucx_plugin/xgmi/xgmi_map.h \
	ucx_plugin/xgmi/xgmi_md.c \
	ucx_plugin/xgmi/xgmi_md.h \
	ucx_plugin/xgmi/xgmi_page.c \
	ucx_plugin/xgmi/xgmi_page.h \
	ucx_plugin/xgmi/xgmi_peer.c \
	ucx_plugin/xgmi/xgmi_peer.h \
	ucx_plugin/xgmi/xgmi_perf.c \
	ucx_plugin/xgmi/xgmi_perf.h \
	ucx_plugin/xgmi/xgmi_progress.c \
	ucx_plugin/xgmi/xgmi_queue.c \
	ucx_plugin/xgmi/xgmi_queue.h \
	ucx_plugin/xgmi/xgmi_queue_arm.c \
	ucx_plugin/xgmi/xgmi_queue_release.c \
	ucx_plugin/xgmi/xgmi_queue_streams.c \
	ucx_plugin/xgmi/xgmi_rkey.c \
	ucx_plugin/xgmi/xgmi_rkey.h \
	ucx_plugin/xgmi/xgmi_rma.c \
	ucx_plugin/xgmi/xgmi_rma.h \
	ucx_plugin/xgmi/xgmi_sgl.c \
	ucx_plugin/xgmi/xgmi_stage.c \
	ucx_plugin/xgmi/xgmi_stage.h \
	ucx_plugin/xgmi/xgmi_wake.c \
	ucx_plugin/xgmi/xgmi_wake.h
EXTRA_DIST += docs/xgmi.md docs/hipcpu.md
