#!/usr/bin/env python3
"""compare_servers.py - requests a second of the example servers, side by side.

    compare_servers.py [options] FOLDER

FOLDER holds the programs epoll_server, asio_server, thread_server and server_load. All servers use
one worker and durable commits; half of the requests are writes. Each round runs every server once,
every other round in the reverse order, so that a change of the machine meets all of them. Printed
are the medians over the rounds, and the ratio to one kernel thread per connection.
"""
import argparse
import json
import pathlib
import signal
import statistics
import subprocess
import tempfile

SERVERS = {  # name: program and arguments behind the port
    "epoll and eventfd, then()": ["epoll_server"],
    "Boost.Asio, co_await": ["asio_server"],
    "kernel thread per connection, run()": ["thread_server"],
    "one thread, run() inline": ["epoll_server", "inline"],
}
BASE = "kernel thread per connection, run()"


def start(folder, command, directory):
    """A server that listens, and its port."""
    program, *rest = command
    server = subprocess.Popen([str(folder / program), str(directory), "0", *rest],
                              stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on port "):
        server.kill()
        raise SystemExit(f"{program} does not listen: {line!r}")
    return server, int(line.split()[-1])


def stop(server):
    """Ends a server cleanly."""
    server.send_signal(signal.SIGTERM)
    if server.wait(timeout=60) != 0:
        raise SystemExit(f"{server.args[0]} ended with {server.returncode}")
    server.stdout.close()


def measure(folder, command, directory, options):
    """Requests a second."""
    server, port = start(folder, command, directory)
    try:
        load = subprocess.run([str(folder / "server_load"), str(port), str(options.connections),
                               str(options.seconds)], capture_output=True, text=True, check=False)
        if load.returncode != 0:
            raise SystemExit(load.stderr)
        return float(load.stdout)
    finally:
        stop(server)


def main():
    """Runs the rounds and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the programs are")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2, help="per server and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory", help="where the stores go; default: a temporary folder")
    parser.add_argument("--json", type=pathlib.Path, help="file for all results")
    options = parser.parse_args()
    results = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
        for turn in range(options.rounds):
            names = list(SERVERS) if turn % 2 == 0 else list(reversed(SERVERS))
            for name in names:
                directory = pathlib.Path(scratch) / name.replace(" ", "_").replace("/", "_")
                results[name].append(measure(options.folder, SERVERS[name], directory, options))
    print(f"{options.connections} connections, {options.rounds} rounds of {options.seconds} s")
    base = statistics.median(results[BASE])
    for name, rates in results.items():
        median = statistics.median(rates)
        ratio = f"{median / base:5.2f}" if base > 0 else "    -"
        print(f"{name:<38} {median:>9.0f} requests/s   {ratio}   "
              f"({min(rates):.0f} to {max(rates):.0f})")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
