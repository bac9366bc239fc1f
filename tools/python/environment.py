"""environment - the virtual environment of the package's tests, and builds of its extension.

Everything lies in BUILD/python: `venv` with the packages of tests/python/requirements.txt,
`prefix` with the library of BUILD as it is installed, and one folder for each build.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REQUIREMENTS = ROOT / "tests/python/requirements.txt"
SKIPPED = 77


def run(*command, **options) -> None:
    """Runs a command. If it fails, prints what it said and ends with its status."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")


def make_venv(
    directory: pathlib.Path, requirements: pathlib.Path = REQUIREMENTS
) -> pathlib.Path:
    """The interpreter of the environment, which is made if it is new or incomplete.

    Ends with SKIPPED if PyPI cannot be reached.
    """
    python = directory / "bin/python"
    done = directory / "requirements.txt"
    wanted = requirements.read_text()
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(directory, ignore_errors=True)
        try:
            make = [sys.executable, "-m", "venv", directory]
            subprocess.run(make, check=True, capture_output=True, text=True)
            install = [python, "-m", "pip", "install", "-q", "-r", requirements]
            subprocess.run(install, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            print(f"the test's packages cannot be installed: {error.stderr}", file=sys.stderr)
            sys.exit(SKIPPED)
        done.write_text(wanted)
    return python


def install_library(build: pathlib.Path) -> pathlib.Path:
    """The library of a build directory, installed for find_package()."""
    prefix = build / "python/prefix"
    for component in ("dev", "runtime"):
        run("cmake", "--install", build, "--prefix", prefix, "--component", component)
    return prefix


def launcher() -> list[str]:
    return ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []


def compile_extension(
    build: pathlib.Path, python: pathlib.Path, name: str, options: Sequence[str] = ()
) -> pathlib.Path:
    """Builds the extension with the library of the build directory: the folder where it lies."""
    out = build / "python" / name
    prefix = [f"-DLOCKSTEP_PREFIX={install_library(build)}", f"-DPython_EXECUTABLE={python}"]
    run("cmake", "-S", HERE, "-B", out, "-G", "Ninja", *prefix, *launcher(), *options)
    run("cmake", "--build", out)
    return out


def build_extension(
    build: pathlib.Path, python: pathlib.Path, coverage: bool, name: str = ""
) -> pathlib.Path:
    """Builds the package in place, in a folder of this name: the folder for PYTHONPATH."""
    name = name or ("coverage" if coverage else "plain")
    option = f"-DLOCKSTEP_PYTHON_COVERAGE={'ON' if coverage else 'OFF'}"
    out = compile_extension(build, python, name, [option])
    package = out / "package/lockstep"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(HERE / "lockstep", package, ignore=shutil.ignore_patterns("__pycache__"))
    (extension,) = out.glob("_core*.so")
    shutil.copy(extension, package)
    return package.parent


def build_wheel(
    build: pathlib.Path, python: pathlib.Path, options: Sequence[str] = ()
) -> pathlib.Path:
    """The wheel, with the library of the build directory; the options are CMake's."""
    out = build / "python/wheel"
    shutil.rmtree(out, ignore_errors=True)
    # The long name of -C, which Debian 12's pip does not know.
    setting = "--config-settings="
    options = [f"-DLOCKSTEP_PREFIX={install_library(build)}", *launcher(), *options]
    defines = [f"{setting}cmake.define.{option[2:]}" for option in options]
    command = [python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out]
    places = [f"{setting}build-dir={build}/python/wheel-build", *defines, HERE]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    run(*command, *places, env={**os.environ, "PATH": path})
    (wheel,) = out.glob("lockstep-*.whl")
    return wheel


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1]).resolve()
    print(build_wheel(directory, make_venv(directory / "python/venv")))
