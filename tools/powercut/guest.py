"""guest - a Linux that runs as a process (User-Mode Linux), and whose power can be cut."""

import os
import pathlib
import queue
import shutil
import signal
import subprocess
import threading

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = "linux.uml"
PREFIX = "powercut "
MODULES = pathlib.Path("/usr/lib/uml/modules")


def missing():
    """What this machine lacks for guests; empty: nothing."""
    if shutil.which(KERNEL) is None:
        return "User-Mode Linux is not installed (Debian: user-mode-linux)"
    if not any(MODULES.glob("*/kernel/drivers/md/dm-log-writes.ko")):
        return f"{MODULES} has no dm-log-writes.ko"
    for program in ("insmod", "dmsetup", "mkfs.ext4", "mkfs.xfs", "blockdev"):
        if shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            return f"{program} is not installed (Debian: kmod, dmsetup, e2fsprogs, xfsprogs)"
    return ""


class Guest:
    """One boot. `disks` become ubdb, ubdc and so on; `words` go to guest.sh."""

    def __init__(self, place, disks, **words):
        place.mkdir(parents=True, exist_ok=True)
        command = [
            KERNEL,
            "mem=192M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "ro",
            "quiet",
            f"init={HERE / 'guest.sh'}",
            "con=null",
            "con0=null,fd:1",
            f"uml_dir={place}",
            "umid=guest",
            *(f"ubd{chr(ord('b') + i)}={disk}" for i, disk in enumerate(disks)),
            *(f"rig_{name}={value}" for name, value in words.items()),
        ]
        self.console = []  # all lines
        self.answers = queue.Queue()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for raw in self.process.stdout:
            line = raw.decode(errors="replace").strip()
            self.console.append(line)
            if line.startswith(PREFIX):
                self.answers.put(line.removeprefix(PREFIX))
        self.answers.put(None)

    def wait_for(self, wanted, seconds):
        """The answers up to one that begins with a word of `wanted`, which is the last one. It is
        "failed: ..." if the guest does not answer in time."""
        out = []
        while not out or not out[-1].startswith((*wanted, "failed:")):
            try:
                answer = self.answers.get(timeout=seconds)
            except queue.Empty:
                answer = f"failed: no answer in {seconds} s"
            out.append(answer if answer is not None else "failed: the guest has ended")
        return out

    def processes(self):
        """Those of the guest's kernel: what it runs are processes that it traces."""
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
                number = int(status.parent.name)
                if os.getpgid(number) == self.process.pid and int(fields["TracerPid"]) == 0:
                    yield number
            except (OSError, ValueError):
                continue  # it has ended

    def pause(self):
        for number in self.processes():
            os.kill(number, signal.SIGSTOP)

    def go_on(self):
        for number in self.processes():
            os.kill(number, signal.SIGCONT)

    def cut_power(self):
        """Ends all processes of the guest at once."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.reader.join(10)
