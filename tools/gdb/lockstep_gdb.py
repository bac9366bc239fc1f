# lockstep_gdb.py - gdb commands that list user threads and show where each of them stands.
#
#   gdb -p PID -x tools/gdb/lockstep_gdb.py
#   (gdb) lockstep threads           every user thread of every worker, with innermost functions
#   (gdb) lockstep bt ID [ID ...]    call chains of suspended user threads; `all` for every one
#
# `source tools/gdb/lockstep_gdb.py` adds the commands to a running gdb, also for a core file.
#
# Concepts   A worker is found through the worker_local variable of its kernel thread. The worker's
#            list names its user threads. Field offsets come from Worker::kDebuggerLayout in the
#            program, so a release build (-g1) is enough. The call chain of a suspended thread is
#            read from the frame pointers on its stack. The script changes nothing in the program.
#            Threads that have not run yet are not listed.
import gdb

FIELDS = (
    "format",
    "local_current",
    "local_worker",
    "worker_index",
    "worker_all",
    "sp",
    "all_next",
    "id",
    "name",
    "state",
    "reason",
    "latch_depth",
    "stack",
    "stack_base",
    "stack_top",
    "saved_fp",
    "saved_ip",
    "fast_form",
    "fast_fp",
    "fast_ip",
)
STATES = ("ready", "parked", "ready+token")
REASONS = ("lock", "page_read", "latch", "log", "io", "event", "sleep", "yield", "admission")
FRAMES_MAX = 100


def read(address, size):
    data = gdb.selected_inferior().read_memory(address, size)
    return int.from_bytes(bytes(data), "little")


def address_of(symbol):
    return int(gdb.parse_and_eval("(unsigned long)&'%s'" % symbol))


def read_layout():
    base = address_of("lockstep::threads::Worker::kDebuggerLayout")
    layout = {name: read(base + 4 * i, 4) for i, name in enumerate(FIELDS)}
    if layout["format"] != 3:
        raise gdb.GdbError(
            "lockstep: this script does not know the program's layout format %d" % layout["format"]
        )
    return layout


def text_at(address):
    return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string() if address else "?"


class UserThread:
    def __init__(self, layout, address, worker, running):
        self.layout = layout
        self.address = address
        self.worker = worker
        self.running = running
        self.id = self.field("id", 8)
        self.name = text_at(self.field("name", 8))
        self.latch_depth = self.field("latch_depth", 4)

    def field(self, name, size):
        return read(self.address + self.layout[name], size)

    def state(self):
        if self.running:
            return "running"
        state = self.field("state", 4)
        text = STATES[state] if state < len(STATES) else str(state)
        reason = self.field("reason", 1)
        return text + "/" + (REASONS[reason] if reason < len(REASONS) else str(reason))

    # Saved frame pointer and return address. The fast switch has a layout of its own.
    def innermost(self):
        sp, form = self.field("sp", 8), "fast" if self.field("fast_form", 1) else "saved"
        return read(sp + self.layout[form + "_fp"], 8), [read(sp + self.layout[form + "_ip"], 8)]

    # Program counters from the innermost frame outwards. Empty for the running thread, which
    # gdb's own backtrace shows.
    def counters(self):
        if self.running:
            return []
        stack = self.field("stack", 8)
        low, high = read(stack + self.layout["stack_base"], 8), read(
            stack + self.layout["stack_top"], 8
        )
        frame, found = self.innermost()
        while low <= frame <= high - 16 and len(found) < FRAMES_MAX:
            counter, outer = read(frame + 8, 8), read(frame, 8)
            if counter == 0:
                break
            found.append(counter)
            if outer <= frame:
                break
            frame = outer
        return found


def user_threads():
    layout = read_layout()
    selected = gdb.selected_thread()
    found = []
    seen = set()
    try:
        for kernel_thread in gdb.selected_inferior().threads():
            kernel_thread.switch()
            try:
                local = address_of("lockstep::threads::worker_local")
                current, worker = read(local + layout["local_current"], 8), read(
                    local + layout["local_worker"], 8
                )
            except gdb.error:
                continue  # a kernel thread whose thread-local storage does not exist yet
            # io_uring's kernel threads have the thread-local storage of the worker they serve.
            if worker == 0 or worker in seen:
                continue
            seen.add(worker)
            index = read(worker + layout["worker_index"], 4)
            thread = read(worker + layout["worker_all"], 8)
            while thread != 0:
                found.append(UserThread(layout, thread, index, thread == current))
                thread = read(thread + layout["all_next"], 8)
    finally:
        if selected is not None:
            selected.switch()
    return sorted(found, key=lambda t: t.id)


def describe(counter, call=True):
    # A return address may belong to the line after the call, so look one byte earlier.
    at = counter - 1 if call else counter
    symbol = gdb.execute("info symbol %d" % at, to_string=True).strip().split(" in section")[0]
    line = gdb.find_pc_line(at)
    place = " at %s:%d" % (line.symtab.filename, line.line) if line.symtab else ""
    return symbol + place


class Lockstep(gdb.Command):
    """User threads of Lockstep: lockstep threads | lockstep bt ID ..."""

    def __init__(self):
        super().__init__("lockstep", gdb.COMMAND_STACK, gdb.COMPLETE_NONE, True)


class LockstepThreads(gdb.Command):
    """List every user thread: id, worker, state and reason, latches held, name, innermost
    functions.
    """

    def __init__(self):
        super().__init__("lockstep threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        threads = user_threads()
        print(
            "%8s %6s %-18s %7s  %s"
            % ("id", "worker", "state", "latches", "name, innermost functions")
        )
        for thread in threads:
            names = [
                describe(c).split(" at ")[0].split("(")[0].split(" + ")[0]
                for c in thread.counters()[:4]
            ]
            print(
                "%8d %6d %-18s %7d  %s  %s"
                % (
                    thread.id,
                    thread.worker,
                    thread.state(),
                    thread.latch_depth,
                    thread.name,
                    " < ".join(names),
                )
            )
        print("%d user threads" % len(threads))


class LockstepBacktrace(gdb.Command):
    """Show the call chain of suspended user threads: lockstep bt ID ... | all"""

    def __init__(self):
        super().__init__("lockstep bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = argument.split()
        if not wanted:
            raise gdb.GdbError("lockstep bt: give an id from 'lockstep threads', or all")
        for thread in user_threads():
            if "all" not in wanted and str(thread.id) not in wanted:
                continue
            print(
                'user thread %d "%s" worker %d %s'
                % (thread.id, thread.name, thread.worker, thread.state())
            )
            if thread.running:
                print("  runs now: see gdb's backtrace of its worker's kernel thread")
            for i, counter in enumerate(thread.counters()):
                print("  #%-2d 0x%x %s" % (i, counter, describe(counter)))


Lockstep()
LockstepThreads()
LockstepBacktrace()
