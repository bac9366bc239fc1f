#!/usr/bin/env bash
# install_test BUILD_DIRECTORY SOURCE_DIRECTORY - installs into a scratch prefix, builds the examples outside the tree against what was
# installed (CMake package with static and shared library, then pkg-config), and runs them.
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
cp -r "$source/tools/examples" "$scratch/examples"
lines=$(wc -l <"$scratch/examples/first_steps.cc")
[ "$lines" -le 25 ] || { echo "first_steps.cc has $lines lines, more than 25"; exit 1; }

cmake -S "$scratch/examples" -B "$scratch/out" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$scratch/out" -j 2 >/dev/null
for program in first_steps first_steps_shared; do
    said=$("$scratch/out/$program" "$scratch/$program.db")
    [ "$said" = "Lisbon is in Portugal" ] || { echo "$program said: $said"; exit 1; }
done
"$scratch/out/transfers" "$scratch/transfers.db"

export PKG_CONFIG_PATH="$(dirname "$(find "$scratch/prefix" -name lockstep.pc)")"
g++ "$scratch/examples/first_steps.cc" $(pkg-config --cflags --libs lockstep) -o "$scratch/by_pkg_config"
LD_LIBRARY_PATH="$(pkg-config --variable=libdir lockstep)" "$scratch/by_pkg_config" "$scratch/by_pkg_config.db"
echo "1 passed, 0 failed"
