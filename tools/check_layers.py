"""check_layers - proves that includes only go down the layers, and that only a few named files use
time, randomness or kernel threads.

Layers are folders, from the bottom up. A file belongs to the longest folder that contains it.
Folders of one entry stand beside each other, and neither may include the other. More rules:

  x_impl.h is included by x*.cc only
  tpcc/ includes only public headers of the engine
  a public header is spelled <lockstep/x.h> and includes only public headers
  an example includes public headers and files of its own folder
  files form no cycle
  the block of layers in ARCHITECTURE.md is that of LAYERS

The check lists every offence. The exit status is 0 if there is none."""

import pathlib
import re
import sys

LAYERS = [
    ["threads/include"],
    ["threads/base"],
    ["threads/io"],
    ["threads/thread"],
    ["threads/sync"],
    ["threads/worker"],
    ["threads/steps"],
    ["threads/runtime"],
    ["txn/include"],
    ["txn/log", "txn/lock"],
    ["txn"],
    ["sm/include"],
    ["sm/buffer"],
    ["sm/core"],
    ["sm/version"],
    ["sm/change"],
    ["sm/space"],
    ["sm/btree", "sm/heap"],
    ["sm/scan"],
    ["sm/report"],
    ["sm/recovery"],
    ["sm/backup"],
    ["sm/host"],
    ["sm/needs", "sm/secondary"],
    ["sm/services"],
    ["sm/catalog", "sm/observe"],
    ["sm/changes"],
    ["sm/engine"],
    ["sm/api"],
    ["sm/c"],
    ["tools/base"],
    ["tpcc"],
    ["tools"],
    ["tools/cli/live"],
    ["tools/cli/rows"],
    ["tools/cli/backup", "tools/cli/load", "tools/cli/pages", "tools/cli/size"],
    ["tests"],
]
RANK = {folder: rank for rank, folders in enumerate(LAYERS) for folder in folders}
EXAMPLES = "tools/examples/"  # a project of its own, outside the tree
ENGINE = ("threads/", "txn/", "sm/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(lockstep/[^>]+)>)', re.M)

# Words for time, randomness and kernel threads. They make a run differ from the next one, so only
# the files of SEAMS and the programs of tools and tests may use them.
BANNED = {
    r"\bstd::thread\b|\bstd::jthread\b|\bpthread_\w+|\btbb::": "kernel threads",
    r"\bstd::(recursive_|shared_)?mutex\b|\bstd::condition_variable": "kernel-thread locks",
    r"\bSYS_futex\b|\.wait\((?:\w+\)|[^;]*\bmemory_order)": "waits of kernel threads",
    r"\b(?:clock_)?nanosleep\b|\busleep\b": "sleep of kernel threads",
    r"\bthread_local\b|\b__thread\b": "thread-local storage",
    r"\bclock_gettime\b|\bgettimeofday\b|std::chrono::\w*_clock|__rdtsc": "the wall clock",
    r"\brandom_device\b|\brand\(\)|\bmt19937": "randomness",
    r"\b__builtin_prefetch\b|\b__builtin_ia32_pause\b": "a builtin of threads/base/hints.h",
}
# What each of these files may use, besides threads/io/, which has the I/O backends.
SEAMS = {
    "threads/base/clock.cc": ("the wall clock",),
    "threads/base/hints.h": ("a builtin of threads/base/hints.h",),
    # Any kernel thread may enter the handler of failed allocations.
    "threads/base/memory_reserve.cc": ("thread-local storage",),
    "threads/thread/worker_local.h": ("thread-local storage",),
    # Kernel threads of a pool, which run no user threads.
    "threads/worker/offload.cc": ("thread-local storage",),
    # Starts and stops the workers.
    "threads/runtime/runtime.cc": (
        *("kernel threads", "waits of kernel threads", "sleep of kernel threads"),
    ),
    # A worker without work sleeps.
    "threads/worker/worker.cc": ("thread-local storage", "waits of kernel threads"),
    # The stack of a kernel thread, its signals, and what fork() leaves of it.
    "threads/thread/stack.cc": ("kernel threads",),
    "threads/thread/signal_chain.cc": ("kernel threads",),
    "threads/thread/fork_watch.cc": ("kernel threads",),
    "threads/thread/stack_sample.h": ("kernel threads",),
    "threads/thread/stack_sample.cc": ("kernel threads", "sleep of kernel threads"),
    # Watches that report a worker or a close() that does not go on: each is a kernel thread.
    "threads/runtime/slice_watch.h": ("kernel threads",),
    "threads/runtime/slice_watch.cc": ("kernel threads", "waits of kernel threads"),
    "sm/observe/close_watch.h": ("kernel threads",),
    "sm/observe/close_watch.cc": ("kernel threads", "waits of kernel threads"),
    # Foreign kernel threads, which wait for user threads.
    "threads/sync/sync_wait.cc": ("waits of kernel threads",),
    "threads/sync/foreign_wait.cc": ("waits of kernel threads", "thread-local storage"),
    # The calls that a foreign kernel thread is inside.
    "sm/c/objects.cc": ("thread-local storage",),
    # A builder's kernel threads that run key functions.
    "sm/secondary/key_call.cc": ("thread-local storage",),
    "sm/engine/engine_close.cc": ("waits of kernel threads",),
    "sm/api/store.cc": ("sleep of kernel threads",),
    # Builds of secondary indexes sort and encode on TBB's threads.
    "sm/secondary/entry_sort.cc": ("kernel threads",),
    "sm/secondary/secondary_build.cc": ("kernel threads",),
}
SEAM_FOLDERS = ("threads/io/",)


def folder_of(path: str) -> str:
    """The layer's folder that holds the file, or "" for a file outside all layers."""
    return max((f for f in RANK if path.startswith(f + "/")), key=len, default="")


def public_path(tree: pathlib.Path, spelling: str) -> str:
    """The path of <lockstep/x.h> in the tree, or the spelling itself if no layer has the file."""
    found = [
        f"{layer}include/{spelling}"
        for layer in ENGINE
        if (tree / layer / "include" / spelling).exists()
    ]
    return found[0] if found else spelling


def code_of(text: str) -> str:
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))


def includes(tree: pathlib.Path, name: str, text: str):
    """(path from the root, True if in angle brackets) of every include of a project file."""
    own = name.rpartition("/")[0] + "/" if name.startswith(EXAMPLES) else ""
    for quoted, public in INCLUDE.findall(text):
        yield (public_path(tree, public), True) if public else (own + quoted, False)


def include_offences(tree: pathlib.Path, name: str, text: str):
    own = folder_of(name)
    for target, angled in includes(tree, name, text):
        folder = folder_of(target)
        if not (tree / target).exists():
            yield f"{name}: includes {target!r}, which does not exist from the root"
        elif not angled and "/include/lockstep/" in target:
            yield (
                f"{name}: includes {target!r}, whose one spelling is"
                f" <{target.split('/include/')[1]}>"
            )
        elif "/include/" in name and not angled:
            yield f"{name}: a public header includes {target!r}, which is not installed"
        elif RANK[folder] > RANK[own]:
            yield f"{name}: includes {target!r} of a higher layer"
        elif RANK[folder] == RANK[own] and folder != own:
            yield f"{name}: includes {target!r} of a folder beside its own"
        elif (
            target.endswith("_impl.h")
            and not name.startswith(target.removesuffix("_impl.h"))
            and not own.startswith(("tools", "tests"))
        ):
            yield f"{name}: includes the private {target!r}"
        elif (
            own == "tpcc"
            and target.startswith(ENGINE)
            and not angled
            and not target.startswith("threads/base/")
        ):
            yield f"{name}: the workload includes {target!r}, which is not public"


def circles(graph: dict[str, set[str]]):
    """Each cycle of files once, found by depth-first search."""
    state: dict[str, int] = {}

    def visit(name: str, path: list[str]):
        state[name] = 1
        for target in sorted(graph.get(name, ())):
            if state.get(target) == 1:
                yield path[path.index(target) :] + [target] if target in path else [name, target]
            elif target not in state:
                yield from visit(target, path + [target])
        state[name] = 2

    for name in sorted(graph):
        if name not in state:
            yield from visit(name, [name])


def order_of(layer: str) -> str:
    """The folders of a layer, from the top down, as the documents write them."""
    rows = [[f.partition("/")[2] for f in row if f.startswith(layer + "/")] for row in LAYERS]
    return " > ".join(", ".join(row) for row in reversed(rows) if row and row != ["include"])


def document_offences(tree: pathlib.Path):
    """A row of the map's block has a layer and its folders, below those the layer's own sources."""
    map_file = tree / "ARCHITECTURE.md"
    if not map_file.exists():
        return
    layers = dict.fromkeys(f.partition("/")[0] for row in reversed(LAYERS) for f in row)
    section = map_file.read_text().partition("## Layers\n")[2]
    block = section.partition("```\n")[2].partition("```")[0]
    rows = dict(re.findall(r"^(\w+) +(.*)$", block, re.M))
    if list(rows) != list(layers):
        yield f"ARCHITECTURE.md: its layers are {list(rows)}, those of LAYERS {list(layers)}"
    for layer in (engine.rstrip("/") for engine in ENGINE):
        own = "[a-z]+ > " if [layer] in LAYERS else ""
        if not re.fullmatch(own + re.escape(order_of(layer)), rows.get(layer, "")):
            yield f"ARCHITECTURE.md: the row of {layer} does not say {order_of(layer)!r}"


def offences(tree: pathlib.Path):
    graph: dict[str, set[str]] = {}
    for path in sorted(
        p
        for top in ("threads", "txn", "sm", "tpcc", "tools", "tests")
        for s in ("*.h", "*.cc", "*.S")
        for p in (tree / top).rglob(s)
    ):
        name = path.relative_to(tree).as_posix()
        text = path.read_text()
        if not folder_of(name):
            yield f"{name}: lies in no folder of LAYERS"
            continue
        graph[name] = {target for target, _ in includes(tree, name, text)}
        yield from include_offences(tree, name, text)
        if name.startswith(ENGINE) and not name.startswith(SEAM_FOLDERS):
            for pattern, what in BANNED.items():
                uses = [] if what in SEAMS.get(name, ()) else re.finditer(pattern, code_of(text))
                for found in uses:
                    yield f"{name}: uses {what} ({found.group(0)}) outside the seams"
    yield from document_offences(tree)
    for circle in circles(graph):
        yield "circle of includes: " + " -> ".join(circle)


if __name__ == "__main__":
    root = pathlib.Path(
        sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent
    ).resolve()
    bad = list(offences(root))
    print("\n".join(bad) if bad else "layers: sound")
    sys.exit(1 if bad else 0)
