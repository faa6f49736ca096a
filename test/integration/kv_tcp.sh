#!/bin/sh
# Host memory over UCX's tcp alone: puts and gets are emulated by messages.
exec sh "$(dirname "$0")/kv_run.sh" tcp host
