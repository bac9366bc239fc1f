"""sysroot - a folder with which g++ links for the C library of Debian 11 (glibc 2.31).

What is linked on a newer system asks for the newest names of its C library, which older systems
lack. The folder has the C library of Debian 11, the static libraries that liblockstep brings, and
the headers of this system. Its `toolchain.cmake` tells CMake to use all that. apt fetches packages
of other releases into the folder's own cache, so nothing of the system changes.
"""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
LIBRARIES = "usr/lib/x86_64-linux-gnu"
# What of Debian 11 is linked.
OLD = ("libc6/bullseye", "libc6-dev/bullseye", "libgcc-s1/bullseye", "libcrypt1/bullseye")
# Headers of an interpreter whose stable interface begins with 3.12.
PYTHON = "libpython3.13-dev/trixie"
# The folder's headers that are not of the C library are those of this system.
HEADERS = (
    "asm-generic boost c++ fmt linux liburing liburing.h lz4.h nlohmann oneapi tbb xxhash.h xxh3.h"
    " x86_64-linux-gnu/asm x86_64-linux-gnu/c++ x86_64-linux-gnu/python3.11"
).split()
ARCHIVES = ("libboost_context.a", "liburing.a", "liblz4.a")
PLATFORM = "manylinux_2_31_x86_64"


def run(*command, **options) -> str:
    """Runs a command; if it fails, ends with what it said. Returns its output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def mirror() -> str:
    """The mirror that this machine's apt uses; Debian's own where apt does not tell."""
    for site in run("apt-get", "indextargets", "--format", "$(SITE)").split():
        if site.rstrip("/").endswith("/debian"):
            return site
    return "http://deb.debian.org/debian"


def apt(cache: pathlib.Path, *words: str) -> None:
    """apt-get with lists and a cache of its own in CACHE, where it leaves what it downloads."""
    settings = [
        f"Dir::Etc::sourcelist={cache}/sources.list",
        "Dir::Etc::sourceparts=-",
        f"Dir::State::lists={cache}/lists",
        f"Dir::Cache={cache}/cache",
        "APT::Sandbox::User=root",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    ]
    run("apt-get", *(word for one in settings for word in ("-o", one)), *words, cwd=cache)


def fetch(cache: pathlib.Path) -> None:
    """Packages of other releases, and the source of the library that Debian has not as static."""
    shutil.rmtree(cache, ignore_errors=True)
    for folder in ("lists/partial", "cache/archives/partial"):
        (cache / folder).mkdir(parents=True)
    kinds = ("deb {} bullseye main", "deb {} trixie main", "deb-src {} bookworm main")
    lines = "".join(kind.format(mirror()) + "\n" for kind in kinds)
    (cache / "sources.list").write_text(lines)
    apt(cache, "update")
    apt(cache, "download", *OLD, PYTHON)
    apt(cache, "source", "--download-only", "onetbb")


def unpack(cache: pathlib.Path, root: pathlib.Path) -> None:
    for package in OLD:
        (file,) = cache.glob(package.split("/")[0] + "_*.deb")
        run("dpkg-deb", "--extract", file, root)
    (file,) = cache.glob(PYTHON.split("/")[0] + "_*.deb")
    run("dpkg-deb", "--extract", file, root / "python")
    # A link from / on would lead to this system's C library.
    for link in (path for path in root.rglob("*") if path.is_symlink()):
        target = link.readlink()
        if target.is_absolute():
            link.unlink()
            link.symlink_to(root / target.relative_to("/"))
    for name in HEADERS:
        link_here(root, f"usr/include/{name}")
    for name in ARCHIVES:
        link_here(root, f"{LIBRARIES}/{name}")


def link_here(root: pathlib.Path, name: str) -> None:
    """A link in the folder to the file of this system, if there is one."""
    link = root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists() and pathlib.Path("/", name).exists():
        link.symlink_to(pathlib.Path("/", name))


def build_tbb(cache: pathlib.Path, root: pathlib.Path) -> None:
    """oneTBB as a static library."""
    (description,) = cache.glob("onetbb_*.dsc")
    source, build = cache / "onetbb", cache / "onetbb-build"
    run("dpkg-source", "--extract", description, source)
    options = ["BUILD_SHARED_LIBS=OFF", "TBB_TEST=OFF", "TBB_STRICT=OFF"]
    options += ["CMAKE_BUILD_TYPE=Release", f"CMAKE_TOOLCHAIN_FILE={toolchain(root)}"]
    defines = [f"-D{option}" for option in options]
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", *defines)
    run("cmake", "--build", build, "--target", "tbb")
    (library,) = build.rglob("libtbb.a")
    shutil.copy(library, root / LIBRARIES)


def toolchain(root: pathlib.Path) -> pathlib.Path:
    return root / "toolchain.cmake"


def python_headers(root: pathlib.Path) -> str:
    """CMake's list of the include directories of an interpreter with the stable interface."""
    include = root / "python/usr/include"
    (version,) = include.glob("python3.*")
    return f"{version};{include}"


def make(root: pathlib.Path) -> pathlib.Path:
    """The folder, made if it is not there or this script has changed since."""
    parts = [pathlib.Path(__file__), HERE / "old_libc.cmake", HERE / "old_libc.cc"]
    done, wanted = root / "made_by", "".join(part.read_text() for part in parts)
    if done.exists() and done.read_text() == wanted:
        return root
    shutil.rmtree(root, ignore_errors=True)
    cache = root / "cache"
    fetch(cache)
    unpack(cache, root)
    shutil.copy(HERE / "old_libc.cmake", toolchain(root))
    compile_options = ("-O2", "-fPIC", "-c", HERE / "old_libc.cc", "-o", root / "old_libc.o")
    run("g++", f"--sysroot={root}", *compile_options)
    build_tbb(cache, root)
    done.write_text(wanted)
    return root
