#!/bin/sh
# The connector writer's example runs as it is documented.
# DO-01
UCX_TLS=tcp exec "${MKV_BUILD_DIR:-$PWD}/contrib/examples/kv_write"
