#!/usr/bin/env bash
# packages_test BUILD_DIRECTORY SOURCE_DIRECTORY - makes the Debian packages of a build, judges them
# with lintian where it is installed, unpacks them, and builds and runs tests/embed against them.
# `tools/bare check` installs the same packages with apt-get (use_packages.sh).
set -euo pipefail
build=$1 source=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stop() { echo "packages: $*" >&2; exit 1; }

cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; stop "cpack failed"; }
packages=("$scratch"/packages/*.deb)
names=$(for deb in "${packages[@]}"; do dpkg-deb --field "$deb" Package; done | sort | xargs)
[[ $names =~ ^liblockstep-dev\ liblockstep[0-9.]+\ lockstep-tools$ ]] || stop "packages: $names"
if command -v lintian >/dev/null; then
    lintian --fail-on error,warning "${packages[@]}" 2>"$scratch/log" || stop "lintian complains"
else
    echo "packages: without lintian, which is not there"
fi
# What the static library needs; a program that an application links finds it by these names.
for package in libboost-context-dev libfmt-dev liblz4-dev liburing-dev; do
    dpkg-deb --field "$scratch"/packages/liblockstep-dev_*.deb Depends | grep -qw "$package" ||
        stop "liblockstep-dev does not depend on $package"
done
for package in "${packages[@]}"; do
    dpkg-deb --extract "$package" "$scratch/root"
    name=$(dpkg-deb --field "$package" Package)
    for file in copyright changelog.Debian.gz; do
        [ -f "$scratch/root/usr/share/doc/$name/$file" ] || stop "$name has no $file"
    done
done
"$source/tests/install/use_packages.sh" "$scratch/root/usr" "$source"
echo "1 passed, 0 failed"
