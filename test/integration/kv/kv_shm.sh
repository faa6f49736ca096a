#!/bin/sh
# Host memory over shared memory; tcp for what needs peer failure handling.
exec sh "$(dirname "$0")/kv_run.sh" tcp,sm host
