#!/bin/bash
# mori_prove on libhipcpu and the fake libibverbs: the control is SAFE, and each red is produced
# by a rule of the stand-ins.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../support/environment.sh"
[ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] || { echo "SKIP: there is no libhipcpu"; exit 77; }
if ldd "$build/.libs/libuct_mori.so" | grep -q libasan; then
    echo "SKIP: UCX's own programs are not started here with AddressSanitizer's runtime"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$build/perf/kv_perf:$build/perf/gpu:$PATH UCX_PLUGIN_PATH=$build/.libs HIPCPU_DEVICES=2
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs:$build/test/fake/hip/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export FAKE_VERBS_WIRE=$work/wire FAKE_VERBS_DEVICES=fake0:ionic
failures=0

fail() { # TEXT
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# prove NAME STATUS LINE... -- OPTION..., each line a pattern
prove() {
    local name=$1 expected=$2 status=0 lines=() line
    shift 2

    while [ "$1" != -- ]; do
        lines+=("$1")
        shift
    done
    shift
    "$build/contrib/mori_prove" --report "$work/$name.json" --limit 300 --minutes 60 --quick "$@" >"$work/out" 2>&1 || status=$?
    [ $status = "$expected" ] || fail "$name: exit status $status; expected $expected"
    for line in "${lines[@]}"; do
        grep -q -e "$line" "$work/out" || fail "$name: no line '$line'"
    done
}

# the control
prove good 0 '^SIMULATED by hipcpu' '^SAFE  *xGMI put' '^SAFE  *xGMI get' '^SAFE  *xGMI lists' '^SAFE  *xGMI messages' '^SAFE  *host memory' \
    '^SAFE  *NIC, host memory' '^SAFE  *NIC, GPU memory' '^SAFE  *NIC, dma-buf' '^SAFE  *NIC, peer memory' \
    '^  not seen  *a killed peer' '^  not seen  *copies of several processes on a GPU' --
grep -q '"schema": "ucx-mori-report"' "$work/good.json" || fail "there is no schema in the report"
! grep -q -w -e "$(hostname)" "$work/good.json" || fail "the report names the host"

# every import fails, and tcp carries the bytes
HIPCPU_FAIL=hipIpcOpenMemHandle:0:17 UCX_MORI_XGMI_OPEN_TIMEOUT=30s \
    prove tcp 2 '^NOT SAFE  *xGMI put: .*expected mori_xgmi alone, went by ' '^  seen  *an import fails' -- --path 'xGMI put'
# messages take another lane than mori_xgmi
UCX_MORI_XGMI_MESSAGES=n prove lane 2 '^NOT SAFE  *xGMI messages: .*expected messages over mori_xgmi, went by tcp' -- --path 'xGMI messages'
# one byte is wrong
HIPCPU_RULES=wrong-byte prove byte 2 '^NOT SAFE  *xGMI lists: .*wrong byte' -- --path 'xGMI lists'
# processes of one GPU read stale staging buffers, in a stage of its own
HIPCPU_RULES=stale-staging prove stale 2 '^NOT SAFE  *host memory' '^  BROKEN  *copies of several processes on a GPU read stale bytes.*wrong byte' -- --path 'host memory' --path risks
FAKE_VERBS_MODE=wrong-byte prove nic-byte 2 '^NOT SAFE  *NIC, host memory: .*wrong byte' '^NOT SAFE  *NIC, GPU memory: .*wrong byte' -- --path 'NIC, host' --path 'NIC, GPU'
# there is no GPU memory
HIPCPU_FAIL=hipMalloc:0:2 prove memory 2 '^NOT SAFE  *xGMI put: .*hipMalloc' -- --path 'xGMI put'
# ports that do not reach each other
FAKE_VERBS_DEVICES=fake0:ionic,fake1:mlx5_ib prove apart 0 'RED NIC, host memory, host to host by fake0:1 and fake1:1' \
    'expected mori_rdma alone, went by .*tcp' '^SAFE  *NIC, host memory: .*pairs of ports that do not reach each other: 1' -- --path 'NIC, host'
# one of two ways of registering is missing
FAKE_VERBS_PEERMEM=n prove peermem 1 '^SAFE  *NIC, GPU memory' '^SAFE  *NIC, dma-buf' '^NOT PROVEN  *NIC, peer memory' -- --path 'NIC, '
# no time, no GPU, no NIC
prove late 1 '^NOT PROVEN  *xGMI put: the time was over' 'stages were left out' -- --path 'xGMI put' --minutes 0.001
HIPCPU_DEVICES=1 prove alone 1 '^NOT PROVEN  *xGMI get: 1 GPUs here; expected 2 or more' -- --path 'xGMI get'

# two hosts: this ssh runs the command on this host; as with the real ssh, the command outlives it
mkdir "$work/bin" "$work/stuck"
cat >"$work/bin/ssh" <<END
#!/bin/sh
for last; do :; done
pipe=$work/pipe.\$\$
mkfifo "\$pipe"
exec 3<&0
cat <&3 >"\$pipe" &
PATH=\$FAR_PATH:\$PATH setsid sh -c 'sh -c "\$1"; status=\$?; echo \$status >>"$work/ended"; exit \$status' - "\$last" <"\$pipe"
status=\$?
kill %1
exit \$status
END
printf '#!/bin/sh\necho it hangs\nexec sleep 1000\n' >"$work/stuck/mori_kv_perf"
chmod +x "$work/bin/ssh" "$work/stuck/mori_kv_perf"
FAR_PATH=/none PATH=$work/bin:$PATH prove two 0 '^SAFE  *NIC, host memory' -- --path 'NIC, host' --two localhost
# a remote program that hangs is ended, and what it printed is shown
FAR_PATH=$work/stuck PATH=$work/bin:$PATH prove stuck 2 '^NOT SAFE  *NIC, host memory: .*did not end in time' \
    -- --path 'NIC, host' --two localhost --limit 2
for _ in $(seq 100); do [ "$(tail -n 1 "$work/ended")" = 137 ] && break; sleep 0.1; done
[ "$(cat "$work/ended")" = "0
137" ] || fail "a program is left on the other host"
grep -q 'it hangs' "$work/stuck.log" || fail "the output of a stage that ran into its limit is lost"

prove same 0 -- --path 'xGMI put'
"$build/contrib/mori_prove" compare "$work/same.json" "$work/same.json" >"$work/out" || fail "a report is worse than itself"
if "$build/contrib/mori_prove" compare "$work/same.json" "$work/tcp.json" >"$work/out"; then
    fail "a red report is not worse"
fi
grep -q '^xGMI put  *SAFE  *NOT SAFE  *changed' "$work/out" || fail "compare has no line of the path"
if "$build/contrib/mori_prove" compare "$work/same.json" "$work/alone.json" >"$work/out"; then
    fail "a report that lacks a proven path is not worse"
fi
echo '{}' >"$work/other.json"
if "$build/contrib/mori_prove" compare "$work/same.json" "$work/other.json" >"$work/out" 2>&1; then
    fail "compare takes any JSON"
fi
grep -q 'other.json is no ucx-mori-report of version' "$work/out" || fail "compare does not name the schema"
# a report that cannot be written is refused before anything runs
prove /missing/x 3 "argument --report: .*/missing/x.json.*expected a file that can be written" --

# what no short run shows: stages left out, a wrong port, and what is anonymous
python3 - "$build/contrib/mori_prove" >"$work/out" 2>&1 <<'END' || fail "a rule of verdicts or of anonymity does not hold"
import argparse, collections, importlib.util, sys
from importlib.machinery import SourceFileLoader

loader = SourceFileLoader("mori_prove", sys.argv[1])
prove = importlib.util.module_from_spec(importlib.util.spec_from_loader("mori_prove", loader))
loader.exec_module(prove)
prove.Job.options = argparse.Namespace(two="me@other.example")
path = prove.PATHS[0]
green = {"path": path.name, "green": True, "reason": "", "gb_per_s": 1.0, "nics": [], "what": "one"}


def verdict(*stages, left=0):
    prove.Job.stages, prove.Job.left = list(stages), collections.Counter({path.name: left})
    return prove.verdict(path, [])["verdict"]


assert verdict(green) == "SAFE"
assert verdict(green, left=1) == "NOT PROVEN"
red = {**green, "green": False, "nics": ["a:1", "b:1"]}
assert verdict(green, {**red, "reason": "expected mori_rdma alone, went by rndv, tcp: words"}) == "SAFE"
assert verdict(green, {**red, "reason": "expected port a:1, went by b:1"}) == "NOT SAFE"
prove.os.environ["HIP_VISIBLE_DEVICES"] = "5,3"
assert prove.visible(0, 1, 1) == {"HIP_VISIBLE_DEVICES": "5,3,3"}
late = prove.doctor.bounded("sh", "-c", "echo begun; sleep 100", limit=0.5)
assert (late.status, late.text) == (124, "begun\n"), late
prove.Job.options.limit = 1
assert prove.judge(path, prove.Result(124, "begun\n", [])).endswith("its last line: begun")
prove.getpass.getuser = lambda: "path"
clean = prove.anonymous_values({"schema": "path", "path": "fe80::1:2ff:fe03:4 02:AB:cd:00:11:22 path other.example 12:30:59"})
assert clean == {"schema": "path", "path": "ADDRESS MAC USER OTHER 12:30:59"}, clean
END
exit $((failures > 0))
