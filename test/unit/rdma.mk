# Unit tests: rdma.
