#!/usr/bin/env bash
# install_test BUILD_DIRECTORY SOURCE_DIRECTORY - installs into a scratch prefix, builds the
# examples outside the tree against what was installed (CMake package with static and shared
# library, then pkg-config), and runs them.
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
for file in bin/lockstep{,-tpcc,-bench,-icache} share/man/man1/lockstep{,-stat,-tpcc}.1.gz \
    lib/x86_64-linux-gnu/lockstep/liblockstep-tpcc-shard.so \
    share/doc/lockstep/{LICENSE,README.md,CHANGELOG.md} \
    share/doc/lockstep/lockstep.{rules.yml,dashboard.json}; do
    [ -f "$scratch/prefix/$file" ] || { echo "not installed: $file"; exit 1; }
done
# A relative link of an installed document names an installed file.
documents=$scratch/prefix/share/doc/lockstep
for document in README.md CHANGELOG.md; do
    [ "$(head -1 "$documents/$document")" = "$(head -1 "$source/$document")" ] ||
        { echo "another title: $document"; exit 1; }
    tr '\n' ' ' <"$documents/$document" | grep -oP '\]\(\K[^) #][^) ]*(?=\))' |
        grep -v '^[a-z]*:' >"$scratch/links" || true
    while read -r link; do
        [ -e "$documents/${link%%#*}" ] || { echo "dead link in $document: $link"; exit 1; }
    done <"$scratch/links"
done
cp -r "$source/tools/examples" "$scratch/examples"
lines=$(wc -l <"$scratch/examples/first_steps.cc")
[ "$lines" -le 15 ] || { echo "first_steps.cc has $lines lines, more than 15"; exit 1; }

cmake -S "$scratch/examples" -B "$scratch/out" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix" \
    -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$scratch/out" -j 2 >/dev/null
# Each example runs twice: the second time it finds the store of the first.
for program in first_steps first_steps first_steps_shared first_steps_shared; do
    said=$("$scratch/out/$program" "$scratch/$program.db")
    [ "$said" = "Lisbon is in Portugal" ] || { echo "$program said: $said"; exit 1; }
done
"$scratch/out/transfers" "$scratch/transfers.db"
"$scratch/out/transfers" "$scratch/transfers.db"
"$scratch/out/waits" "$scratch/waits.db"
"$scratch/out/waits" "$scratch/waits.db"
# The servers link; test `servers` runs them.
for program in epoll_server asio_server thread_server server_load; do
    status=0
    "$scratch/out/$program" 2>/dev/null || status=$?
    [ "$status" -eq 2 ] || { echo "$program without arguments ended with $status"; exit 1; }
done
for times in 1 2; do
    said=$("$scratch/out/secondary_index" "$scratch/secondary_index.db")
    [ "$(tail -1 <<<"$said")" = "an address belongs to one person" ] &&
        [ "$(grep -c Lisbon <<<"$said")" -eq 3 ] || { echo "secondary_index said: $said"; exit 1; }
done
# The server answers, and ends by SIGTERM with its store closed.
coproc server { exec "$scratch/out/kv_server" --directory "$scratch/kv.db" --port 0; }
read -r line <&"${server[0]}"
port=${line#listening on 127.0.0.1:}
exec 3<>"/dev/tcp/127.0.0.1/${port%%,*}"
printf 'SET city Lisbon\r\nGET city\r\nQUIT\r\n' >&3
said=$(tr -d '\r' <&3 | tr '\n' ' ')
[ "$said" = '+OK $6 Lisbon +OK ' ] || { echo "kv_server said: $said"; exit 1; }
server_id=$server_PID
kill "$server_id"
wait "$server_id" || { echo "kv_server ended with status $?"; exit 1; }
# The README shows this program.
awk '/^```cpp$/ { show = 1; next } /^```$/ { show = 0 } show' "$source/README.md" |
    diff -w <(tr -d '\n ' <"$scratch/examples/first_steps.cc") <(tr -d '\n ') ||
    { echo "the program in README.md is not first_steps.cc"; exit 1; }

# An application may have folders of our names on its include path, and nothing of ours but
# <lockstep/...> is on it.
mkdir -p "$scratch/embedder"/{sm,txn,threads,base}
for header in sm/page.h txn/transaction.h threads/thread.h base/check.h; do
    echo '#error "the embedder'"'"'s own header was taken"' >"$scratch/embedder/$header"
done
[ "$(ls "$scratch/prefix/include")" = lockstep ] || { echo \
    "installed besides lockstep/: $(ls "$scratch/prefix/include")"; exit 1; }
[ "$(find "$scratch/prefix/include" -mindepth 2 -type d -printf '%f')" = c ] || { echo \
    "folders below include/lockstep besides c"; exit 1; }

export PKG_CONFIG_PATH="$(dirname "$(find "$scratch/prefix" -name lockstep.pc)")"
# The standard is the application's business.
case $(pkg-config --cflags lockstep) in
*-std=*) echo "pkg-config forces a standard: $(pkg-config --cflags lockstep)"; exit 1 ;;
esac
# A large frame must not step over the guard below a user thread's stack.
case $(pkg-config --cflags lockstep) in
*-fstack-clash-protection*) ;;
*) echo "pkg-config lacks -fstack-clash-protection: $(pkg-config --cflags lockstep)"; exit 1 ;;
esac
g++ -std=c++20 "$scratch/examples/first_steps.cc" $(pkg-config --cflags --libs lockstep) -o \
    "$scratch/by_pkg_config"
LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)" "$scratch/by_pkg_config" \
    "$scratch/by_pkg_config.db"
# Each header stands alone, but for the ends of others: in the oldest standard with one compiler, in
# the newest with the other. All together stand in each standard with each compiler.
for header in "$scratch"/prefix/include/lockstep/*.h; do
    [[ $header != *_inl.h ]] || continue
    echo "#include <lockstep/$(basename "$header")>"
done | sort >"$scratch/all.cc"
warnings="-Wall -Wextra -pedantic -Werror"
for compiler in g++ clang++-16; do
    command -v "$compiler" >/dev/null || { echo "without $compiler, which is not there"; continue; }
    alone=c++20
    [ "$compiler" = g++ ] || alone=c++2b
    for standard in c++20 c++2b; do
        check=($compiler -std=$standard -fsyntax-only $warnings -I"$scratch/embedder"
            -I"$scratch/embedder/sm" $(pkg-config --cflags lockstep))
        "${check[@]}" "$scratch/all.cc" || { echo "$compiler -std=$standard: all headers"; exit 1; }
        [ "$standard" != "$alone" ] || while read -r line; do
            echo "$line" | "${check[@]}" -x c++ - || { echo "$compiler -std=$standard: $line"
                exit 1; }
        done <"$scratch/all.cc"
        $compiler -std=$standard $warnings "$source/tests/install/standards.cc" $(pkg-config \
            --cflags --libs lockstep) -o "$scratch/standards"
        LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)" "$scratch/standards" \
            "$scratch/$compiler-$standard.db" || { echo "standards.cc fails: $compiler $standard"
            exit 1; }
    done
    # An older standard is refused in one line, and the compiler stops there. The C interface
    # takes it.
    while read -r line; do
        [ "$line" != '#include <lockstep/lockstep.h>' ] || continue
        if echo "$line" | $compiler -std=c++17 -fsyntax-only $(pkg-config --cflags lockstep) \
            -x c++ - 2>"$scratch/old.log"; then
            echo "$line compiles as C++17"; exit 1
        fi
        grep -q 'error: .*Lockstep needs C++20 or newer' "$scratch/old.log" &&
            [ "$(grep -c 'error: ' "$scratch/old.log")" -eq 2 ] || { cat "$scratch/old.log"
            exit 1; }
    done <"$scratch/all.cc"
done
# The C interface: with each compiler, as C11 and as C++17; without C++ in the project.
for compiler in gcc clang-16; do
    command -v "$compiler" >/dev/null || { echo "without $compiler, which is not there"; continue; }
    $compiler -std=c11 $warnings "$source/tests/embed/c_program.c" $(pkg-config --cflags --libs \
        lockstep) -pthread -o "$scratch/c_program"
    $compiler -std=c++17 $warnings -fsyntax-only $(pkg-config --cflags lockstep) -x c++ \
        "$source/tests/embed/c_program.c"
    mkdir "$scratch/$compiler.c"
    LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)" "$scratch/c_program" \
        "$scratch/$compiler.c"
done
awk '/^```c$/ { show = 1; next } /^```$/ { show = 0 } show' "$source/sm/c/README.md" \
    >"$scratch/readme.c"
gcc -std=c11 $warnings "$scratch/readme.c" $(pkg-config --cflags --libs lockstep) \
    -o "$scratch/readme"
said=$(LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)" "$scratch/readme" \
    "$scratch/readme.db")
[ "$said" = "Lisbon is in Portugal" ] || { echo "sm/c/README.md said: $said"; exit 1; }
for header in "$scratch"/prefix/include/lockstep/{lockstep,c/*}.h; do
    gcc -std=c11 $warnings -fsyntax-only $(pkg-config --cflags lockstep) -x c "$header" -Wno-error
done
mkdir "$scratch/c_only" "$scratch/c_only.db"
cp "$source/tests/embed/c_program.c" "$scratch/c_only/"
cat >"$scratch/c_only/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(c_only LANGUAGES C)
find_package(lockstep REQUIRED)
find_package(Threads REQUIRED)
add_executable(c_only c_program.c)
target_link_libraries(c_only PRIVATE lockstep::c Threads::Threads)
END
cmake -S "$scratch/c_only" -B "$scratch/c_only/out" -G Ninja \
    -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/c_only/out" >/dev/null
grep -q -e -fstack-clash-protection "$scratch/c_only/out/build.ninja" || { echo \
    "lockstep::c lacks -fstack-clash-protection"; exit 1; }
"$scratch/c_only/out/c_only" "$scratch/c_only.db"
# What a program compiles for each file that includes the store. <memory> alone would add 14,000.
lines=$(echo '#include <lockstep/store.h>' | g++ -std=c++23 -E -P $(pkg-config --cflags lockstep) \
    -x c++ - | wc -l)
[ "$lines" -le 27594 ] || { echo "store.h has $lines lines with all it includes, more than 27594"
    exit 1; }
g++ -std=c++20 -I"$scratch/embedder" "$scratch/examples/first_steps.cc" $(pkg-config --cflags \
    --libs lockstep) -o "$scratch/embedded"
# A Result that is dropped does not compile.
if g++ -std=c++20 -fsyntax-only -Werror $(pkg-config --cflags lockstep) \
    "$source/tests/install/dropped_result.cc" 2>"$scratch/dropped.log"; then
    echo "dropped_result.cc compiles: a Result can be dropped"; exit 1
fi
[ "$(grep -c 'error: ignoring returned value' "$scratch/dropped.log")" -eq 3 ] || { cat \
    "$scratch/dropped.log"; exit 1; }
# Nor does a key of a number that C++ would convert.
if g++ -std=c++20 -fsyntax-only $(pkg-config --cflags lockstep) \
    "$source/tests/install/wrong_key_part.cc" 2>"$scratch/wrong_key.log"; then
    echo "wrong_key_part.cc compiles"; exit 1
fi
[ "$(grep -c ': error: ' "$scratch/wrong_key.log")" -eq 9 ] || { cat "$scratch/wrong_key.log"
    exit 1; }
# A function that returns no Result is told what to return.
if g++ -std=c++20 -fsyntax-only $(pkg-config --cflags lockstep) \
    "$source/tests/install/no_result.cc" 2>"$scratch/no_result.log"; then
    echo "no_result.cc compiles"; exit 1
fi
[ "$(grep -c 'error: .*the function must return lockstep::Result<T>' "$scratch/no_result.log")" \
    -eq 3 ] || { cat "$scratch/no_result.log"; exit 1; }
echo "1 passed, 0 failed"
