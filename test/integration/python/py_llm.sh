#!/bin/bash
# Prefill and decode of a tiny LLM, each with its caches in the memory of a GPU of its own: over
# mori_xgmi alone, with requests by HTTP, compared with one process. Two GPUs of libhipcpu, or of
# the machine with MKV_TEST_REAL_HIP.
# TS-01
set -uo pipefail

# shellcheck source=test/integration/python/python_env.sh
. "$(dirname "${BASH_SOURCE[0]}")/python_env.sh"
export UCX_TLS=mori_xgmi,tcp MORIKV_BACKEND=xgmi MORIKV_STRICT=y

mkv_foreign "$LIBMORIKV" timeout 900 "$python" "$source/test/integration/python/py_llm.py" "$@" 2>&1
