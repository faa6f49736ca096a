#!/bin/sh
# Host memory over shared memory; tcp for endpoints that need peer failure handling. Only programs
# for which the lane matters run here; the others run over tcp alone.
# TR-09
export MKV_KV_PROGRAMS="${MKV_KV_PROGRAMS:-kv_basic kv_ops kv_ranks kv_fault}"
exec sh "$(dirname "$0")/kv_run.sh" tcp,sm host
