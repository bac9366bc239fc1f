#!/usr/bin/env bash
# use_packages PREFIX SOURCE_DIRECTORY [examples] - uses what the packages have installed below
# PREFIX: runs the programs, looks for their manual pages, and builds and runs tests/embed; with
# `examples` also the installed examples. Of the source it takes tests/embed only.
set -euo pipefail
prefix=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stop() { echo "packages: $*" >&2; exit 1; }

for program in lockstep lockstep-tpcc lockstep-bench lockstep-icache; do
    "$prefix/bin/$program" --help >"$work/help" || stop "$program --help fails"
    pages=("$program")
    # Each subcommand has a page of its own.
    for part in $(sed -n '/^Subcommands:/,/^[^ S]/s/^  \([a-z][a-z-]*\).*/\1/p' "$work/help"); do
        pages+=("$program-$part")
    done
    for page in "${pages[@]}"; do
        zcat "$prefix/share/man/man1/$page.1.gz" | grep -qF "$page \\- " ||
            stop "no manual page of $page"
    done
done
[ -f "$prefix/share/lockstep/tools/icache/report.py" ] || stop "lockstep-icache has no report.py"

cp -r "$source/tests/embed" "$work/embed"
cmake -S "$work/embed" -B "$work/out" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 ||
    { cat "$work/log"; stop "tests/embed does not configure"; }
cmake --build "$work/out" -j 2 >"$work/log" 2>&1 ||
    { cat "$work/log"; stop "tests/embed does not compile"; }
ctest --test-dir "$work/out" --output-on-failure -j 2 >"$work/log" 2>&1 ||
    { cat "$work/log"; stop "a program of tests/embed fails"; }
grep 'tests passed' "$work/log"

if [ "${3:-}" = examples ]; then
    cmake -S "$prefix/share/doc/lockstep/examples" -B "$work/examples" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log"; stop "examples"; }
    cmake --build "$work/examples" -j 2 >"$work/log" 2>&1 || { cat "$work/log"; stop "examples"; }
    for program in first_steps first_steps_shared transfers waits secondary_index reports; do
        "$work/examples/$program" "$work/$program.db" || stop "example $program fails"
    done
    # The servers start; the tests `servers` and `kv_server` of the source let them serve.
    for program in epoll_server asio_server thread_server server_load; do
        status=0
        "$work/examples/$program" 2>"$work/log" || status=$?
        [ "$status" -eq 2 ] && grep -q '^usage: ' "$work/log" ||
            { cat "$work/log"; stop "example $program without arguments ends with $status"; }
    done
    "$work/examples/kv_server" --help >"$work/log" || stop "example kv_server --help fails"

    # The tutorials as a reader types them: one call of the compiler each.
    flags=$(pkg-config --cflags --libs lockstep)
    # shellcheck disable=SC2086  # the flags are words
    g++ -std=c++20 "$prefix/share/doc/lockstep/examples/tutorial.cc" -o "$work/tutorial" $flags ||
        stop "the C++ tutorial does not compile"
    sed -n '/^```c$/,/^```$/{/^```/!p}' "$source/sm/c/README.md" >"$work/tutorial.c"
    # shellcheck disable=SC2086
    gcc -std=c11 "$work/tutorial.c" -o "$work/tutorial_c" $flags ||
        stop "the C tutorial does not compile"
    for program in tutorial tutorial_c; do
        "$work/$program" "$work/$program.store" >"$work/log" ||
            { cat "$work/log"; stop "$program fails"; }
    done
fi
