# ucx_plugin/rdma
