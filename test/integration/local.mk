# Two processes over an unmodified UCX; one fragment per area.
include test/integration/ucp.mk
include test/integration/kv.mk
include test/integration/consumer.mk
