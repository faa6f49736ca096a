#!/bin/sh
# Our lane inside a node, on GPU memory of the HIP runtime on the CPU and on host
# memory; then again with all cases over one connection.
set -eu
here=$(dirname "$0")
sh "$here/run.sh" mori_xgmi "$@"
exec sh "$here/run.sh" mori_xgmi -1 "$@"
