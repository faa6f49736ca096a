#!/bin/bash
# mori_prove --two by OpenSSH's own client and server, with a key of this test: the other process
# runs in a session of sshd, over the fake libibverbs, and ends with the connection.
set -uo pipefail

build=${MKV_BUILD_DIR:-$PWD}
# shellcheck source=test/support/environment.sh
. "$(dirname "$0")/../support/environment.sh"
sshd=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)
if [ -z "$sshd" ] || ! command -v ssh >/dev/null; then
    echo "SKIP: there is no OpenSSH; install openssh-client and openssh-server"
    exit 77
fi
if ldd "$build/.libs/libuct_mori.so" | grep libasan >/dev/null; then
    echo "SKIP: UCX's own programs are not started here with AddressSanitizer's runtime"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$build/test/fake/verbs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
failures=0

fail() { # TEXT
    echo "FAIL: $1"
    sed 's/^/    /' "$work/out"
    failures=$((failures + 1))
}

# The client starts sshd behind a pipe, as OpenSSH's regression tests do: no port is needed. A
# file replaces the user's ~/.ssh/config.
for key in host user; do
    ssh-keygen -q -t ed25519 -N '' -f "$work/$key" || { echo "SKIP: ssh-keygen makes no key"; exit 77; }
done
cp "$work/user.pub" "$work/authorized"
echo "localhost $(cut -d ' ' -f 1,2 "$work/host.pub")" >"$work/known"
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
serve() { # PATH [VARIABLE]
    cat >"$work/sshd_config" <<TEXT
HostKey $work/host
AuthorizedKeysFile $work/authorized
StrictModes no
UsePAM no
PidFile none
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv PATH=$1:/usr/bin:/bin LD_LIBRARY_PATH=$libraries FAKE_VERBS_WIRE=$work/wire FAKE_VERBS_DEVICES=fake0:ionic ${2-}
TEXT
}
# this `cat` is that of another host
mkdir "$work/bin" "$work/far" "$work/boot"
cat >"$work/boot/cat" <<'TEXT'
#!/bin/sh
[ "$*" = /proc/sys/kernel/random/boot_id ] && exec echo another
exec /bin/cat "$@"
TEXT
chmod +x "$work/boot/cat"
serve "$work/far:$work/boot:$build/perf/kv_perf"
cat >"$work/ssh_config" <<TEXT
Host node7
    HostName localhost
Host localhost node7
    IdentityFile $work/user
    IdentitiesOnly yes
    UserKnownHostsFile $work/known
    ProxyCommand $sshd -i -f $work/sshd_config -E $work/sshd.log
TEXT
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/ssh_config" >"$work/bin/ssh"
chmod +x "$work/bin/ssh"
export PATH=$work/bin:$build/perf/kv_perf:$PATH UCX_PLUGIN_PATH=$build/.libs LD_LIBRARY_PATH=$libraries
export FAKE_VERBS_WIRE=$work/wire FAKE_VERBS_DEVICES=fake0:ionic
ssh -o BatchMode=yes localhost true >"$work/out" 2>&1 </dev/null || {
    cat "$work/sshd.log" >>"$work/out"
    fail "the session of sshd does not start"
    exit 1
}

# prove NAME STATUS LINE [OPTION...]
prove() {
    local name=$1 expected=$2 line=$3 status=0
    shift 3

    "$build/contrib/mori_prove" --report "$work/$name.json" --limit 300 --minutes 60 --quick --path 'NIC, host' --two localhost \
        "$@" >"$work/out" 2>&1 || status=$?
    [ $status = "$expected" ] || fail "$name: exit status $status; expected $expected"
    grep -q -e "$line" "$work/out" || fail "$name: no line '$line'"
}

prove two 0 '^SAFE  *NIC, host memory'
# the host's name is one of ssh's settings, which no resolver has
prove alias 0 '^SAFE  *NIC, host memory' --two node7
grep -q '"two_hosts": true' "$work/two.json" || fail "the report of two hosts has one"

# the other host has only a wheel, with its module elsewhere: a session of ssh finds none in "."
mkdir -p "$work/site/morikv"
cat >"$work/site/morikv/__init__.py" </dev/null
cat >"$work/site/morikv/__main__.py" <<TEXT
import os, sys
if sys.argv[1] == "env":
    print("export UCX_PLUGIN_PATH='$build/.libs'\nexport UCX_TLS=none")
else:
    open("$work/called", "w").close()
    os.execv("$build/perf/kv_perf/mori_kv_perf", sys.argv[1:])
TEXT
serve "$work/boot" "PYTHONPATH=$work/site"
(cd "$build/.libs" && UCX_PLUGIN_PATH=. && prove wheel 0 '^SAFE  *NIC, host memory'; exit $failures) ||
    failures=$((failures + 1))
[ -e "$work/called" ] || fail "mori_kv_perf of the wheel was not called"
serve /none
prove missing 2 "^NOT SAFE  *NIC, host memory: .*: error: the other host has no mori_kv_perf on ssh's PATH /none:.*; install"
serve "$work/far:$build/perf/kv_perf"

# the reason is that of the failed side, not a line of the other side's log
printf '#!/bin/sh\necho "error: of the far side"\nexit 1\n' >"$work/far/mori_kv_perf"
chmod +x "$work/far/mori_kv_perf"
prove own 2 '^NOT SAFE  *NIC, host memory: .*: error: of the far side$'

# a remote program that hangs ends with the connection
# shellcheck disable=SC2016 # the stub expands it
printf '#!/bin/sh\necho $$ >%s/pid\necho it hangs\nexec sleep 1000\n' "$work" >"$work/far/mori_kv_perf"
chmod +x "$work/far/mori_kv_perf"
# no peer listens, so the local mori_kv_perf gives up after the same 20 s
prove stuck 2 '^NOT SAFE  *NIC, host memory: .*\(did not end in time\|was not reached within 20 s\)' --limit 20
grep -q 'it hangs' "$work/stuck.log" || fail "the output of a stage that ran into its limit is lost"
for _ in $(seq 600); do
    [ -d "/proc/$(cat "$work/pid")" ] || break
    sleep 0.1
done
[ ! -d "/proc/$(cat "$work/pid")" ] || fail "a program is left on the other host"

# a host that refuses the key
: >"$work/authorized"
prove refused 2 '^NOT SAFE  *NIC, host memory: .*ssh to localhost failed: .*Permission denied (publickey'
exit $((failures > 0))
