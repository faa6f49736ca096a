#!/bin/bash
# Produce each red line of mori_doctor by a machine that lacks something: /dev,
# /proc and /sys in a folder, stubs of the tools that it runs, libhipcpu, and limits of this
# process.
# DO-03, DO-04, DO-05, DO-06
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
doctor=$build/contrib/mori_doctor
command -v ucx_info >/dev/null || { echo "SKIP: there is no ucx_info"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
ulimit -c 0

fail() { # WHAT
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# shellcheck source=test/support/machine.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/machine.sh"

# Any loadable library stands for the HIP runtime if libhipcpu is not built.
runtime=$build/test/fake/hip/lib/libamdhip64.so.6
[ -e "$runtime" ] || runtime=$(ldd /bin/sh | awk '/libc\.so/ { print $3 }')

core_minor() {
    local core
    for core in "$build"/.libs/mori-core-1.*.so; do
        core=${core##*/mori-core-}
        echo "${core%.so}"
        return
    done
}

# Record in a trace of Python which of mori_doctor's lines report something red. BREAK names a
# function of it that raises.
mkdir "$work/site"
cat >"$work/site/sitecustomize.py" <<TEXT
import os, sys

def trace(frame, event, argument):
    if os.path.basename(frame.f_code.co_filename) == "mori_doctor":
        if frame.f_code.co_name == "red":
            with open("$work/trace", "a") as file:
                print(frame.f_back.f_lineno, file=file)
        if frame.f_code.co_name == os.environ.get("BREAK"):
            raise OSError("broken by a test")

sys.settrace(trace)
TEXT

modules=$build/.libs
as=() # what it runs by
run() { # ARG... ; into $work/out
    PYTHONPATH=$work/site${PYTHONPATH:+:$PYTHONPATH} PATH=$work/bin:$PATH UCX_PLUGIN_PATH=${plugins-$build/.libs} UCX_TLS=${tls-} \
        LD_LIBRARY_PATH=${libs-$build/test/fake/hip/lib} UCX_MORI_HIP_LIB=${hip-$runtime} \
        timeout 200 "${as[@]}" "$doctor" --root "$work/root" ${modules:+--modules "$modules"} \
        --python "${python-/no/python}" "$@" >"$work/out" 2>&1
}

# The exit status, and a line of that colour with the text, and a remedy below it.
expect() { # STATUS COLOUR WHAT TEXT
    run --no-selftest
    local status=$?
    [ "$status" = "$1" ] || fail "$4: exit status $status; expected $1"
    grep -A 1 "^$2  *$3  *.*$4" "$work/out" | grep -q -e '->' || fail "$4: no such $2 line with a remedy"
}

minor=$(core_minor)
machine
sed -i "s/1\.23\.0/$minor.0/" "$work/bin/ucx_info"
cp "$work/bin/ucx_info" "$work/served"
good() { machine; cp "$work/served" "$work/bin/ucx_info"; }

# Limits of this process; if it may not raise this one it is red in every case below.
good
(ulimit -S -l 64 && expect 2 red memlock '64 KiB may be locked' && exit "$failures") || failures=$?
if ulimit -l 1000000 2>/dev/null; then
    run --no-selftest
    [ $? = 1 ] || fail "a good machine with a limit to locked memory is not yellow"
fi
expect_line() { # LINE
    grep -q "^$1" "$work/out" || fail "a good machine has no '$1'"
}
expect_line 'green  *nic  *nic0:1 active, Ethernet, 400 Gb/sec (4X NDR), RoCE v2 GID 1'
expect_line 'green  *p2p  *pairs of GPUs that reach each other: 1 by xGMI, 0 by PCIe'
expect_line 'green  *distance  *GPU 0 (0000:02:00.0): its nearest NIC is nic0, below one PCIe switch'
expect_line 'green  *distance  *GPU 1 (0000:03:00.0): its nearest NIC is nic0, below one root complex'
expect_line 'green  *pfc  *eth0: flow control for priority 3, which traffic class 106 has'

# Versions of all parts that may have a bug: from the kernel, and from the process that has loaded
# them.
versions() { # LINE... , each a pattern of what stands behind "version"
    local line

    run --no-selftest
    for line in "$@"; do
        grep -q "^[a-z]*  *version  *$line\$" "$work/out" || fail "no line 'version $line'"
    done
}
versions 'kernel 6\.18\.9' 'GPU driver amdgpu 6\.12\.12' 'firmware of 2 GPUs: MEC 185, SDMA 24' \
    'HIP runtime 6\.4\.43484, driver interface 6\.4\.43484, /usr/lib/libamdhip64.so.6.4.60403' \
    'nic0: ionic 25\.11\.1\.001 (srcversion 0A1B2C3D4E5F6071829304A) with ionic_rdma 25\.11\.1\.001; firmware 28\.43\.1014 by /sys, 28\.43\.1014 by libibverbs; provider /usr/lib/libionic-rdmav65.so' \
    'rdma-core 65\.0, /usr/lib/libibverbs.so.1.18.65.0'
# values that cannot be read are reported as such
rm "$work/root/proc/sys/kernel/osrelease" "$work"/root/sys/module/*/version "$work/root/sys/class/infiniband/nic0/fw_ver"
sed -i '/fw_version/d' "$work/root/sys/class/kfd/kfd/topology/nodes/1/properties"
sed -i 's/driver version 60443484/driver version 0/; s/1\.18\.65\.0/1/' "$work/bin/ucx_info"
versions 'kernel: .*osrelease cannot be read' 'GPU driver amdgpu without a version of its own' \
    'firmware of 1 GPUs: MEC not reported, SDMA not reported' 'firmware of 1 GPUs: MEC 185, SDMA 24' \
    'HIP runtime 6\.4\.43484, driver interface not reported, .*' \
    'nic0: ionic without a version of its own (srcversion 0A1B2C3D4E5F6071829304A) with ionic_rdma without .*; firmware not reported by /sys, 28.*' \
    'rdma-core: the name of /usr/lib/libibverbs.so.1 does not give its version'
rm "$work/root/sys/bus/pci/drivers/ionic/module"
versions 'nic0: ionic, built into the kernel; .*'
rm "$work/root/sys/class/infiniband/nic0/device/driver"
sed -i 's/GPU runtime/no/; s/verbs device/no/' "$work/bin/ucx_info"
versions 'nic0: no driver in /sys; firmware not reported by /sys, not reported by libibverbs; provider not reported' \
    'rdma-core: mori_rdma has opened no device.*' 'HIP runtime: the module has loaded none'

# The module itself, over libhipcpu and a NIC of the fake libibverbs.
if [ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] && [ -e "$build/test/fake/verbs/.libs/libibverbs.so.1" ] &&
    ldconfig -p | grep libucp.so.0 >/dev/null; then
    good
    rm "$work/bin/ucx_info"
    libs=$build/test/fake/hip/lib:$build/test/fake/verbs/.libs
    FAKE_VERBS_DEVICES=nic0:bnxt,nic1:ionic HIPCPU_VERSION=7.1 libs=$libs versions \
        "HIP runtime 7\\.1\\.[0-9]*, driver interface 7\\.1\\.[0-9]*, $build/.*libhipcpu.so" \
        "nic0: ionic .*; firmware 28.43.1014 by /sys, fake.bnxt by libibverbs; provider $build/.*libibverbs.so.1[.0-9]*" \
        "nic1: not in /sys; firmware not reported by /sys, fake.ionic by libibverbs; provider .*" \
        "rdma-core: the name of $build/.* does not give its version"
    unset libs
fi
good

modules=/nowhere expect 2 red ucx 'has no core in'
good; rm "$work/bin/ucx_info"; stub ucx_info 'exit 1'; expect 2 red ucx 'there is no UCX'
good; plugins=/nowhere expect 2 red env 'UCX_PLUGIN_PATH=/nowhere has no libuct_mori.so.0'
good; tls=tcp expect 2 red env 'UCX_TLS=tcp leaves mori_xgmi'
export UCX_MODULE_DIR=/nowhere
expect 2 red env 'UCX_MODULE_DIR=/nowhere is no directory'
unset UCX_MODULE_DIR
stub ucx_info "[ \$1 = -v ] && echo '# Library version: $minor.0' || echo 'x ucx-mori is not used: UCX 1.9 FILE'"
expect 2 red module 'ucx-mori is not used'
stub ucx_info "[ \$1 = -v ] && echo '# Library version: $minor.0' || exit 124"
expect 2 red module 'ucx_info -d does not end'
stub ucx_info "[ \$1 = -v ] && echo '# Library version: $minor.0'; true"
expect 2 red module 'UCX does not load the module'
good; rm -r "$work/root/sys/class/kfd"; expect 2 red driver 'KFD has no GPU'
good; hip=/nowhere expect 2 red hip '/nowhere is not there, and GPUs are'
good; hip=no_hip.so expect 2 red hip 'no_hip.so is not there, and GPUs are'
hip=libamdhip64.so.6 run --no-selftest
grep -q "^green *hip *$runtime" "$work/out" || fail "a bare name, as for dlopen(): not found in LD_LIBRARY_PATH"
echo broken >"$work/libamdhip64.so.6"; hip=$work/libamdhip64.so.6 expect 2 red hip 'no library that can be loaded'
stub ldd 'echo "	libhsa-runtime64.so.1 => not found"'
expect 2 red hip 'libhsa-runtime64.so.1 is missing'
good; rm "$work/root/dev/kfd"; expect 2 red dev '/dev/kfd is not there'
good; rm "$work"/root/dev/dri/renderD*; expect 2 red dev 'no /dev/dri/renderD'
good; rm -r "$work"/root/sys/class/kfd/kfd/topology/nodes/*/io_links; expect 2 red p2p 'GPU 0 and GPU 1 have no way'
good; rmdir "$work/root/dev/shm"; expect 2 red shm '/dev/shm is not there'
good; stub df 'exit 1'; expect 2 red shm '/dev/shm does not answer'
good; echo '1: DOWN' >"$work/root/sys/class/infiniband/nic0/ports/1/state"; expect 2 red nic 'nic0:1 is DOWN'
good; rm -r "$work/root/sys/class/infiniband/nic0/ports/1/gid_attrs"; expect 2 red nic 'no RoCE v2 GID'
good; rm "$work/root/dev/infiniband/uverbs0"; expect 2 red nic 'uverbs0 is not there'
good; stub ibv_devinfo 'echo "libibverbs: Warning: Driver ionic does not support the kernel ABI of 4 (supports 1 to 1)" >&2'
expect 2 red abi 'does not support the kernel ABI of 4'
# root obeys file modes once it lacks the capability to override them
caps=-dac_override,-dac_read_search
[ "$(id -u)" != 0 ] ||
    as=(setpriv "--inh-caps=$caps" "--bounding-set=$caps")
good; chmod 0 "$work/root/dev/kfd"; expect 2 red dev '/dev/kfd cannot be opened'
good; chmod 0 "$work/root/dev/dri/renderD128"; expect 2 red dev 'renderD128 cannot be opened'
as=()

yellow() { # WHAT TEXT
    run --no-selftest
    grep -q "^yellow  *$1  *.*$2" "$work/out" || fail "$2: no such yellow line"
}
good; ln -sf 'ipc:[4026532999]' "$work/root/proc/self/ns/ipc"; yellow ipc 'another ipc namespace'
good; ln -sf 'net:[4026532999]' "$work/root/proc/self/ns/net"; yellow net 'another network namespace'
good; echo 1500 >"$work/root/sys/class/infiniband/nic0/device/net/eth0/mtu"; yellow nic 'MTU 1500 of eth0'
# RDMA devices that are no NICs of mori_rdma
no_nic() { # FILE LINE TEXT
    good
    echo "$2" >"$work/root/sys/class/infiniband/nic0/$1"
    run --no-selftest
    grep -q "^skip  *nic  *nic0 is $3" "$work/out" || fail "$1 '$2': no such line"
    ! grep -q '^[a-z]*  *distance ' "$work/out" || fail "$1 '$2': it is near a GPU"
}
no_nic node_desc 'Software iWARP stack' 'software of the kernel'
no_nic parent eth0 'software of the kernel'
no_nic node_type '4: RNIC' 'an iWARP NIC, which neither mori_rdma nor UCX takes'
good; rm -r "$work/root/sys/module/amdgpu" "$work/root/sys/class/kfd"; run --no-selftest
grep -q '^skip  *driver .*no AMD GPU here' "$work/out" || fail "a machine without GPUs is not reported"
good; stub dcb 'echo "prio-pfc 0:off 3:off"'; yellow pfc 'eth0 has no priority flow control'
export UCX_MORI_RDMA_TRAFFIC_CLASS=192
good; yellow pfc 'eth0: traffic class 192 goes with priority 6, flow control is for 3'
unset UCX_MORI_RDMA_TRAFFIC_CLASS
good; pci 0000:03:00.0 pci0000:80/0000:80:01.0/0000:03:00.0 1; yellow distance 'GPU 1 (0000:03:00.0): its nearest NIC, nic0, is at another'

# ---- Mistyped variables, and duplicates.

good; plain=$build/.libs/mori-core-$minor.so; mkdir -p "$work/other" && cp "$build/.libs/libuct_mori.so.0" "$work/other/"
LC_ALL=C sed 's/amdgcn-amd-amdhsa/amdgcn-amd-nothing/g' "$plain" >"$work/other/mori-core-$minor.so"
modules=$work/other expect 2 red kernel 'has no copy kernel: lists of blocks go block by block'
good; LC_ALL=C sed 's/amdhsa--gfx942/amdhsa--gfx000/g' "$plain" >"$work/other/mori-core-$minor.so"
modules=$work/other yellow kernel 'has no copy kernel for gfx942, but for'
mkdir -p "$work/root/usr/local/lib/ucx-mori" && cp "$build/.libs/libuct_mori.so.0" "$work/root/usr/local/lib/ucx-mori/"
plugins=$work/other modules='' yellow install 'UCX loads the module in .*/other; others are in .*lib/ucx-mori'
stub ucx_info "[ \$1 = -v ] && echo '# Library version: $minor.0' || {
    echo 'UCX  ERROR Invalid value for OPEN_TIMEOUT: \"5parsecs\". Expected: time'
    echo '# UCX_MORI_RDMA_RNR_TIMEOUT=1'
    echo 'UCX DEBUG GPU runtime /usr/lib/libamdhip64.so.6 version 60443484, driver version 60443484: 2 devices'; }"
expect 2 red module '2 GPUs can be used and UCX has no mori_xgmi: Invalid value for OPEN_TIMEOUT'
UCX_MORI_XGMI_OPEN_TIMEOUT=5parsecs expect 2 red setting 'Invalid value for OPEN_TIMEOUT: "5parsecs"'
! grep -q 'OPEN_TIMEOUT is no option' "$work/out" || fail "an option of a transport that was left out is none"
good; tls=mori_xgm,tcp expect 2 red env 'UCX_TLS=mori_xgm,tcp leaves mori_xgmi'
grep -q -e '-> mori_xgmi may be meant' "$work/out" || fail "mori_xgm: the right name is not there"
tls=mori_xgmi,tpc yellow env 'UCX_TLS names tpc, which no UCX has'
# shellcheck disable=SC2016 # the stub expands it
sed -i 's/case $1 in -v/case $1 in -c) echo "UCX_MORI_XGMI_MESSAGES=y" ;; -v/' "$work/bin/ucx_info"
export UCX_MORI_XGMI_MESAGES=n
yellow setting 'UCX_MORI_XGMI_MESAGES is no option of this build'
unset UCX_MORI_XGMI_MESAGES

# ---- NICs, and the bridges between them and GPUs.

old_core() { sed -i "s/libibverbs.so.1.18.65.0/libibverbs.so.1.14.$1.0/" "$work/bin/ucx_info"; }
as_bnxt() {
    mv "$work/root/sys/module/ionic" "$work/root/sys/module/bnxt_en"
    ln -sfn ../../../../module/bnxt_en "$work/root/sys/bus/pci/drivers/ionic/module"
}
good; as_bnxt; old_core 50; expect 2 red rdmacore 'rdma-core 50 corrupts the making of queue pairs on nic0'
good; as_bnxt; old_core 63; yellow rdmacore 'rdma-core 63 may stop the recovery'
good; sed -i 's/provider [^,]*, //' "$work/bin/ucx_info"; expect 2 red rdmacore 'nic0 is an ionic NIC, and .* has no provider'
good; echo 1 >"$work/root/proc/sys/kernel/numa_balancing"; yellow numa 'the kernel moves pages'
mkdir -p "$work/root/sys/kernel/mm/transparent_hugepage"; echo 'always madvise [never]' >"$work/root/sys/kernel/mm/transparent_hugepage/enabled"
yellow hugepages 'about 4 GiB of host memory in small pages'
mkdir -p "$work/root/sys/bus/pci/devices/0000:02:00.0/iommu_group"; echo DMA-FQ >"$work/root/sys/bus/pci/devices/0000:02:00.0/iommu_group/type"
yellow iommu 'the IOMMU translates for GPUs or NICs (DMA-FQ)'
acs() { # CONTROL: of the bridge above GPU 0, an empty list of capabilities but for ACS
    { head -c 256 /dev/zero; printf '\x0d\0\x01\0\x1f\0%b' "\\x$1\\0"; head -c 64 /dev/zero; } \
        >"$work/root/sys/devices/pci0000:00/0000:00:01.0/config"
}
good; acs 1d; yellow acs 'ACS of 0000:00:01.0 redirects traffic'
acs 01; run --no-selftest
grep -q '^green  *acs  *no redirection at 1 bridges' "$work/out" || fail "ACS without redirection is not green"
for mode in SPX CPX; do
    mkdir -p "$work/root/sys/class/drm/card$mode/device"
    echo $mode >"$work/root/sys/class/drm/card$mode/device/current_compute_partition"
    echo NPS1 >"$work/root/sys/class/drm/card$mode/device/current_memory_partition"
done
yellow partition 'GPUs are partitioned in different ways'
# a partition of GPU 0: function .3 is not in sysfs, and its number stands above the address
good; sed -i "s/^location_id.*/location_id $((3 << 28 | 2 << 8 | 3))/" "$work/root/sys/class/kfd/kfd/topology/nodes/1/properties"
run --no-selftest
expect_line 'green  *distance  *GPU 0 (0000:02:00.0): its nearest NIC is nic0, below one PCIe switch'
good; ln -sf 'pid:[4026532999]' "$work/root/proc/self/ns/pid"; yellow pid 'a peer with the same pid in its namespace'

# ---- It always ends.

good
env -i PATH="$PATH" "$doctor" --no-selftest --limit 30 --modules "$modules" >"$work/out" 2>&1
grep -q '^ *verdict  .*[0-9]* red, [0-9]* yellow, [0-9]* green' "$work/out" || fail "no verdict without an environment"
env -i PATH="$PATH" "$doctor" --no-selftest --json --modules "$modules" >"$work/out" 2>&1
python3 -m json.tool "$work/out" /dev/null || fail "no JSON without an environment"
export BREAK=look_at_nics
run --no-selftest
[ $? = 3 ] || fail "a look that fails is not status 3"
unset BREAK
expect_line 'skip  *nics  *could not be examined: OSError: broken by a test'
expect_line ' *verdict  *not finished: '
grep -q '^green *shm' "$work/out" || fail "a look that fails ends the others"
# shellcheck disable=SC2016 # the stub expands it
stub ibv_devinfo 'kill -TERM $(cat '"$work"'/pid); sleep 60'
# shellcheck disable=SC2016
as=(sh -c 'echo $$ >'"$work"'/pid; exec "$@"' sh)
run --no-selftest --json
[ $? = 3 ] || fail "a signal is not status 3"
as=()
python3 -m json.tool "$work/out" /dev/null || fail "a signal leaves half of the JSON"

good; stub ibv_devinfo 'trap "" TERM; while :; do sleep 1; done'
run --no-selftest --limit 1
grep -q '^red  *abi  *ibv_devinfo does not end' "$work/out" || fail "a probe that hangs is not reported"

# Measurements; the reported path counts, not the hardware that is there.
good
cp "$doctor" "$build/contrib/mori_env" "$work/bin/"
# shellcheck disable=SC2016 # the stub expands it
tool='while [ "$1" != --json ]; do shift; done
    echo "{\"rows\": [{\"gb_per_s\": 1.5, \"wall_ns\": 2000000000, \"path\": \"put host>host: tcp (tcp/lo)\"}]}" >"$2"'
stub mori_kv_perf "echo \"\$*\" >>$work/runs; $tool"
# and reports of machines like this one, of others, and of stand-ins
reports=$work/share/ucx-mori/reports
mkdir -p "$reports"
report() { # FILE VERDICT GPU SIMULATED
    cat >"$reports/$1" <<TEXT
{"date": "2026-12-01", "version": "0.1.0", "simulated": [$4], "inventory": {"gpus": ["$3", "$3"], "nics": ["ionic"]},
 "verdicts": [{"path": "xGMI put", "verdict": "$2"}, {"path": "xGMI get", "verdict": "NOT PROVEN"}],
 "stages": [{"path": "xGMI put", "green": true, "gb_per_s": 48, "link_gb_per_s": 64, "others": {"TransferBench": 50}},
            {"path": "xGMI put", "green": false, "gb_per_s": 99, "link_gb_per_s": 64}]}
TEXT
}
report alike.json SAFE gfx942 ''
report bad.json 'NOT SAFE' gfx942 ''
report other.json SAFE gfx90a ''
report fake.json SAFE gfx942 '"hipcpu"'
echo '[]' >"$reports/a.json"
doctor=$work/bin/mori_doctor run
grep -q '^green  *report  *alike.json is of a machine like this one (2026-12-01, 0.1.0): xGMI put SAFE (96 % of TransferBench)$' "$work/out" ||
    fail "the report of a machine alike is not cited"
grep -q '^yellow  *report  *bad.json .*xGMI put NOT SAFE' "$work/out" || fail "a red report of a machine alike is not yellow"
grep -q '^skip  *report  *a.json is no report of mori_prove' "$work/out" || fail "a damaged report hides others"
! grep -q 'report  *\(other\|fake\).json' "$work/out" || fail "a report of another machine is cited"
grep -q '^green  *selftest  *host memory over tcp: 1.5 GB/s for 2.0 s, put host>host: tcp' "$work/out" || fail "no measurement is reported"
grep -q '^red  *selftest  *host memory over mori_rdma goes another way' "$work/out" || fail "another path passes"
grep -q 'num_iter 715 .*--initiator_dev 0 --target_dev 1' "$work/runs" || fail "GPUs are not measured for two seconds"
stub mori_kv_perf 'echo "mori_kv_perf: error: nothing works" >&2; exit 1'
doctor=$work/bin/mori_doctor run
grep -q '^red  *selftest  *host memory over tcp: .*nothing works' "$work/out" || fail "a failed measurement passes"

# And of the tool itself: memory of libhipcpu, and where no handle of it opens.
if [ -e "$build/test/fake/hip/lib/libamdhip64.so.6" ] && ldconfig -p | grep libucp.so.0 >/dev/null; then
    good
    cp "$doctor" "$build/contrib/mori_env" "$work/bin/"
    stub mori_kv_perf "exec $build/perf/kv_perf/mori_kv_perf \"\$@\""
    # shellcheck disable=SC2016
    stub ucx_info "$(sed -n '2,$p' "$work/served" | sed '/mori_rdma/s/; echo "[^"]*mori_rdma"//')"
    MORIKV_FOO=1 doctor=$work/bin/mori_doctor run --seconds 0.2 --limit 50
    [ "$(grep -c '^yellow  *setting  *MORIKV_FOO is no option of libmorikv' "$work/out")" = 1 ] || fail "MORIKV_FOO is not reported once"
    grep -q '^green  *selftest  *GPU 0 to GPU 1 over mori_xgmi: [0-9.]* GB/s for [0-9.]* s, .*xgmi (' "$work/out" ||
        fail "libhipcpu's devices are not measured"
    grep -q '^green  *selftest  *host memory over tcp: [0-9.]* GB/s for' "$work/out" || fail "tcp is not measured"
    # time for three tries, also on a busy machine
    HIPCPU_FAIL=hipIpcOpenMemHandle:0:17 UCX_MORI_XGMI_OPEN_TIMEOUT=30s doctor=$work/bin/mori_doctor run --pairs --limit 50
    grep -A 1 '^red  *selftest  *GPU 0 to GPU 1 over mori_xgmi has no direct way' "$work/out" | grep -q -e '-> hipIpcOpen' || fail "a pair without a way passes"
fi

# A wheel that brings a UCX under a name of its own, and another release of it.
real=$(ldconfig -p | sed -n 's/.*libucp\.so\.0 .*=> //p' | head -n 1)
if command -v python3 >/dev/null && [ -n "$real" ]; then
    mkdir -p "$work/py/nixl_rocm" "$work/py/nixl_rocm.libs"
    touch "$work/py/nixl_rocm/__init__.py"
    ln -s "$real" "$work/py/nixl_rocm.libs/libucp-1a2b3c.so.0"
    good
    stub ucx_info 'echo "# Library version: 1.9.0"'
    PYTHONPATH=$work/py python=python3 run --no-selftest
    grep -q "^[a-z]*  *ucx  *UCX .*libucp-1a2b3c.so.0) " "$work/out" || fail "a wheel is not seen"
    grep -q '^red  *ucx  *UCX 1.9.0 .*no core in' "$work/out" || fail "an old UCX passes"
fi

good
run --no-selftest --json
if command -v python3 >/dev/null; then
    python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
levels = {"skip": 0, "green": 0, "yellow": 1, "red": 2}
assert found["status"] == max(levels[f["level"]] for f in found["findings"])' "$work/out" ||
        fail "--json is none, or its status is wrong"
fi
for wrong in --wrong '--limit 0.5' '--seconds two'; do
    # shellcheck disable=SC2086
    "$doctor" $wrong >"$work/out" 2>&1
    [ $? = 3 ] || fail "$wrong is not status 3"
done

# Each red( of the source was reached.
grep -n '^ *red(' "$doctor" | cut -d: -f1 | sort >"$work/lines"
comm -23 "$work/lines" <(sort -u "$work/trace") >"$work/out"
[ ! -s "$work/out" ] || fail "lines of mori_doctor with a red finding that no test makes"
wc -l <"$work/lines" >"$work/number"

[ $failures = 0 ] || exit 1
echo "each of $(cat "$work/number") red lines was made"
