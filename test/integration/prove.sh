#!/bin/bash
# mori_prove on libhipcpu and the fake libibverbs: the control is SAFE, and rules of the stand-ins
# produce each failure.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../support/environment.sh"
[ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] || { echo "SKIP: there is no libhipcpu"; exit 77; }
if ldd "$build/.libs/libuct_mori.so" | grep libasan >/dev/null; then
    echo "SKIP: UCX's own programs are not started here with AddressSanitizer's runtime"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PATH=$build/perf/kv_perf:$build/perf/gpu:$build/perf/risks:$PATH UCX_PLUGIN_PATH=$build/.libs HIPCPU_DEVICES=2
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
prove good 0 '^SIMULATED by hipcpu' '^LIMITED by --quick' '^SAFE  *xGMI put' '^SAFE  *xGMI get' '^SAFE  *xGMI lists' '^SAFE  *xGMI messages' '^SAFE  *host memory' \
    '^SAFE  *NIC, host memory' '^SAFE  *NIC, GPU memory' '^SAFE  *NIC, dma-buf' '^SAFE  *NIC, peer memory' \
    '^SAFE  *NIC, read by a kernel' '^  not seen  *a killed peer' '^  not seen  *copies of several processes on a GPU' \
    '^  not seen  *a graph that is replayed' '^  not seen  *memory that slept' '^  not seen  *a kernel behind the flush' \
    '^  not seen  *memory mapped anew' \
    '^  not seen  *a query of an event ends a capture' '^  cannot be seen here  *a GPU has no known place beside the NICs .*no NIC' --
grep -q '"schema": "ucx-mori-report"' "$work/good.json" || fail "there is no schema in the report"
! grep -q -w -e "$(hostname)" "$work/good.json" || fail "the report names the host"

# every import fails, and tcp carries the bytes
HIPCPU_FAIL=hipIpcOpenMemHandle:0:17 UCX_MORI_XGMI_OPEN_TIMEOUT=30s \
    prove tcp 2 '^NOT SAFE  *xGMI put: .*expected mori_xgmi alone, went by ' '^  seen  *an import fails' -- --path 'xGMI put'
# messages take another lane than mori_xgmi
UCX_MORI_XGMI_MESSAGES=n prove lane 2 '^NOT SAFE  *xGMI messages: .*expected messages over mori_xgmi, went by tcp' -- --path 'xGMI messages'
# one byte is wrong
HIPCPU_RULES=wrong-byte prove byte 2 '^NOT SAFE  *xGMI lists: .*wrong byte' -- --path 'xGMI lists'
# a copy engine reads the NIC's bytes, a kernel reads old ones
HIPCPU_RULES=stale-reads prove reads 2 '^SAFE  *NIC, GPU memory' '^NOT SAFE  *NIC, read by a kernel: .*wrong byte' -- --path 'NIC, GPU' --path 'NIC, read'
# processes of one GPU read stale staging buffers, in a stage of its own
HIPCPU_RULES=stale-staging prove stale 2 '^NOT SAFE  *host memory' '^  BROKEN  *copies of several processes on a GPU read stale bytes.*wrong byte' -- --path 'host memory' --path risks
FAKE_VERBS_MODE=wrong-byte prove nic-byte 2 '^NOT SAFE  *NIC, host memory: .*wrong byte' '^NOT SAFE  *NIC, GPU memory: .*wrong byte' -- --path 'NIC, host' --path 'NIC, GPU'
# the timed transfers write what is not theirs, and the one behind them does not
FAKE_VERBS_MODE=stray-byte prove stray 2 '^NOT SAFE  *NIC, host memory: .*wrong byte .*a block that no transfer may write' -- --path 'NIC, host'
# the device reaches other pages than the GPU by a dma-buf, which the canary sees
FAKE_VERBS_MODE=other-pages prove pages 1 '^SAFE  *NIC, GPU memory' '^NOT PROVEN  *NIC, dma-buf: .*failed to register' \
    '^  seen  *the NIC and the GPU see other bytes' -- --path 'NIC, GPU' --path 'NIC, dma'
# the offset of memory inside its allocation is lost: bytes are wrong, and the canary sees it
HIPCPU_RULES=dmabuf-offset FAKE_VERBS_PEERMEM=n prove offset 2 '^NOT SAFE  *NIC, GPU memory: .*wrong byte' \
    '^NOT SAFE  *NIC, dma-buf: .*failed to register' '^  seen  *the NIC and the GPU see other bytes' -- --path 'NIC, GPU' --path 'NIC, dma'
# memory of an odd size ends the process; gpu_risks provokes what RISKS names, as the control has all
HIPCPU_RULES=odd-size RISKS=import prove odd 2 '^NOT SAFE  *xGMI put: memory of an odd size' '^  BROKEN  *memory of an odd size .*ended by signal' \
    -- --path 'xGMI put' --path risks
# exit() aborts processes that exported memory; our programs do not call it
HIPCPU_RULES=exit-aborts RISKS=import prove exit 0 '^SAFE  *xGMI put' '^  not seen  *a process that exported memory aborts' -- --path 'xGMI put' --path risks
# other programs have all GPU memory: no fault of a path
HIPCPU_FAIL=hipMalloc:0:2 prove memory 1 '^NOT PROVEN  *xGMI put: other programs have the memory of a GPU; .*hipMalloc' \
    '^  cannot be seen here  *a call of the runtime fails' -- --path 'xGMI put' --path risks
HIPCPU_FAIL=hipMalloc:0:1 prove malloc 2 '^NOT SAFE  *xGMI put: .*hipMalloc' -- --path 'xGMI put'
# the runtime has its known faults, and one that breaks mori_xgmi's copies
HIPCPU_VERSION=7.0 HIPCPU_RULES=capture-event,errors-overwritten RISKS='capture-event last-error' prove risks 2 '^NOT SAFE  *xGMI put: copies of mori_xgmi clear' \
    '^  seen  *a query of an event ends a capture (clr' '^  BROKEN  *copies of mori_xgmi clear' -- --path 'xGMI put' --path risks
HIPCPU_RULES=replay-stale,stale-map RISKS='replay wake-up' prove awake 2 '^NOT SAFE  *xGMI put: ' '^  BROKEN  *a graph that is replayed' '^  BROKEN  *memory that slept' \
    -- --path 'xGMI put' --path risks
FAKE_VERBS_MODE=late-write RISKS=nic-flush prove flush 2 '^NOT SAFE  *NIC, GPU memory: a kernel behind' '^  BROKEN  *a kernel behind the flush' -- --path 'NIC, GPU' --path risks
# ports that do not reach each other
FAKE_VERBS_DEVICES=fake0:ionic,fake1:mlx5_ib prove apart 0 'RED NIC, host memory, host to host by fake0:1 and fake1:1' \
    'expected mori_rdma alone, went by .*tcp' '^SAFE  *NIC, host memory: .*pairs of ports that do not reach each other: 1' -- --path 'NIC, host'
# one of two ways of registering is missing
FAKE_VERBS_PEERMEM=n prove peermem 1 '^SAFE  *NIC, GPU memory' '^SAFE  *NIC, dma-buf' '^NOT PROVEN  *NIC, peer memory' -- --path 'NIC, '
# iWARP, of which verbs of a queue pair connect none
FAKE_VERBS_DEVICES=fake0:siw prove siw 1 '^NOT PROVEN  *NIC, host memory: mori_rdma has no port here' -- --path 'NIC, host'
# a link that goes down while bytes move: this `ip` takes the stand-in's link down
mkdir "$work/link"
cat >"$work/link/ip" <<END
#!/bin/sh
[ "\$1 \$2 \$3" = "link set eth7" ] && exec "$build/test/fake/verbs/verbs_ctl" link fake0 "\$4"
END
chmod +x "$work/link/ip"
FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic PATH=$work/link:$PATH \
    prove flap 0 '^SAFE  *NIC, link that flaps' 'by fake0:1 and fake1:1, eth7 down [1-9]' -- --path 'NIC, link' --flap eth7
# this `ip` does nothing, so no connection breaks
mkdir "$work/idle"
printf '#!/bin/sh\nexit 0\n' >"$work/idle/ip"
chmod +x "$work/idle/ip"
FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic PATH=$work/idle:$PATH \
    prove idle 2 '^NOT SAFE  *NIC, link that flaps: .*eth7 down [1-9].* no connection was made anew' -- --path 'NIC, link' --flap eth7
# the kernel refuses the command
FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic PATH=$work/link:$PATH \
    prove still 1 "^NOT PROVEN  *NIC, link that flaps: 'ip link set eth8 up' failed" -- --path 'NIC, link' --flap eth8
# a copy of libhipcpu has AMD's name
mkdir "$work/copy"
cp -L "$build"/test/fake/hip/lib/libamdhip64.so.6 "$work/copy/"
LD_LIBRARY_PATH=$work/copy:$LD_LIBRARY_PATH prove copy 1 '^SIMULATED by hipcpu' -- --path 'xGMI put' --minutes 0.001
# a signal ends the stages, and the report has those before it; no other program begins
status=0
mkdir "$work/begun"
printf '#!/bin/sh\ntouch "%s"\n' "$work/has_begun" >"$work/begun/TransferBench"
# shellcheck disable=SC2016 # the stub expands it
printf '#!/bin/sh\n[ "$4" != down ] || touch "%s"\n' "$work/has_begun" >"$work/begun/ip"
cat >"$work/begun/mori_kv_perf" <<END
#!/bin/sh
case " \$* " in *" pingpong "*) touch "$work/hangs" && exec sleep 1000 ;; esac
exec "$build/perf/kv_perf/mori_kv_perf" "\$@"
END
chmod +x "$work/begun"/*
FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic PATH=$work/begun:$PATH "$build/contrib/mori_prove" --report "$work/signal.json" --limit 300 --minutes 60 \
    --path xGMI --path 'NIC, link' --path risks --flap eth7 >"$work/out" 2>&1 &
pid=$!
while [ ! -e "$work/hangs" ] && kill -0 "$pid"; do sleep 0.1; done # in messages
kill -TERM "$pid"
wait "$pid" || status=$?
[ ! -e "$work/has_begun" ] || fail "signal: another program began"
[ $status = 3 ] || fail "signal: exit status $status; expected 3"
for line in '^LIMITED by a signal' '^NOT PROVEN  *xGMI put: 1 stages are green; 1 were left out, a signal' '^NOT PROVEN  *xGMI messages: a signal ended the run' \
    '^  cannot be seen here  *memory that slept .*: a signal ended the run'; do
    grep -q -e "$line" "$work/out" || fail "signal: no line '$line'"
done
grep -q '"path": "xGMI put"' "$work/signal.json" || fail "signal: the report has no stage"
# no time, no GPU, no NIC
prove late 1 '^NOT PROVEN  *xGMI put: the time was over' 'stages were left out' -- --path 'xGMI put' --minutes 0.001
HIPCPU_DEVICES=1 prove alone 1 '^NOT PROVEN  *xGMI get: 1 GPUs here; expected 2 or more' -- --path 'xGMI get'
prove first 1 '^NOT PROVEN  *xGMI put: 1 GPUs here; expected 2 or more' -- --path 'xGMI put' --gpus 1
# one GPU is enough for a NIC
HIPCPU_DEVICES=1 prove one 0 '^SAFE  *NIC, GPU memory' -- --path 'NIC, GPU'
# the log of UCX is wanted elsewhere, and names of sockets in the folder of temporary files are too long
far=$work/$(printf '%0100d' 0)
mkdir "$far"
UCX_LOG_FILE=$work/log TMPDIR=$far FAKE_VERBS_DEVICES=fake0:ionic,fake1:ionic prove elsewhere 0 '^SAFE  *xGMI messages' '^SAFE  *NIC, host memory' \
    -- --path 'xGMI messages' --path 'NIC, host'
# ucx_info that ends early does not show that there is no GPU
mkdir "$work/late" "$work/early"
# shellcheck disable=SC2016 # the stub expands it
printf '#!/bin/sh\n[ "$1" = -d ] || exit 1\necho it hangs\nexec sleep 1000\n' >"$work/late/ucx_info"
printf '#!/bin/sh\necho it crashes\nkill -SEGV $$\n' >"$work/early/ucx_info"
chmod +x "$work/late/ucx_info" "$work/early/ucx_info"
PATH=$work/late:$PATH prove hang 3 '^mori_prove: ucx_info -d.* did not end within 15 s (--limit); its last line: it hangs' -- --limit 15
PATH=$work/early:$PATH prove crash 3 '^mori_prove: ucx_info -d.* ended with status -11; its last line: it crashes' --
# no room for files
(ulimit -f 64 && prove room 3 '^mori_prove: 1 MiB cannot be written .*File too large' -- && exit "$failures") || failures=$((failures + 1))
# another run has the report
echo kept >"$work/busy.json"
exec {lock}>>"$work/busy.json"
flock -n "$lock" || fail "the report is locked"
prove busy 3 "argument --report: another mori_prove writes .*/busy.json" --
[ "$(cat "$work/busy.json")" = kept ] || fail "the report of another run is lost"
exec {lock}>&-

# two hosts: this ssh runs the command on this host; as with the real ssh, the command outlives it
mkdir "$work/bin" "$work/stuck"
cat >"$work/bin/ssh" <<END
#!/bin/sh
[ "\$1" != -G ] || exec echo hostname localhost
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
FAR_PATH=/none PATH=$work/bin:$PATH prove two 1 '^NOT PROVEN  *NIC, host memory: localhost is this host, and the stages are green' -- --path 'NIC, host' --two localhost
grep -q '"two_hosts": false' "$work/two.json" || fail "the report of one host has two"
# the other host has fewer GPUs, or none
mkdir "$work/fewer"
# shellcheck disable=SC2016 # the stub expands it
printf '#!/bin/sh\nHIPCPU_DEVICES=$FAR_GPUS exec "%s" "$@" ${FAR_RUNTIME:+--hip_library $FAR_RUNTIME}\n' "$build/perf/kv_perf/mori_kv_perf" >"$work/fewer/mori_kv_perf"
chmod +x "$work/fewer/mori_kv_perf"
FAR_GPUS=1 FAR_PATH=$work/fewer PATH=$work/bin:$PATH prove fewer 1 '^LIMITED by .*GPU 1 absent from the other host' \
    '^NOT PROVEN  *NIC, GPU memory: localhost is this host, and the stages are green' -- --path 'NIC, GPU' --two localhost
FAR_GPUS=0 FAR_PATH=$work/fewer PATH=$work/bin:$PATH prove none 1 '^NOT PROVEN  *NIC, GPU memory: the other host has no GPU' \
    -- --path 'NIC, GPU' --two localhost
# nor a runtime
FAR_RUNTIME=/none.so FAR_GPUS=2 FAR_PATH=$work/fewer PATH=$work/bin:$PATH prove bare 1 \
    '^NOT PROVEN  *NIC, GPU memory: the other host has no GPU' -- --path 'NIC, GPU' --two localhost
# the other host has another version
mkdir "$work/older"
printf '#!/bin/sh\necho mori_kv_perf 0.0.8\n' >"$work/older/mori_kv_perf"
chmod +x "$work/older/mori_kv_perf"
UCX_PLUGIN_PATH='' FAR_PATH=$work/older PATH=$work/bin:$PATH prove older 3 "^mori_prove: mori_kv_perf on localhost prints 'mori_kv_perf 0.0.8'; expected 'mori_kv_perf [0-9].*both hosts" \
    -- --path 'NIC, host' --two localhost
rm "$work/ended"
# a remote program that hangs is ended, and what it printed is shown
FAR_PATH=$work/stuck PATH=$work/bin:$PATH prove stuck 2 '^NOT SAFE  *NIC, host memory: .*\(did not end in time\|was not reached within 20 s\)' \
    -- --path 'NIC, host' --two localhost --limit 20
for _ in $(seq 600); do [ "$(wc -l <"$work/ended")" = 2 ] && break; sleep 0.1; done
[ "$(cat "$work/ended")" = "137
137" ] || fail "a program is left on the other host"
grep -q 'it hangs' "$work/stuck.log" || fail "the output of a stage that ran into its limit is lost"

prove same 0 -- --path 'xGMI put'
"$build/contrib/mori_prove" compare "$work/same.json" "$work/same.json" >"$work/out" || fail "a report is worse than itself"
if "$build/contrib/mori_prove" compare "$work/same.json" "$work/tcp.json" >"$work/out"; then
    fail "a red report is not worse"
fi
grep -q 'same.json: SIMULATED LIMITED' "$work/out" || fail "compare does not name a report of stand-ins"
grep -q '^xGMI put  *SAFE  *NOT SAFE  *changed' "$work/out" || fail "compare has no line of the path"
if "$build/contrib/mori_prove" compare "$work/same.json" "$work/alone.json" >"$work/out"; then
    fail "a report that lacks a proven path is not worse"
fi
# files that are no report, or a damaged one: another status than that of a worse one
refused() { # TEXT, of the file other.json
    local status=0
    "$build/contrib/mori_prove" compare "$work/same.json" "$work/other.json" >"$work/out" 2>&1 || status=$?
    [ $status = 3 ] || fail "compare of $1: exit status $status; expected 3"
    grep -q "^mori_prove: .*other.json.*$1" "$work/out" || fail "compare: no line '$1'"
}
echo '{}' >"$work/other.json" && refused 'is no ucx-mori-report of version'
head -c 2000 "$work/same.json" >"$work/other.json" && refused 'expected a report.json'
printf '\377\376' >"$work/other.json" && refused 'expected a report.json'
for damage in 's/"verdict": "SAFE"/"verdict": "FINE"/' 's/"gb_per_s": [0-9.]*/"gb_per_s": null/' 's/"state"/"status"/' 's/"verdicts": /"verdict": /'; do
    sed "$damage" "$work/same.json" >"$work/other.json" && refused 'as mori_prove writes them'
done
# the reader of the lines leaves, and a folder is no text
mkdir "$work/$(printf 'a\377')"
PYTHONUTF8=1 "$build/contrib/mori_prove" --report "$work/$(printf 'a\377')/r.json" --quick --path 'NIC, link' --flap eth7 --minutes 0.001 >"$work/out" 2>&1
grep -q '^please send .*r.json' "$work/out" || fail "a folder with a name that is no text"
"$build/contrib/mori_prove" --report "$work/pipe.json" --quick --path 'xGMI put' --minutes 0.001 2>"$work/out" | true
! grep -q Traceback "$work/out" || fail "a reader that leaves"
exec {closed}> >(:)
wait $!
"$build/contrib/mori_prove" compare "$work/same.json" "$work/same.json" 1>&"$closed" 2>"$work/out"
! grep -q -e Traceback -e Exception "$work/out" || fail "compare: a reader that leaves"
ln -s /dev/full "$work/full.json"
prove full 3 '^NOT PROVEN  *xGMI put' 'full.json: No space left on device; lost' -- --path 'xGMI put' --minutes 0.001
rm "$work/full.json" && ln -sf /dev/full "$work/full.log"
prove full 3 '^SAFE  *xGMI put' 'full.log: No space left on device; lost' -- --path 'xGMI put'
grep -q '"schema"' "$work/full.json" || fail "a log that cannot be written loses the report"
# a mori_kv_perf of another version; the earlier report of that name is none of this run
mkdir "$work/other"
printf '#!/bin/sh\necho mori_kv_perf 0.0.9\n' >"$work/other/mori_kv_perf"
chmod +x "$work/other/mori_kv_perf"
cp "$work/same.json" "$work/version.json"
PATH=$work/other:$PATH prove version 3 "^mori_prove: .*/mori_kv_perf --version prints 'mori_kv_perf 0.0.9'; expected 'mori_kv_perf [0-9]" -- --path 'xGMI put'
[ ! -s "$work/version.json" ] || fail "a run without an end leaves an earlier report"
# a report that cannot be written is refused before anything runs
prove /missing/x 3 "argument --report: .*/missing/x.json.*expected a file that can be written" --

# tools of others, with the output that their sources print: TransferBench 1.52 (RunPeerToPeerBenchmarks),
# rocm_bandwidth_test 6.3.3 (rocm_bandwidth_test_report.cpp), perftest of 2026 (perftest_parameters.h)
mkdir "$work/tb" "$work/rbt" "$work/perftest"
cat >"$work/tb/TransferBench" <<'END'
#!/bin/bash
[ "$*" = "p2p 64M" ] && [ "$P2P_MODE $NUM_CPU_DEVICES" = "1 0" ] || exit 1
echo "Bytes Per Direction 67108864"
echo "Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)"
printf '%12s%7s %02d%7s %02d\n' 'SRC+EXE\DST' GPU 0 GPU 1
printf '%5s %02d %3s%10.2f%10.2f\n' GPU 0 ' ->' 1512.8 48.5 GPU 1 ' ->' 40 1510.25
echo "                           CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU"
printf 'Averages (During UniDir):%10s%10s%10s%10.2f\n' N/A N/A N/A 44.25
END
cat >"$work/rbt/rocm-bandwidth-test" <<'END'
#!/bin/bash
[ "$*" = -a ] || exit 1
printf '%-10s%s\n' '' "Device: 0,  AMD EPYC 9654 96-Core Processor" '' "Device: 1,  AMD Instinct MI300X,  GPU-1b7d0d3ce8a2f1aa,  05:0.0" \
    '' "Device: 2,  AMD Instinct MI300X,  GPU-9e0a0d3ce8a2f1ab,  26:0.0"
printf '%-10s%-10s\n\n' '' 'Inter-Device Access'
printf '%-10s%-10s%-12s%-12s%-12s\n\n' '' D/D 0 1 2 '' 0 1 1 1
printf '%-10s%-10s\n\n' '' 'Unidirectional copy peak bandwidth GB/s'
printf '%-10s%-10s%-12s%-12s%-12s\n\n' '' D/D 0 1 2 '' 0 N/A 55.123 55.2 '' 1 56.1 1400.5 48.75 '' 2 56 39.875 1401
END
cat >"$work/perftest/ib_write_bw" <<'END'
#!/bin/bash
[[ " $* " = *" -s 1048576 -D 1 -F --report_gbits "* ]] || exit 1
[ "${*: -1}" = 127.0.0.1 ] || exec sleep 10
echo " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]"
printf ' %-7lu    %-10u       %-7.2f            %-7.2f\t\t     %-7.6f\n' 1048576 23423 0 "$([[ "$*" = *"--use_rocm 1 "* ]] && echo 160 || echo 392)" 0.0468
END
mkdir "$work"/{crash,fail,hang}
printf '#!/bin/sh\necho "risk handles not seen"\nkill -SEGV $$\n' >"$work/crash/gpu_risks"
printf '#!/bin/sh\necho "gpu_risks: waiting for the end of a copy failed"\nexit 1\n' >"$work/fail/gpu_risks"
printf '#!/bin/sh\nexec sleep 10\n' >"$work/hang/gpu_risks"
chmod +x "$work"/{crash/gpu_risks,fail/gpu_risks,hang/gpu_risks,tb/TransferBench,rbt/rocm-bandwidth-test,perftest/ib_write_bw}

# cases that no short run reaches: stages left out, a wrong port, and anonymous reports
python3 - "$build/contrib/mori_prove" "$work" >"$work/out" 2>&1 <<'END' || fail "a rule of verdicts or of anonymity does not hold"
import argparse, collections, importlib.util, sys
from importlib.machinery import SourceFileLoader

loader = SourceFileLoader("mori_prove", sys.argv[1])
prove = importlib.util.module_from_spec(importlib.util.spec_from_loader("mori_prove", loader))
loader.exec_module(prove)
prove.Job.options = argparse.Namespace(two="me@other.example")
path_of_all = prove.os.environ["PATH"]
path = prove.PATHS[0]
green = {"path": path.name, "green": True, "reason": "", "gb_per_s": 1.0, "nics": [], "what": "one"}


def verdict(*stages, left=0):
    prove.Job.stages, prove.Job.left = list(stages), collections.Counter({path.name: left})
    return prove.verdict(path, [])["verdict"]


assert verdict(green) == "SAFE"
assert verdict(green, left=1) == "NOT PROVEN"
red = {**green, "green": False, "nics": ["a:1", "b:1"]}
apart = {**red, "reason": "expected mori_rdma alone, went by rndv, tcp: words"}
alone = [{**green, "nics": [port, port]} for port in ("a:1", "b:1")]
assert verdict(*alone, apart) == "SAFE"
assert verdict(alone[0], apart) == "NOT SAFE"  # b:1 may be the fault
assert verdict(green, {**red, "reason": "expected port a:1, went by b:1"}) == "NOT SAFE"

# the rates of others
prove.Job.options = argparse.Namespace(two="", quick=False, limit=20, named=True)
prove.Job.end = prove.time.monotonic() + 1000


def rates(tools):
    xgmi = [{**green, "pair": list(pair), "gb_per_s": 20.0} for pair in ((0, 1), (1, 0))]
    nic = [{**green, "path": "NIC", "nics": ["a:1", "a:1"], "pair": pair, "gb_per_s": 25.0} for pair in ([], [1, 0])]
    prove.Job.stages = xgmi + nic
    prove.os.environ["PATH"] = ":".join([f"{sys.argv[2]}/{tool}" for tool in tools] + ["/usr/bin:/bin"])
    prove.raw_rates()
    return [prove.shares(stage) for stage in prove.Job.stages]


assert rates(["tb", "rbt", "perftest"]) == [{"TransferBench": 41}, {"TransferBench": 50}, {"ib_write_bw": 51}, {"ib_write_bw": 125}]
assert rates(["rbt"])[:2] == [{"rocm-bandwidth-test": 41}, {"rocm-bandwidth-test": 50}], prove.Job.log
three = [{**green, "what": str(pair), "pair": list(pair), "gb_per_s": 20.5, "others": {"it": 41}} for pair in ((0, 1), (1, 0), (0, 2))]
table = list(prove.matrix("xGMI put", three))
assert table[0].startswith("  xGMI put, GB/s, % of it;") and table[1].split() == ["0", "-", "20.5/50", "20.5/50"], table

prove.os.environ["HIP_VISIBLE_DEVICES"] = "5,3"
assert rates(["rbt"])[0] == {}  # ROCr does not read that variable

# each cause of a failed stage that no run above has
sizes = ("--start_block_size", "4k", "--max_block_size", "4k")
row = {"path": "put host>host: rdma (zero-copy mori_rdma/a:1)", "gb_per_s": 1.0, "checked": True, "block_size": 4096}
nic = next(path for path in prove.PATHS if path.transport == "mori_rdma")._replace(arguments=sizes)
messages = next(path for path in prove.PATHS if path.is_message)
good = "every byte checked"
xgmi = {"path": "put rocm>rocm: xgmi (zero-copy mori_xgmi/xgmi)", "checked": True, "block_size": 4096}
mixed = {**row, "path": "put host>host: 50% on mori_rdma/a:1 and 50% on srd/b:1"}
reds = [(nic, (3, "", []), "ended with status 3"), (nic, (0, good, []), "measured nothing"), (nic, (0, good, [row, {**row, "checked": False}]), "not compared"),
        (nic, (0, good, [{**row, "path": "put"}]), "names no transport"), (nic, (0, good, [mixed]), "went by srd:"), (messages, (0, good, [xgmi]), "no lane of messages"),
        (nic._replace(arguments=(*sizes[:3], "8k")), (0, good, [row]), "blocks of 8192 bytes were not measured")]
for red, result, reason in reds:
    assert reason in prove.judge(red, prove.Result(*result)), (reason, prove.judge(red, prove.Result(*result)))
assert prove.judge(nic, prove.Result(0, good, [row]), "a:1") == ""
both = prove.Result(1, "error: of one\nerror: of the other\n", [], "error: of the other\n")
assert prove.judge(nic, both) == "error: of the other", prove.judge(nic, both)
sides = [prove.subprocess.Popen(["sleep", "1"]), prove.subprocess.Popen(["sh", "-c", "exit 3"])]
assert prove.wait_for_both(sides, 100) == (3, 1)
assert "expected port b:1, went by a:1" in prove.judge(nic, prove.Result(0, good, [row]), "b:1")

# a way of registering that fails otherwise than by a refusal
way, stages = next(path for path in prove.PATHS if path.is_one_of), prove.Job.stages
for reasons, expected in ((["ERROR Endpoint timeout"], "NOT SAFE"), (["has no dma-buf"] * 2, "NOT PROVEN"),
                          (["ERROR ibv_reg_dmabuf_mr(fd 3 offset 0) failed: Invalid argument"], "NOT PROVEN"), (["has no key", "wrong byte 5"], "NOT SAFE")):
    prove.Job.stages = [{"path": way.name, "nics": [""], "green": False, "reason": reason} for reason in reasons]
    ways = [{"path": way.name, "verdict": "NOT SAFE", "of": way.is_one_of}, {"path": way.is_one_of, "verdict": "SAFE", "of": ""}]
    prove.weigh_ways(ways)
    assert [each["verdict"] for each in ways] == [expected, "SAFE"], ways
prove.Job.stages = stages

# what leaves out pairs or paths, and the stand-in of the driver
prove.Job.num_gpus, options = 8, prove.Job.options
prove.Job.options = argparse.Namespace(quick=True, gpus=2, path=["xGMI"], limit=20)
assert prove.limited() == ["--quick", "--gpus 2", "--path 'xGMI'"], prove.limited()
prove.doctor.Machine.gpus = [None] * 9
assert prove.limited()[1] == "8 of 9 GPUs that HIP shows", prove.limited()
prove.doctor.Machine.gpus = []
prove.os.environ["UCX_NET_DEVICES"] = "fake0:1"
assert prove.limited()[1] == "UCX_NET_DEVICES=fake0:1", prove.limited()
del prove.os.environ["UCX_NET_DEVICES"]
prove.doctor.looks, prove.doctor.Module.log, prove.os.environ["LD_PRELOAD"] = list, prove.doctor.Output(0, ""), "/x/libkfdcpu.so"
prove.examine()
assert prove.Job.simulated == ["kfdcpu"], prove.Job.simulated
assert prove.doctor.options.limit == 20
del prove.os.environ["LD_PRELOAD"]
prove.Job.options = options

# texts of glibc, and a signal behind the result
aborts = next(risk for risk in prove.RISKS if risk.issue == "rocm-systems PR 3256")
done = "every byte checked\nerror: the decode process was ended by signal 11 (Segmentation fault)\n"
for text, state in (("double free or corruption (!prev)", "seen"), ("malloc(): unaligned tcache chunk detected", "seen"), (done, "seen"),
                    (done.replace("every byte checked", ""), "not seen"), (done.replace("\n", "\n==== xGMI put\n", 1), "not seen")):
    assert prove.look_at_risk(aborts, text)["state"] == state, text

# without ucx_info nothing is known of the machine
prove.os.environ["PATH"] = f"{sys.argv[2]}/other"
assert prove.lacking().startswith("there is no ucx_info on the path"), prove.lacking()
prove.os.symlink("/bin/true", f"{sys.argv[2]}/other/ucx_info")
prove.Job.options.two = "node7"
assert prove.lacking().startswith("there is no ssh on the path"), prove.lacking()
prove.Job.options.two = ""

# gpu_risks that is ended by a signal, fails, or hangs, and one that is missing
prove.Job.stages, prove.Job.num_gpus, prove.Job.options.limit = [green], 2, 0.2
crash = next(risk for risk in prove.RISKS if risk.probe == "*")
probe = next(risk for risk in prove.RISKS if risk.probe == "pids")
broken = ("BROKEN", "cannot be seen here")
for folder, states in (("crash", broken), ("fail", broken), ("hang", broken), ("none", ("cannot be seen here", "cannot be seen here"))):
    prove.os.environ["PATH"] = f"{sys.argv[2]}/{folder}:/usr/bin:/bin"
    prove.Probes.done, prove.Probes.has_failed, prove.Probes.lines, prove.Job.options.path = False, False, {}, []
    found = [prove.look_at_risk(risk, "") for risk in (crash, probe)]
    assert tuple(item["state"] for item in found) == states, found
assert found[1]["reason"] == "gpu_risks is not installed"

# gpu_risks that reaches its limit leaves no files
prove.os.environ.update(PATH=f"{sys.argv[1].removesuffix('/contrib/mori_prove')}/perf/risks:/usr/bin:/bin", TMPDIR=f"{sys.argv[2]}/files")
prove.os.mkdir(prove.os.environ["TMPDIR"])
visible = prove.os.environ.pop("HIP_VISIBLE_DEVICES")
prove.Probes.done, prove.Probes.lines, prove.Job.options.limit, prove.Job.log[:] = False, {}, 5, []
prove.run_probes()
assert prove.re.search("did not end in time|waiting for", prove.Probes.ended) and "HIP version" in prove.Job.log[-1], prove.Job.log
assert not prove.os.listdir(prove.os.environ.pop("TMPDIR"))

# a peer is killed while no copy ends, and then while all do
prove.os.environ.update(PATH=path_of_all, HIPCPU_HOLD=sys.argv[1])
prove.doctor.options, prove.Job.options.limit = argparse.Namespace(modules="", limit=20), 10
killed = prove.RISK_STAGES["killed peer"]()
assert killed == "the other side did not end within 10 s (--limit)", killed
del prove.os.environ["HIPCPU_HOLD"]
prove.Job.options.limit = 300
killed = prove.RISK_STAGES["killed peer"]()
assert killed == "", killed

# every size of every stage fits into a flow's share of the buffer, as perf_sweep_zone() divides it
kept, arguments = (prove.one_command, prove.two_commands, prove.start_side), []


def record(path, *_):
    arguments.append(path.arguments)
    raise InterruptedError


prove.one_command = prove.two_commands = prove.start_side = record
stages = [lambda path=path: prove.try_pair(path, (0, 1), ("", "")) for path in [*prove.PATHS, prove.FLAP]]
for prove.Job.options.quick in (True, False):
    for stage in [*stages, *prove.RISK_STAGES.values()]:
        try:
            stage()
        except InterruptedError:
            pass
assert len(arguments) == 2 * (len(prove.PATHS) + 1 + len(prove.RISK_STAGES)), arguments
for found in arguments:
    words = dict(zip(found, found[1:]))
    flows = int(words.get("--num_target_dev", 1)) * (2 if words.get("--scheme") in ("both", "pingpong") else 1)
    size, last, buffer = (prove.bytes_of(words[f"--{name}"]) for name in ("start_block_size", "max_block_size", "total_buffer_size"))
    while size <= last:
        assert buffer // size // flows >= int(words["--start_batch_size"]), (size, found)
        size *= 2
prove.one_command, prove.two_commands, prove.start_side = kept

# each process of a pair uses its own GPU
gpu = next(path for path in prove.PATHS if path.gpus and path.nics)
ended = prove.two_commands(gpu, ["--initiator_dev", "0", "--target_dev", "5"], ("fake0:1", "fake0:1"), 300)
assert "no GPU for VRAM (hipErrorNoDevice; HIP_VISIBLE_DEVICES=5)" in ended.failed, ended
# HIP takes the other name where its own is unset
prove.os.environ["CUDA_VISIBLE_DEVICES"] = "0,6"
ended = prove.two_commands(gpu, ["--initiator_dev", "0", "--target_dev", "1"], ("fake0:1", "fake0:1"), 300)
assert "no GPU for VRAM (hipErrorNoDevice; HIP_VISIBLE_DEVICES=6)" in ended.failed, ended
assert prove.visible(0, 1, 1) == {"HIP_VISIBLE_DEVICES": "0,6,6"}
del prove.os.environ["CUDA_VISIBLE_DEVICES"]
prove.os.environ["HIP_VISIBLE_DEVICES"] = visible

# soft-RoCE and siw are no NICs, also where an older kernel has their device below the NIC's: Linux before
# 5.11, siw_device_create() in drivers/infiniband/sw/siw/siw_main.c
devices = f"{sys.argv[2]}/sys/class/infiniband"
prove.os.makedirs(devices)
below = "pci0000:00/0000:00:01.0"
for name, folder in (("rxe0", "virtual"), ("rxe1", below), ("mlx5_0", below), ("siw0", "virtual"), ("siw1", below)):
    prove.os.makedirs(f"{sys.argv[2]}/sys/devices/{folder}/infiniband/{name}")
    prove.os.symlink(f"../../devices/{folder}/infiniband/{name}", f"{devices}/{name}")
for file, text in (("rxe1/parent", "eth0"), ("siw1/node_desc", "Software iWARP stack\n"), ("mlx5_0/node_desc", "MT4129 ConnectX7\n")):
    with open(f"{devices}/{file}", "w") as stream:
        stream.write(text)
prove.doctor.path = lambda name: sys.argv[2] + name


def examine(*names):
    prove.doctor.Module.log = prove.doctor.Output(0, "".join(f"#      Transport: mori_rdma\n#         Device: {name}:1\n" for name in names))
    prove.examine()
    return prove.Job.ports, prove.Job.software, prove.Job.simulated


everything = ("mlx5_0", "rxe0", "rxe1", "siw0", "siw1")
assert examine(*everything) == (["mlx5_0:1"], ["rxe0", "rxe1", "siw0", "siw1"], []), examine(*everything)
assert examine("rxe0") == (["rxe0:1"], ["rxe0"], []), examine("rxe0")
prove.Job.stages = [{"path": name, "nics": [], "green": True, "reason": "", "by": by} for name, by in (("NIC", "rdma mori_rdma/rxe0:1"), ("xGMI", "mori_xgmi/xgmi"))]
weighed = [{"path": name, "verdict": "SAFE", "reason": "bytes"} for name in ("NIC", "xGMI")]
prove.weigh_software(weighed)
assert [each["verdict"] for each in weighed] == ["NOT PROVEN", "SAFE"] and weighed[0]["reason"].startswith("rxe0 is software"), weighed

# software of the other host, that its process used or did not
prove.Job.options, prove.Job.stages, kept = argparse.Namespace(two="node7", quick=True, limit=20), [], prove.two_commands
for lane in ("rxe0", "mlx5_0"):
    text = f"{prove.FAR_SOFTWARE}rxe0\nUCX INFO cfg#2 rma(mori_rdma/{lane}:1)\n"
    prove.two_commands = lambda *_: prove.Result(0, text, [{**row, "block_size": size << 10} for size in (4, 8, 16)])
    prove.try_pair(nic._replace(arguments=prove.SIZES), (0, 0), ("", ""))
    weighed = [{"path": nic.name, "verdict": "SAFE", "reason": "bytes"}]
    prove.weigh_software(weighed)
    assert (weighed[0]["verdict"], prove.Job.stages.pop()["green"]) == ("SAFE" if lane == "mlx5_0" else "NOT PROVEN", True), weighed
prove.two_commands, prove.Job.options = kept, options

# the reason of mori_doctor why there is no port, and GPUs that are hidden have no link that is known
prove.Job.ports, prove.Job.num_gpus, prove.Job.options.gpus = [], 2, 255
prove.doctor.red("nic", "mlx5_0:1 is DOWN", "cable")
assert prove.possible(nic) == "mori_rdma has no port here (mlx5_0:1 is DOWN)", prove.possible(nic)
for node in (1, 2, 3):
    link = f"{sys.argv[2]}/nodes/{node}/io_links/0"
    prove.os.makedirs(link)
    with open(f"{link}/properties", "w") as stream:
        stream.write(f"type 11\nnode_to {node % 3 + 1}\nmax_bandwidth 64000\n")
for number, rate in ((2, 64), (3, None)):
    prove.doctor.Machine.gpus = [prove.doctor.Gpu(f"{sys.argv[2]}/nodes/{node}") for node in (1, 2, 3)[:number]]
    prove.Job.stages = [{**green, "pair": [0, 1]}]
    prove.link_rates()
    assert prove.Job.stages[0].get("link_gb_per_s") == rate, prove.Job.stages

# a signal while the link comes up again: it stays up
links, set_link = [], prove.set_link


def interrupted(direction):
    prove.os.kill(prove.os.getpid(), prove.signal.SIGINT)
    prove.time.sleep(0.1)
    links.append(direction)
    return True


# a shell without job control starts what runs beside it with SIGINT ignored
prove.signal.signal(prove.signal.SIGINT, prove.signal.default_int_handler)
prove.set_link, prove.Job.options.quick = interrupted, True
side = prove.subprocess.Popen(["sleep", "100"])
with open(f"{sys.argv[2]}/moving", "w") as stream:
    stream.write("[prefill] 1/2\n")
try:
    prove.Flaps.until_the_end(f"{sys.argv[2]}/moving", [side])
except KeyboardInterrupt:
    links.append("ended")
assert links == ["up", "ended"], links
side.kill()
prove.set_link = set_link

# a network device of no NIC: another link would go down
prove.Job.options.flap = "bond0"
assert "bond0 is not the network device" in prove.possible(prove.FLAP), prove.possible(prove.FLAP)
prove.os.makedirs(f"{devices}/rxe1/device/net/bond0")
examine("rxe1")
assert "bond0 is not the network device" in prove.possible(prove.FLAP), prove.possible(prove.FLAP)
prove.Job.ports, prove.Job.software, prove.Job.simulated = ["fake0:1"], [], ["hipcpu"]
assert "bond0 is not the network device" in prove.possible(prove.FLAP), prove.possible(prove.FLAP)

prove.Job.options.two = "me@other.example"
assert prove.visible(0, 1, 1) == {"HIP_VISIBLE_DEVICES": "5,3,3"}
late = prove.doctor.bounded("sh", "-c", "echo begun; sleep 100", limit=10)
assert (late.status, late.text) == (124, "begun\n"), late
prove.Job.options.limit = 1
assert prove.judge(path, prove.Result(124, "begun\n", [])).endswith("its last line: begun")
prove.getpass.getuser = lambda: "path"
clean = prove.anonymous_values({"schema": "path", "path": "fe80::1:2ff:fe03:4 [fd00::5] 02:AB:cd:00:11:22 path other.example 12:30:59"})
assert clean == {"schema": "path", "path": "ADDRESS [ADDRESS] MAC USER OTHER 12:30:59"}, clean
prove.socket.gethostname = lambda: "host"
assert prove.anonymous("host to host by mori_rdma") == "host to host by mori_rdma"  # a stage's name, which compare matches
clean = prove.anonymous("fd00::1: refused, fd00:0:1::/64, ::ffff:10.1.2.3, 2001:db8:1:2:3:4:5:6: refused, 12:30:59: now, ::1")
assert clean == "ADDRESS: refused, ADDRESS/64, ADDRESS, ADDRESS: refused, 12:30:59: now, ::1", clean
END
exit $((failures > 0))
