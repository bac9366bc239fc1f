"""wheels - the Python package for systems with the C library of Debian 11 or a newer one.

One wheel serves Python 3.11. Another one uses the stable interface that begins with Python 3.12,
and so serves 3.12 and all later versions.
"""

import json
import os
import pathlib
import re
import shutil
import sys

import contents
import sysroot

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "python"))

import environment  # noqa: E402


def make(
    build: pathlib.Path, root: pathlib.Path, python: pathlib.Path, out: pathlib.Path
) -> list[pathlib.Path]:
    """Makes the wheels in OUT with the library of BUILD; PYTHON is the environment's."""
    options = [f"-DCMAKE_TOOLCHAIN_FILE={sysroot.toolchain(root)}"]
    plain = environment.build_wheel(build, python, options)
    headers = f"-DLOCKSTEP_STABLE_PYTHON={sysroot.python_headers(root)}"
    stable = environment.compile_extension(build, python, "stable", [*options, headers])
    installed = build / "python/stable-installed"
    sysroot.run("cmake", "--install", stable, "--component", "python", "--prefix", installed)
    packages = next(python.parents[1].glob("lib/python3.*/site-packages"))
    made = []
    for tag, extension in (
        ("cp311-cp311", None),
        ("cp312-abi3", installed / "lockstep/_core.abi3.so"),
    ):
        folder = unpacked(plain, python, build / "python/unpacked")
        if extension:
            next(folder.glob("lockstep/_core.*.so")).unlink()
            shutil.copy(extension, folder / "lockstep")
        finish(folder, f"{tag}-{sysroot.PLATFORM}", contents.notices(packages))
        sysroot.run(python, "-m", "wheel", "pack", folder, "-d", out)
        made += out.glob(f"lockstep-*-{tag}-*.whl")
    for wheel in made:
        audit(wheel, python)
    return made


def unpacked(wheel: pathlib.Path, python: pathlib.Path, place: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(place, ignore_errors=True)
    sysroot.run(python, "-m", "wheel", "unpack", wheel, "-d", place)
    (folder,) = place.iterdir()
    return folder


def finish(folder: pathlib.Path, tag: str, notices: str) -> None:
    """The names and texts that an unpacked wheel ends with; no debug information."""
    (described,) = folder.glob("*.dist-info")
    wheel = described / "WHEEL"
    wheel.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", wheel.read_text()))
    (described / "licenses").mkdir(exist_ok=True)
    (described / "licenses/NOTICES").write_text(notices)
    for library in folder.rglob("*.so*"):
        sysroot.run("strip", "--strip-unneeded", library)


def audit(wheel: pathlib.Path, python: pathlib.Path) -> None:
    """Ends the program if the wheel needs newer systems than its name says."""
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    tool = [python, "-m", "auditwheel", "show", "--json", wheel]
    found = json.loads(sysroot.run(*tool, env={**os.environ, "PATH": path}))
    needs = re.fullmatch(r"manylinux_2_(\d+)_x86_64", found["overall_tag"])
    promised = int(sysroot.PLATFORM.split("_")[2])
    if not needs or int(needs[1]) > promised or found["external_libs"] or found["unsupported_isa"]:
        sys.exit(f"auditwheel refuses {wheel.name}: {found}")
    if "abi3" in wheel.name:
        sysroot.run(python, "-m", "abi3audit", "--strict", wheel)
