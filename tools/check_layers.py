#!/usr/bin/env python3
"""check_layers - proves that includes only go down the layers, and that nothing outside the seams touches time, chance or threads.

Layers, from the bottom: threads/base, threads, txn, sm, tpcc, tools, tests. Exit status 0 if sound; else every offence is listed.
Two more rules: x_impl.h is included by x*.cc only; tpcc/ sees nothing of sm/ but its public headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
LAYERS = ["threads/base", "threads", "txn", "sm", "tpcc", "tools", "tests"]
PUBLIC = {f"sm/{n}.h" for n in "store txn index heap cursor key options stats store_inl".split()} | {
    "txn/txn_options.h", "threads/steps_options.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)

# Words that only the seams may use: the clock, the workers, the I/O backends, the handler of failed allocations (which any kernel thread may
# enter), and the tools' and tests' own programs.
BANNED = {
    r"\bstd::thread\b|\bstd::jthread\b": "kernel threads",
    r"\bstd::(recursive_|shared_)?mutex\b|\bstd::condition_variable": "kernel-thread locks",
    r"\bthread_local\b|\b__thread\b": "thread-local storage",
    r"\bclock_gettime\b|\bgettimeofday\b|std::chrono::\w*_clock|__rdtsc": "the wall clock",
    r"\brandom_device\b|\brand\(\)|\bmt19937": "randomness",
    r"\b__builtin_prefetch\b|\b__builtin_ia32_pause\b": "a builtin of threads/base/hints.h",
}
SEAMS = {"threads/base/clock.cc", "threads/worker_local.h", "threads/worker.cc", "threads/runtime.cc", "threads/stack.cc",
         "threads/base/hints.h", "threads/base/memory_reserve.cc"}
SEAM_FOLDERS = ("threads/io/",)


def layer(path: str) -> int:
    for name in sorted(LAYERS, key=len, reverse=True):
        if path.startswith(name + "/"):
            return LAYERS.index(name)
    return -1


def code_of(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def offences():
    for path in sorted(p for folder in LAYERS[1:] for s in ("*.h", "*.cc", "*.S") for p in (ROOT / folder).rglob(s)):
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text()
        for target in INCLUDE.findall(text):
            if not (ROOT / target).exists():
                yield f"{name}: includes {target!r}, which does not exist from the root"
            elif layer(target) > layer(name):
                yield f"{name}: includes {target!r} of a higher layer"
            elif target.endswith("_impl.h") and not name.startswith(target.removesuffix("_impl.h")) and layer(name) < 5:
                yield f"{name}: includes the private {target!r}"
            elif name.startswith("tpcc/") and target.startswith(("sm/", "txn/", "threads/")) and not (
                    target in PUBLIC or target.startswith("threads/base/")):
                yield f"{name}: the workload includes {target!r}, which is not public"
        if layer(name) <= 3 and name not in SEAMS and not name.startswith(SEAM_FOLDERS):
            for pattern, what in BANNED.items():
                for found in re.finditer(pattern, code_of(text)):
                    yield f"{name}: uses {what} ({found.group(0)}) outside the seams"


if __name__ == "__main__":
    bad = list(offences())
    print("\n".join(bad) if bad else "layers: sound")
    sys.exit(1 if bad else 0)
