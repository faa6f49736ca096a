#!/bin/sh
# Host memory over UCX's tcp alone: puts and gets are emulated by messages. With
# MKV_TEST_RDMA_DEVICE over mori_rdma on that device instead.
# TS-03
here=$(dirname "$0")
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"
# shellcheck source=test/integration/kv/kv_device.sh
. "$here/kv_device.sh"
# UCX refuses every put and get with it; libmorikv's own UCP context does without.
export UCX_PROTO_ENABLE=n
export MKV_TEST_ROUNDS="${MKV_TEST_ROUNDS:-10000}"
exec sh "$here/kv_run.sh" "$tls" host
