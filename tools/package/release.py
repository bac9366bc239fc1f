#!/usr/bin/env python3
"""release.py - makes and lists what a release consists of: `./tools/run release`.

Usage: release.py [--out DIR] [--only KIND...] [--check]. The files go to build/release-files, or
DIR. They are made of the last commit, so nothing may be uncommitted. --only makes some kinds again.
--check then installs them into bare systems (tools/bare), which needs root.
"""

import argparse
import datetime
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import contents
import single_header
import sysroot
import wheels

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PORTABLE = ROOT / "build/portable"

import environment  # noqa: E402  wheels knows where it lies

# Where --check installs them: Debian's releases, oldest first.
SUITES = ("bullseye", "bookworm", "trixie")


class Release:
    """The files of one commit."""

    def __init__(self, out: pathlib.Path) -> None:
        self.out = out
        header = (ROOT / "sm/include/lockstep/c/version.h").read_text()
        numbers = re.findall(r"#define LOCKSTEP_VERSION_[A-Z]+ (\d+)", header)
        self.version = ".".join(numbers)
        self.commit = git("rev-parse", "HEAD")
        self.seconds = int(git("log", "-1", "--format=%ct"))
        self.name = f"lockstep-{self.version}"
        self.root = PORTABLE / "sysroot"
        self.library = PORTABLE / "library"
        # What a wheel is packed with, and thus its bytes.
        os.environ["SOURCE_DATE_EPOCH"] = str(self.seconds)

    def require_right_number(self) -> None:
        """The number stands where CONTRIBUTING.md says. A tag needs the number and its date."""
        tags = [tag for tag in git("tag", "--points-at", "HEAD").split() if tag[0] == "v"]
        number = re.escape(self.version)
        date = r"\d{4}-\d\d-\d\d" if tags else ".*"
        for file, wanted in (
            ("CHANGELOG.md", rf"(?m)^## \[{number}\] - {date}$"),
            ("tools/python/lockstep/__init__.py", rf'(?m)^__version__ = "{number}"$'),
            ("tools/docs/pages/reference/limits.md", rf"\b{number}\b"),
        ):
            if not re.search(wanted, (ROOT / file).read_text()):
                sys.exit(f"release: {file} does not say {self.version}, or not its date")
        if tags and tags != [f"v{self.version}"]:
            sys.exit(f"release: the commit has the tag {' '.join(tags)} and is {self.version}")

    def source(self) -> None:
        """The source as git has it. The same commit gives the same bytes."""
        words = ["git", "archive", "--format=tar", f"--prefix={self.name}/", self.commit]
        tar = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
        (self.out / f"{self.name}.tar.gz").write_bytes(gzip.compress(tar, mtime=self.seconds))

    def build_library(self) -> None:
        sysroot.make(self.root)
        options = [
            f"-DCMAKE_TOOLCHAIN_FILE={sysroot.toolchain(self.root)}",
            *("-DLOCKSTEP_BUNDLED=ON", "-DLOCKSTEP_TESTS=OFF", "-DLOCKSTEP_TOOLS=OFF"),
            *(environment.launcher() or ["-DLOCKSTEP_PCH=ON"]),
        ]
        sysroot.run("cmake", "-S", ROOT, "-B", self.library, "-G", "Ninja", *options)
        targets = ("lockstep_static", "lockstep_shared")
        subprocess.run(["cmake", "--build", self.library, "--target", *targets], check=True)

    def wheels(self) -> None:
        self.build_library()
        wheels.make(self.library, self.root, self.python(), self.out)

    def archive(self) -> None:
        """The library with its headers, for programs that are linked by hand or by CMake."""
        self.build_library()
        name = f"{self.name}-linux-x86_64"
        prefix = PORTABLE / name
        shutil.rmtree(prefix, ignore_errors=True)
        for part in ("dev", "runtime"):
            sysroot.run("cmake", "--install", self.library, "--prefix", prefix, "--component", part)
        for library in prefix.rglob("liblockstep.*"):
            kind = "--strip-debug" if library.suffix == ".a" else "--strip-unneeded"
            if not library.is_symlink():
                sysroot.run("strip", kind, "--enable-deterministic-archives", library)
        header = single_header.single_header(prefix / "include", self.version)
        (prefix / "single_header").mkdir()
        (prefix / "single_header/lockstep.hpp").write_text(header)
        shutil.copy(ROOT / "LICENSE", prefix)
        (prefix / "NOTICES").write_text(contents.notices(self.packages()))
        order = ("--sort=name", "--owner=0", "--group=0", "--numeric-owner")
        words = ["tar", *order, f"--mtime=@{self.seconds}", "-C", PORTABLE, "-c", name]
        tar = subprocess.run(words, capture_output=True, check=True).stdout
        (self.out / f"{name}.tar.gz").write_bytes(gzip.compress(tar, mtime=self.seconds))

    def debian(self) -> None:
        subprocess.run([ROOT / "tools/run", "packages"], check=True, stdout=sys.stderr)
        for package in (ROOT / "build/packages").glob("*.deb"):
            shutil.copy(package, self.out)

    def sbom(self) -> None:
        listed = sysroot.run(self.python(), "-m", "pip", "list", "--format=freeze")
        versions = dict(line.split("==") for line in listed.split())
        time = datetime.datetime.fromtimestamp(self.seconds, datetime.UTC)
        text = contents.sbom(self.version, self.commit, f"{time:%Y-%m-%dT%H:%M:%SZ}", versions)
        (self.out / f"{self.name}.cdx.json").write_text(text)

    def python(self) -> pathlib.Path:
        return environment.make_venv(PORTABLE / "venv", HERE / "requirements.txt")

    def packages(self) -> pathlib.Path:
        return next(self.python().parents[1].glob("lib/python3.*/site-packages"))

    def files(self) -> list[pathlib.Path]:
        return sorted(path for path in self.out.iterdir() if path.name != "SHA256SUMS")

    def sums(self) -> None:
        lines = [
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in self.files()
        ]
        (self.out / "SHA256SUMS").write_text("".join(lines))


# What the name of a file tells, in the order of the table.
PURPOSES = (
    ("*-cp311-cp311-*.whl", "pip, Python 3.11; glibc 2.31 or newer"),
    ("*-cp312-abi3-*.whl", "pip, Python 3.12 and newer; glibc 2.31 or newer"),
    ("lockstep-tools_*.deb", "Debian 12: the programs"),
    ("liblockstep-dev_*.deb", "Debian 12: headers, static library, CMake, pkg-config"),
    ("liblockstep*.deb", "Debian 12: the shared library"),
    ("*-linux-x86_64.tar.gz", "any other Linux with g++ 12, glibc 2.31: library, headers"),
    ("*.tar.gz", "the source"),
    ("*.cdx.json", "what is inside, with licences: CycloneDX"),
    ("SHA256SUMS", "checksums"),
)
KINDS = ("source", "debian", "wheels", "archive", "sbom")


def git(*words: str) -> str:
    return sysroot.run("git", "-C", ROOT, *words).strip()


def table(out: pathlib.Path) -> str:
    rows, left = [], sorted(out.iterdir())
    for pattern, purpose in PURPOSES:
        for path in [path for path in left if path.match(pattern)]:
            left.remove(path)
            rows.append((path.name, f"{path.stat().st_size / 1e6:.2f} MB", purpose))
    rows += [(path.name, "", "unknown: not of this release") for path in left]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{name:<{widths[0]}}  {size:>{widths[1]}}  {purpose}" for name, size, purpose in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="run release", description=__doc__.splitlines()[0])
    default = ROOT / "build/release-files"
    parser.add_argument("--out", type=pathlib.Path, default=default, help="where the files go")
    parser.add_argument("--only", nargs="+", choices=KINDS, help="make these kinds only")
    parser.add_argument("--check", action="store_true", help="install them into bare systems")
    options = parser.parse_args()
    if git("status", "--porcelain"):
        sys.exit("release: commit or remove what `git status` lists; a release is of a commit")
    release = Release(options.out.resolve())
    release.require_right_number()
    if not options.only:
        shutil.rmtree(release.out, ignore_errors=True)
    release.out.mkdir(parents=True, exist_ok=True)
    for kind in options.only or KINDS:
        print(f"release: {kind}", file=sys.stderr)
        getattr(release, kind)()
    release.sums()
    print(table(release.out), flush=True)
    if options.check:
        for suite in SUITES:
            command = [ROOT / "tools/bare", "installed", release.out, suite]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
