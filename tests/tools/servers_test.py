#!/usr/bin/env python3
"""servers_test.py - the example servers as a client sees them: answers, malformed input, kill -9
under load, a clean end, and a brief comparison.

Usage: servers_test.py FOLDER, which holds the programs epoll_server, asio_server, thread_server and
server_load."""

import pathlib
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/examples"))
import compare_servers  # noqa: E402

FOLDER = None
CONNECTIONS, LOAD_SECONDS, WORK_SECONDS = 64, 0.5, 60


def connect(port):
    """A connection whose answers must come within 20 seconds."""
    client = socket.create_connection(("127.0.0.1", port), timeout=20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def lines(client, count):
    """So many lines from the server; fewer if it closes the connection."""
    text = b""
    while text.count(b"\n") < count:
        got = client.recv(65536)
        if not got:
            break
        text += got
    return text.decode().splitlines()


def ask(client, request):
    """The answer to one request."""
    client.sendall(request.encode() + b"\n")
    return "".join(lines(client, 1))


class Writer:
    """A connection that writes growing numbers under a key of its own."""

    def __init__(self, port, number):
        self.client = connect(port)
        self.key, self.sent, self.acknowledged, self.text = f"writer{number}", 0, 0, b""

    def write(self):
        """Asks for the next number."""
        self.sent += 1
        self.client.sendall(f"PUT {self.key} {self.sent}\n".encode())

    def read(self):
        """Takes what has arrived."""
        self.text += self.client.recv(4096)
        if self.text.endswith(b"\n"):
            assert self.text == b"OK\n", self.text
            self.text = b""
            self.acknowledged = self.sent
            self.write()


def load(port):
    """Writers at work. They are left in the middle of it; each has two answers or more."""
    writers = [Writer(port, number) for number in range(CONNECTIONS)]
    with selectors.DefaultSelector() as selector:
        for writer in writers:
            selector.register(writer.client, selectors.EVENT_READ, writer)
            writer.write()
        begin = time.monotonic()
        # A busy machine's disk may stand still for seconds.
        while time.monotonic() < begin + LOAD_SECONDS or any(w.acknowledged < 2 for w in writers):
            assert time.monotonic() < begin + WORK_SECONDS, "a writer gets no answers"
            for key, _ in selector.select(1):
                key.data.read()
    return writers


class Servers(unittest.TestCase):
    """Each test runs every server."""

    def each(self, check):
        """Calls `check(start)` for each server; start() starts it again on the same store."""
        for name, command in compare_servers.SERVERS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                running = []

                def start(command=command, directory=directory, running=running):
                    server, port = compare_servers.start(FOLDER, command, directory + "/store")
                    running.append(server)
                    return server, port

                try:
                    check(start)
                finally:
                    for server in running:
                        server.kill()
                        server.wait()
                        server.stdout.close()

    def test_answers(self):
        """The protocol, and everything that is not in it."""

        def check(start):
            server, port = start()
            clients = [connect(port) for _ in range(CONNECTIONS)]
            for number, client in enumerate(clients):
                self.assertEqual(ask(client, f"PUT k{number} value {number}"), "OK")
            for number, client in enumerate(clients):
                other = (number + 1) % CONNECTIONS
                self.assertEqual(ask(client, f"GET k{other}"), f"VALUE value {other}")
            first = clients[0]
            self.assertEqual(ask(first, "GET absent"), "NONE")
            self.assertEqual(ask(first, "PUT empty"), "OK")
            self.assertEqual(ask(first, "GET empty\r"), "VALUE ")
            for malformed in ("", "get k1", "GET", "GET  k1", "PUT", "GET k1 k2", "DROP pairs",
                              "GET " + "k" * 3000, "\0\0\0\0"):
                self.assertRegex(ask(first, malformed), "^ERROR .")
            # Several requests at once, and one in pieces.
            first.sendall(b"PUT a 1\nGET a\nPUT a 2\nGET a\nnonsense\nGE")
            self.assertEqual(lines(first, 5)[:4], ["OK", "VALUE 1", "OK", "VALUE 2"])
            first.sendall(b"T a")
            self.assertEqual(ask(first, ""), "VALUE 2")
            # A line without end is answered once, and the connection ends.
            clients[1].sendall(b"PUT long " + b"x" * 5000)
            try:
                self.assertEqual(lines(clients[1], 2), ["ERROR line too long"])
            except ConnectionResetError:
                pass  # what it did not read may reset the connection
            clients[2].close()
            self.assertEqual(ask(first, "GET k2"), "VALUE value 2")
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=60), 0)
            self.assertEqual(first.recv(1), b"")
            for client in clients:
                client.close()
            _, port = start()
            with connect(port) as again:
                self.assertEqual(ask(again, "GET k3"), "VALUE value 3")

        self.each(check)

    def test_acknowledged_writes_survive_a_kill(self):
        """kill -9 in the middle of 64 writers."""

        def check(start):
            server, port = start()
            writers = load(port)
            server.kill()
            server.wait()
            self.assertGreater(sum(writer.acknowledged for writer in writers), CONNECTIONS)
            _, port = start()
            with connect(port) as reader:
                for writer in writers:
                    writer.client.close()
                    answer = ask(reader, f"GET {writer.key}")
                    found = int(answer.split()[1]) if answer != "NONE" else 0
                    # The last one may have been durable before its answer was sent.
                    self.assertIn(found, (writer.acknowledged, writer.sent))

        self.each(check)

    def test_end_under_load(self):
        """SIGTERM while requests run: a clean end, and nothing acknowledged is lost."""

        def check(start):
            server, port = start()
            writers = load(port)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=60), 0)
            _, port = start()
            with connect(port) as reader:
                for writer in writers:
                    writer.client.close()
                    answer = ask(reader, f"GET {writer.key}")
                    self.assertIn(int(answer.split()[1]), (writer.acknowledged, writer.sent))

        self.each(check)

    def test_comparison(self):
        """The script prints a rate for each of the four. Longer if the disk stands still."""
        for seconds in ("0.3", "2", "10"):
            done = subprocess.run(
                [sys.executable, str(SOURCE / "tools/examples/compare_servers.py"), str(FOLDER),
                 "--rounds", "1", "--seconds", seconds],
                capture_output=True, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            rates = re.findall(r"^(\S.*?) +(\d+) requests/s", done.stdout, re.M)
            self.assertEqual([name for name, _ in rates], list(compare_servers.SERVERS))
            if all(int(rate) > 0 for _, rate in rates):
                break
        for name, rate in rates:
            self.assertGreater(int(rate), 0, name)


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
