#!/bin/bash
# Inside the development root: copy the files that the tests run into a folder that can be a root.
# Called by pack.sh.
#
#   pack_root.sh FOLDER BUILD
set -euo pipefail

stage=$1
build=$2
lib=/usr/lib/x86_64-linux-gnu
programs="awk basename bash cat chroot chmod cmp cp cut date dd diff dirname env expr false find
    flock getopt grep gzip head hostname id ip kill ldd ln ls mawk mkdir mktemp mv nproc od ps
    pgrep printf readlink realpath rm sed seq setsid sh sha256sum sleep sort stat stdbuf tail
    taskset tee test timeout touch tr true ucx_info ucx_perftest uname uniq unshare wc
    xargs"

copy() {
    local file

    for file in "$@"; do
        [ -e "$stage$file" ] || cp --parents -P "$file" "$stage"
        # the target of a link
        if [ -h "$file" ]; then
            copy "$(readlink -f "$file")"
        fi
    done
}

libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }
                                $1 ~ /^\/lib/ { print $1 }' | sort -u
}

mkdir -p "$stage"/{dev,proc,sys,tmp,root,etc,usr/bin,usr/lib,usr/lib64,work}
chmod 1777 "$stage/tmp"
for dir in bin lib lib64 sbin; do
    ln -sfn "usr/$dir" "$stage/$dir"
done
ln -sfn bin "$stage/usr/sbin"
for file in passwd group hosts nsswitch.conf; do
    [ ! -e "/etc/$file" ] || cp "/etc/$file" "$stage/etc/"
done
[ -e "$stage/etc/hosts" ] || echo "127.0.0.1 localhost" >"$stage/etc/hosts"

files=()
for program in $programs; do
    path=$(command -v "$program" || true)
    case $path in
    /*) files+=("/usr/bin/$(basename "$path")") ;;
    esac
done
for file in "${files[@]}"; do
    [ ! -e "$file" ] || copy "$file"
done

# Debian's awk is a link to a link
ln -sfn mawk "$stage/usr/bin/awk"

# UCX's modules but those that need AMD's own runtime
copy "$lib"/ucx/*.so* "$lib"/libucp.so* "$lib"/libuct.so* "$lib"/libucs.so* \
    "$lib"/libucm.so* "$lib"/libucs_signal.so*
rm -f "$stage$lib"/ucx/libuct_rocm* "$stage$lib"/ucx/libucm_rocm*

# Python and what morikv imports, for the connector of contrib/examples
python=$(readlink -f "$(command -v python3)")
standard=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
packages=$(python3 -c 'import cffi, os; print(os.path.dirname(os.path.dirname(cffi.__file__)))')
copy /usr/bin/python3
cp -R --parents "$standard" "$packages"/cffi "$packages"/_cffi_backend*.so "$packages"/pycparser "$stage"
rm -rf "$stage$standard"/{test,idlelib,ensurepip,tkinter,turtledemo,pydoc_data} "$stage$standard"/config-*
find "$stage$standard" "$stage$packages" -name __pycache__ -prune -exec rm -rf {} +

# test/isa and test/kfd need AMD's compiler and runtime, which no GPU of others has
mapfile -t built < <(find "$build" -type f -path '*/.libs/*' ! -path '*/test/isa/*' ! -path '*/test/kfd/*' \
    ! -name '*.o' ! -name '*.a')
mapfile -t programs_built < <(find "$build/test" "$build/perf" -maxdepth 3 -type f -perm -1 \
    ! -path '*/test/isa/*' ! -path '*/test/kfd/*')
mapfile -t needed < <(libraries_of "${files[@]}" "$lib"/ucx/*.so "${built[@]}" \
    "${programs_built[@]}" "$python" "$standard"/lib-dynload/*.so "$packages"/_cffi_backend*.so)
for file in "${needed[@]}" /lib64/ld-linux-x86-64.so.2 "$lib"/libnss_files.so.2 \
    "$lib"/libpthread.so.0 "$lib"/libdl.so.2 "$lib"/librt.so.1 "$lib"/libutil.so.1 "$lib"/libgcc_s.so.1 \
    "$lib"/libstdc++.so.6 /usr/libexec/coreutils/libstdbuf.so; do
    case $file in
    "$build"*) ;;
    /lib/*) copy "/usr$file" ;;
    /lib64/*) copy "/usr$file" ;;
    *) [ ! -e "$file" ] || copy "$file" ;;
    esac
done
