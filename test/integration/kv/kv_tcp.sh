#!/bin/sh
# Host memory over UCX's tcp alone: puts and gets are emulated by messages.
export MKV_TEST_ROUNDS="${MKV_TEST_ROUNDS:-10000}"
exec sh "$(dirname "$0")/kv_run.sh" tcp host
