#!/usr/bin/env python3
"""cluster_test - the tests of lockstep.cluster: `./tools/run cluster-test`.

Usage: cluster_test.py BUILD [--kills N] [--seed S]. BUILD is a build directory with the library.
The script makes a virtual environment with Ray in BUILD/python, builds the extension there, runs
the tests of this folder, then kill_test.py and tpcc_kill_test.py. Exit status 77: PyPI cannot be
reached, or Ray does not start here.
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/python"))

import environment  # noqa: E402

PROBE = "import ray; ray.init('local', num_cpus=1, include_dashboard=False); ray.shutdown()"


def main() -> None:
    build = pathlib.Path(sys.argv[1]).resolve()
    python = environment.make_venv(build / "python/cluster-venv", HERE / "requirements.txt")
    path = environment.build_extension(build, python, coverage=False, name="cluster")
    variables = {
        **os.environ,
        "PYTHONPATH": str(path),
        "LOCKSTEP_TEST_PREFIX": str(build / "python/prefix"),
        "LOCKSTEP_TPCC_OBJECT": str(build / "lib/liblockstep-tpcc-shard.so"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    try:
        probe = subprocess.run(
            [str(python), "-c", PROBE], env=variables, capture_output=True, text=True, timeout=120
        )
        said = probe.stderr if probe.returncode != 0 else ""
    except subprocess.TimeoutExpired:
        said = "it does not answer within 120 s"
    if said:
        print(f"Ray does not start on this machine: {said}")
        sys.exit(environment.SKIPPED)
    for command in (
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sorted(HERE.glob("test_*.py"))],
        [python, HERE / "kill_test.py", *sys.argv[2:]],
        [python, HERE / "tpcc_kill_test.py", *sys.argv[2:]],
    ):
        done = subprocess.run([str(word) for word in command], env=variables, cwd=path.parent)
        if done.returncode != 0:
            sys.exit(done.returncode)


if __name__ == "__main__":
    main()
