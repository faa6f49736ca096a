# mori_rdma; libibverbs is found at run time, only its header is needed here.
libmuct_la_SOURCES += \
	ucx_plugin/rdma/rdma_addr.c \
	ucx_plugin/rdma/rdma_addr.h \
	ucx_plugin/rdma/rdma_async.c \
	ucx_plugin/rdma/rdma_async.h \
	ucx_plugin/rdma/rdma_buf.c \
	ucx_plugin/rdma/rdma_buf.h \
	ucx_plugin/rdma/rdma_cq.c \
	ucx_plugin/rdma/rdma_cq.h \
	ucx_plugin/rdma/rdma_device.c \
	ucx_plugin/rdma/rdma_device.h \
	ucx_plugin/rdma/rdma_key.c \
	ucx_plugin/rdma/rdma_key.h \
	ucx_plugin/rdma/rdma_mr.c \
	ucx_plugin/rdma/rdma_mr.h \
	ucx_plugin/rdma/rdma_qp.c \
	ucx_plugin/rdma/rdma_qp.h \
	ucx_plugin/rdma/rdma_sq.c \
	ucx_plugin/rdma/rdma_sq.h \
	ucx_plugin/rdma/rdma_verbs.c \
	ucx_plugin/rdma/rdma_verbs.h \
	ucx_plugin/rdma/rdma_wc.c \
	ucx_plugin/rdma/rdma_wc.h
