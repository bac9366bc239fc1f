#!/usr/bin/env bash
# use_files DIRECTORY SUITE - installs the wheel and the Debian packages of DIRECTORY into the bare
# Debian SUITE that it runs in, and uses them against the clock: from `pip install` to a committed
# record in 20 seconds, from `apt-get install` to a compiled program that ran in 60. Changes the
# system; `tools/bare installed` makes one for it.
set -euo pipefail
files=$1 suite=$2
source=$(cd "$(dirname "$0")/../.." && pwd)
export DEBIAN_FRONTEND=noninteractive TMPDIR=/var/tmp
log=/var/tmp/apt.log
stop() { echo "installed: $*" >&2; exit 1; }
get() { apt-get install -y -qq --no-install-recommends "$@" >>"$log" 2>&1 || { cat "$log"
    stop "apt-get refuses $*"; }; }

# within SECONDS WHAT: the function of this name, and how long it took.
within() {
    local begun end
    begun=$(date +%s%N)
    "$2"
    end=$(date +%s%N)
    local tenths=$(((end - begun) / 100000000))
    echo "installed: $2 on $suite: $((tenths / 10)).$((tenths % 10)) s of $1"
    [ "$tenths" -le "$(($1 * 10))" ] || stop "$2 took longer than $1 s"
}

wheel_to_first_record() {
    /venv/bin/pip install -q --no-index --find-links "$files" lockstep
    said=$(cd /var/tmp && /venv/bin/python "$source/tools/python/examples/first_steps.py")
    [ "$said" = "Lisbon is in Portugal" ] || stop "first_steps.py said: $said"
}

packages_to_first_program() {
    get g++ pkg-config "$files"/liblockstep*.deb
    # shellcheck disable=SC2046  # the flags are words
    g++ -std=c++20 "$source/tools/examples/first_steps.cc" -o /var/tmp/first_steps \
        $(pkg-config --cflags --libs lockstep)
    said=$(/var/tmp/first_steps /var/tmp/first_program.db)
    [ "$said" = "Lisbon is in Portugal" ] || stop "first_steps.cc said: $said"
}

# Debian 11 has an older Python than the package, so only the wheel's library runs there.
library_of_wheel() {
    get python3
    python3 -m zipfile --extract "$(compgen -G "$files/*-abi3-*.whl")" /var/tmp/wheel
    mkdir /var/tmp/library
    python3 "$source/tests/embed/ctypes_program.py" /var/tmp/wheel/lockstep/libs/liblockstep.so.* \
        /var/tmp/library
}

# The wheel first, before there is a compiler.
command -v cc >/dev/null && stop "this system is not bare"
if [ "$suite" = bullseye ]; then
    library_of_wheel
elif compgen -G "$files/*.whl" >/dev/null; then
    get python3-venv
    python3 -m venv /venv
    within 20 wheel_to_first_record
    (cd /var/tmp && /venv/bin/python "$source/tools/python/examples/tutorial.py")
fi
if [ "$suite" = bookworm ] && compgen -G "$files/*.deb" >/dev/null; then
    within 60 packages_to_first_program
    get "$files"/lockstep-tools_*.deb cmake ninja-build python3 libcli11-dev
    "$source/tests/install/use_packages.sh" /usr "$source" examples
fi
