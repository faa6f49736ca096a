#!/bin/bash
# Directions of #include lines between the parts of the design, and files named by a build
# fragment of a different folder.
# DO-09
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

libc='assert|ctype|errno|inttypes|limits|math|stdalign|stdarg|stdatomic|stdbool|stddef|stdint|stdio|stdlib|string|strings|time'
pure_headers="^($libc)\\.h\$|^ucs/type/status\\.h\$|^(src/)?morikv\\.h\$|^base/muct_bytes\\.h\$"

# Files that convert between bytes and values. They use libc, statuses and public types alone.
is_pure() { # PATH
    case $1 in
    src/wire/*.[ch] | src/plan/blocks.[ch]) ;;
    ucx_plugin/*_key.[ch] | ucx_plugin/*_addr.[ch]) ;;
    ucx_plugin/xgmi/copy/xgmi_kernel.h | ucx_plugin/xgmi/copy/xgmi_list.[ch]) ;;
    *) return 1 ;;
    esac
}

# The floors of perf: bench and gpu on kv_perf's floor or above it, the others below.
above_in_perf() { # PATH
    case $1 in
    perf/base/* | perf/workload/* | perf/memory/*) echo '|^perf/(kv_perf|gpu|bench)/' ;;
    perf/kv_perf/*) echo '|^perf/(gpu|bench)/' ;;
    esac
}

# Rules: a pattern of the headers that this file must not include.
forbidden() { # PATH
    case $1 in
    src/*) echo '^(uct|ucm|infiniband|rdma|hip|hsa|cuda)/|^(xgmi|ucx_plugin|test|perf)/|muct_|verbs\.h' ;;
    # both sides have a base/: the plugin's files there begin with muct_
    # any UCX opens it, so it includes no header of UCX
    ucx_plugin/loader/*) echo '^(uct|ucs|ucm|ucp)/|^(base|copy|xgmi|rdma|src|test|perf)/|morikv|mkv_' ;;
    ucx_plugin/base/*) echo '^base/[^m]|^(ucp|infiniband|rdma)/|^(copy|xgmi|src|test|perf)/|copy_|xgmi_|rdma_|morikv|mkv_' ;;
    ucx_plugin/copy/*) echo '^base/[^m]|^(ucp|hip|hsa|infiniband|rdma)/|xgmi|rdma_|^(src|test|perf)/|morikv|mkv_' ;;
    ucx_plugin/rdma/*) echo '^base/[^m]|^(ucp|hip|hsa)/|xgmi|^copy/|^(src|test|perf)/|morikv|mkv_' ;;
    ucx_plugin/xgmi/*) echo '^base/[^m]|^(ucp|infiniband|rdma)/|rdma_|^copy/|^(src|test|perf)/|morikv|mkv_' ;;
    ucx_plugin/*) echo '^base/[^m]|^ucp/|^(src|test|perf)/|morikv|mkv_' ;;
    # measures the product's kernel without UCX: includes kernel and list, nothing else
    perf/gpu/*) echo '^(uct|ucp|infiniband)/|^(base|rdma|ucx_plugin|test)/|xgmi_(md|iface|ep|map|queue|key)|^perf/(kv_perf|bench)/' ;;
    # tries parts of the product by themselves on a real runtime
    perf/risks/risks_nic.c) echo '^(uct|infiniband)/|^(rdma|ucx_plugin|src|test)/|^perf/(kv_perf|bench|gpu)/' ;;
    perf/risks/*) echo '^(uct|ucp|infiniband)/|^(rdma|ucx_plugin|src|test)/|^perf/(kv_perf|bench|gpu)/' ;;
    perf/*) echo '^(uct|infiniband)/|^(base|wire|memory|plan|peer|message|xfer|post|xgmi|rdma|ucx_plugin|test)/|muct_'"$(above_in_perf "$1")" ;;
    test/conformance/* | test/support/ct_*) echo '^(base|xgmi|rdma|ucx_plugin|src|perf)/|muct_|^mkv_|morikv|^check\.h$' ;;
    test/support/mkv_check.h) echo '^$' ;;
    test/*) echo '^check\.h$' ;; # writes each assertion to a file; mkv_check.h does not
    *) echo '^$' ;;
    esac
}

includes() { # FILE
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]\([^>"]*\)[>"].*/\1/p' "$1"
}

check_file() { # DIR PATH
    local dir=$1 path=$2 name law rc=0
    law=$(forbidden "$path")

    while read -r name; do
        if [[ $name =~ $law ]]; then
            echo "$path must not include $name"
            rc=1
        elif is_pure "$path" && ! is_pure_include "$path" "$name"; then
            echo "$path may see only libc, and includes $name"
            rc=1
        fi
    done < <(includes "$dir/$path")
    return $rc
}

is_pure_include() { # PATH INCLUDED
    local folder=${1%/*}

    [[ $2 =~ $pure_headers ]] || is_pure "ucx_plugin/$2" || is_pure "src/$2" ||
        { [[ $2 != */* ]] && is_pure "$folder/$2"; }
}

# UCX's private structures are declared in one file alone.
check_abi() { # DIR PATH
    [ "$2" != ucx_plugin/base/muct_uct_abi.h ] || return 0
    ! grep -nE '^(typedef )?(struct|union|enum) uc[tsmp]_[a-z0-9_]+ *\{|^extern [^(]*[ *]uc[tsmp]_[a-z0-9_]+(\[[^]]*\])?;|^[a-z][a-z0-9_ *]* \**uc[tsmp]_[a-z0-9_]+\(.*[,;]$' \
        "$1/$2" | sed "s|^|$2 declares UCX's own, which only muct_uct_abi.h may: |" | grep .
}

# A build fragment names sources of its own folder alone; of others it links libraries.
check_fragment() { # DIR PATH
    local folder=${2%/*}
    ! grep -oE '(^|[[:space:]])(src|ucx_plugin|perf|test)/[a-z0-9_./-]+\.(c|h|hip)\b' "$1/$2" |
        grep -vE "^[[:space:]]*$folder/" | sed "s|^[[:space:]]*|$2 speaks of another folder's |" | grep .
}

check() { # DIR
    local path rc=0

    while read -r path; do
        check_fragment "$1" "$path" || rc=1
    done < <(cd "$1" && find . -name '*.mk' -not -path './build*' -printf '%P\n')
    while read -r path; do
        check_file "$1" "$path" || rc=1
        case $path in
        test/fake/*) ;; # stands in for UCX's own functions
        src/* | ucx_plugin/*) check_abi "$1" "$path" || rc=1 ;;
        esac
    done < <(sources "$1" c h hip)
    return $rc
}

one() { # PATH LINE
    echo "$2" | write "$1"
}

samples() {
    one src/peer/peer.c '#include <infiniband/verbs.h>' && bad 'verbs in the library' src/peer/peer.c
    one src/peer/peer.c '#include "base/muct_log.h"' && bad 'the plugin in the library' src/peer/peer.c
    one src/peer/peer.c '  #  include <uct/api/uct.h>' && bad 'UCT in the library' src/peer/peer.c
    one ucx_plugin/rdma/ep/rdma_ep.c '#include "xgmi/xgmi_ep.h"' && bad 'xgmi in rdma' rdma_ep.c
    one ucx_plugin/rdma/ep/rdma_ep.c '#include <hip/hip_runtime_api.h>' && bad 'HIP in rdma' rdma_ep.c
    one ucx_plugin/xgmi/xgmi_ep.c '#include "rdma/ep/rdma_ep.h"' && bad 'rdma in xgmi' xgmi_ep.c
    one ucx_plugin/xgmi/xgmi_ep.h '#include <infiniband/verbs.h>' && bad 'verbs in xgmi' xgmi_ep.h
    one ucx_plugin/copy/copy_ep.c '#include "xgmi/xgmi_ep.h"' && bad 'xgmi in copy' copy_ep.c
    one ucx_plugin/copy/copy_md.c '#include "rdma/memory/rdma_md.h"' && bad 'rdma in copy' copy_md.c
    one ucx_plugin/xgmi/xgmi_ep.c '#include "copy/copy_ep.h"' && bad 'copy in xgmi' xgmi_ep.c
    one ucx_plugin/base/muct_gpu.c '#include "copy/copy_md.h"' && bad 'copy in base' muct_gpu.c
    one ucx_plugin/base/muct_gpu.c '#include "morikv.h"' && bad 'the library in the plugin' muct_gpu.c
    one ucx_plugin/base/muct_gpu.c '#include "base/log.h"' && bad "the library's base in the plugin" muct_gpu.c
    one ucx_plugin/xgmi/memory/xgmi_key.c '#include "xgmi_ep.h"' && bad 'a pure file with a side' xgmi_key.c
    one src/wire/wire.h '#include <ucp/api/ucp.h>' && bad 'UCP in a pure file' src/wire/wire.h
    one ucx_plugin/xgmi/xgmi_ep.h 'struct uct_iface_ops {' && bad 'a structure of UCX' uct_iface_ops
    one ucx_plugin/rdma/ep/rdma_ep.c 'ucs_status_t uct_md_open(void);' && bad 'a function of UCX' uct_md_open
    one perf/bench/bench.c '#include "test/support/rdma_rig.h"' && bad 'tests in perf' bench.c
    one perf/memory/pool.c '#include "perf/kv_perf/engine/run.h"' && bad 'a floor up in perf' pool.c
    one perf/kv_perf/engine/run.c '#include "perf/gpu/gpu_bench.h"' && bad 'the other floor in perf' run.c
    one test/abi/local.mk 'a_SOURCES = test/fake/ucp/fake_ucp.c' && bad 'sources of others' fake_ucp.c
    one test/support/ct_side.c '#include "base/muct_uct_abi.h"' && bad 'the module in its judge' ct_side.c
    one test/unit/base/test_muct_base.c '#include <check.h>' && bad 'Check itself in a test' test_muct_base.c
    {
        echo '#include "wire/wire.h"'
        echo '#include <ucs/type/status.h>'
        echo '#include <string.h>'
    } | write src/wire/wire.c
    one src/peer/peer.c '#include <ucp/api/ucp.h>'
    one ucx_plugin/rdma/queue/rdma_qp.c '#include <infiniband/verbs.h>'
    good 'what the design allows'
}

main "$@"
