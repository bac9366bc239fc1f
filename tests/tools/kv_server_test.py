#!/usr/bin/env python3
"""kv_server_test - the example server behind Redis's own clients, and behind hostile ones.

Usage: kv_server_test.py SERVER [--connections N]. Runs redis-cli and redis-benchmark (Debian:
redis-tools) against it, sends malformed and unfinished requests, kills the server and demands every
acknowledged write, ends it by SIGTERM, and opens N connections at once. The exit status is 77 if
redis-tools is not installed."""

import argparse
import contextlib
import os
import re
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
SECONDS = 60


class Server:
    """A running server on a free port."""

    def __init__(self, program, directory, *options):
        self.process = subprocess.Popen(
            [program, "--directory", directory, "--port", "0", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+), (\d+) keys", line)
        assert found, f"the server said {line!r}"
        self.port, self.keys = int(found[1]), int(found[2])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def ask(self, request):
        """All that the server answers until it closes."""
        with self.connect() as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def cli(self, *words):
        done = subprocess.run(
            ["redis-cli", "-p", str(self.port), *words],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return done.stdout.rstrip("\n")

    def benchmark(self, *options):
        done = subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-q", *options],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        text = done.stdout + done.stderr
        assert done.returncode == 0 and "Error" not in text, text
        return [line for line in re.split("[\r\n]", text) if "requests per second" in line]

    def info(self, field):
        return int(re.search(rf"{field}:(\d+)", self.cli("INFO"))[1])

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        rest = self.process.communicate(timeout=SECONDS)[0]
        if how == signal.SIGTERM:
            assert self.process.returncode == 0 and rest == "closed\n", (
                self.process.returncode,
                rest,
            )


@contextlib.contextmanager
def running(program, directory, *options):
    server = Server(program, directory, *options)
    try:
        yield server
        if server.process.poll() is None:
            server.end()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def encoded(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


NO_EXPIRY = (
    "ERR EX, PX, EXAT and PXAT are not supported: keys of this server do not expire"
)
COMMANDS = [
    ("PING", "PONG"),
    ("PING hello", "hello"),
    ("ECHO text", "text"),
    ("SET a 1", "OK"),
    ("GET a", "1"),
    ("GET none", ""),
    ("INCR a", "2"),
    ("INCRBY a -44", "-42"),
    ("DECR a", "-43"),
    ("DECRBY a 7", "-50"),
    ("INCR fresh", "1"),
    ("SET a text NX", ""),
    ("SET absent text XX", ""),
    ("SET b text NX", "OK"),
    ("SET a text XX", "OK"),
    ("SET a other GET", "text"),
    ("SET a other2 GET xx", "other"),
    ("SET a other3 NX GET", "other2"),
    ("SET none2 text XX GET", ""),
    ("SET a text keepttl XX", "OK"),
    ("SET a text EX 10", NO_EXPIRY),
    ("SET a text px 10 NX", NO_EXPIRY),
    ("SET a text EXAT 10", NO_EXPIRY),
    ("SET a text NX XX", "ERR syntax error"),
    ("SET a text XX XX", "ERR syntax error"),
    ("SET a text SOON", "ERR syntax error"),
    ("GET a", "text"),
    ("CLIENT SETNAME me", "OK"),
    ("CLIENT SETINFO LIB-NAME x", "OK"),
    ("CLIENT SETINFO lib-ver 1.2", "OK"),
    ("CLIENT SETINFO COLOUR red", "ERR CLIENT SETINFO takes LIB-NAME or LIB-VER"),
    ("HELLO 4", "NOPROTO unsupported protocol version: this server has 2 and 3"),
    ("HELLO 3 AUTH a b", "ERR AUTH is not supported: this server has no passwords"),
    ("HELLO 3 COLOUR", "ERR syntax error in HELLO"),
    ("INCR a", "ERR value is not an integer or out of range"),
    ("SET big 9223372036854775807", "OK"),
    ("INCR big", "ERR increment or decrement would overflow"),
    ("MSET c 3 d 4", "OK"),
    ("MSET c 3 d", "ERR wrong number of arguments for 'MSET' command"),
    ("MGET c none d", "3\n\n4"),
    ("EXISTS c d none c", "3"),
    ("DEL c none d", "2"),
    ("DBSIZE", "4"),
    ("SELECT 0", "OK"),
    ("SELECT 1", "ERR DB index is out of range: there is only 0"),
    ("CONFIG GET appendfsync", "appendfsync\nalways"),
    ("CONFIG SET save x", "ERR only CONFIG GET parameter is supported"),
    ("WATCH a", "ERR WATCH is not supported: use conditional commands within MULTI"),
    ("EXEC", "ERR EXEC without MULTI"),
    ("SCAN x", "ERR invalid cursor"),
    ("SCAN 7", "ERR invalid cursor: unknown or too old, begin again with 0"),
    ("SCAN 0 COUNT 0", "ERR value is not an integer or out of range"),
    ("NOSUCH a", "ERR unknown command 'NOSUCH'"),
    ("GET", "ERR wrong number of arguments for 'GET' command"),
    ("GET " + "k" * 1025, "ERR key is longer than 1024 bytes"),
]


def check_commands(server):
    for command, expected in COMMANDS:
        answer = server.cli(*command.split(" ")).rstrip("\n")
        assert answer == expected, f"{command}: {answer!r}, expected {expected!r}"
    # Values of any bytes, empty and long ones.
    for value in (b"", bytes(range(256)), os.urandom(500_000)):
        answer = server.ask(encoded("SET", b"\0\r\n", value) + encoded("GET", b"\0\r\n"))
        assert answer == b"+OK\r\n$%d\r\n%s\r\n" % (len(value), value), answer[:100]
    # The commands of an EXEC outlive the long answers that are sent before it.
    answer = server.ask(
        encoded("SET", "long", "l" * 300_000)
        + encoded("GET", "long")
        + encoded("MULTI")
        + encoded("SET", "m", "m" * 30_000)
        + encoded("GET", "long")
        + encoded("EXEC")
        + encoded("GET", "m")
    )
    long = b"$300000\r\n" + b"l" * 300_000 + b"\r\n"
    assert answer == (
        b"+OK\r\n" + long + b"+OK\r\n" + b"+QUEUED\r\n" * 2 + b"*2\r\n+OK\r\n" + long
        + b"$30000\r\n" + b"m" * 30_000 + b"\r\n"
    ), answer[:100]
    # An EXEC is one transaction with one array of answers; what is refused runs not at all.
    answer = server.ask(
        b"MULTI\r\nSET m 1\r\nINCR m\r\nPING\r\nGET m\r\nEXEC\r\nGET m\r\n"
        b"MULTI\r\nSET m 9\r\nDISCARD\r\nGET m\r\n"
        b"MULTI\r\nSET m 9\r\nNOSUCH\r\nEXEC\r\nGET m\r\nMULTI\r\nEXEC\r\nQUIT\r\nPING\r\n"
    )
    assert answer == (
        b"+OK\r\n" + b"+QUEUED\r\n" * 4 + b"*4\r\n+OK\r\n:2\r\n+PONG\r\n$1\r\n2\r\n$1\r\n2\r\n"
        b"+OK\r\n+QUEUED\r\n+OK\r\n$1\r\n2\r\n"
        b"+OK\r\n+QUEUED\r\n-ERR unknown command 'NOSUCH'\r\n"
        b"-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\n2\r\n"
        b"+OK\r\n*0\r\n+OK\r\n"
    ), answer


GATES = ("fcfs", "t-gated", "d-gated", "c-gated", "non-gated", "sharing")


def stages(server):
    """Counts of INFO: requests by route, and what each stage says of itself."""
    text = server.cli("INFO")
    routes = {name: int(count) for name, count in re.findall(r"route_(\S+):(\d+)", text)}
    found = {}
    for name, values in re.findall(r"stage_(\w+):(\S+)", text):
        found[name] = {k: float(v) for k, v in (pair.split("=") for pair in values.split(","))}
    strayed = int(re.search(r"requests_strayed:(\d+)", text)[1])
    return routes, found, strayed


def check_stages(program, directory):
    """Each request visits the stages of its route, with every gate, and with small stages."""
    for gate in GATES:
        options = ("--gate", gate, "--durability", "none", "--stage-capacity", "4")
        with running(program, f"{directory}-{gate}", *options) as server:
            before = stages(server)[0]
            for request in (b"PING\r\n", b"CLIENT ID\r\n", b"NOSUCH\r\n", b"*1\r\n$x\r\n"):
                server.ask(request)
            server.ask(b"SET a 1\r\nGET a\r\nPING\r\n")
            server.ask(b"MULTI\r\nSET a 1\r\nEXEC\r\nGET a\r\n")  # EXEC ends its batch
            with server.connect() as connection:
                connection.sendall(b"*1\r\n$4\r\nPI")
                time.sleep(0.1)
                connection.sendall(b"NG\r\n")
                assert connection.recv(100) == b"+PONG\r\n"
            after, found, strayed = stages(server)
            # INFO itself is one that plan answers.
            taken = {route: after[route] - before[route] for route in after}
            assert taken == {
                "connect": 8,
                "parse": 1,
                "parse,plan,reply": 6,
                "parse,plan,execute,reply": 3,
            }, (gate, taken)
            check_contention(server)
            server.benchmark("-t", "set,get,mset", "-n", "2000", "-c", "20", "-P", "4")
            after, found, strayed = stages(server)
            assert strayed == 0, (gate, strayed)
            answered, data = after["parse,plan,reply"], after["parse,plan,execute,reply"]
            assert data > 1500, after
            entered = {name: stage["entered"] for name, stage in found.items()}
            assert entered == {
                "connect": after["connect"],
                "parse": after["parse"] + answered + data + 1,
                "plan": answered + data + 1,
                "execute": data,
                "reply": answered + data,
            }, (gate, entered, after)
            assert found["plan"]["inside"] == 1 and found["reply"]["inside"] == 0, found
            # 20 clients and places for 4: some wait at the door of the first stage.
            assert gate == "sharing" or found["parse"]["suspended"] > 0, (gate, found)
            if gate in ("fcfs", "sharing"):
                assert found["parse"]["batch"] == 1, (gate, found)


VALUE_BYTES_MAX = 16 << 20


def check_versions(server):
    """The version belongs to the connection, and to the requests after its HELLO."""
    requests = b"GET no\r\nSET no 1 XX\r\nMGET no no\r\nCONFIG GET save\r\nCLIENT GETNAME\r\n"
    old = b"$-1\r\n$-1\r\n*2\r\n$-1\r\n$-1\r\n*2\r\n$4\r\nsave\r\n$0\r\n\r\n$-1\r\n"
    new = b"_\r\n_\r\n*2\r\n_\r\n_\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n_\r\n"
    hello = re.compile(
        rb"([*%])(\d+)\r\n\$6\r\nserver\r\n\$11\r\nlockstep-kv\r\n\$5\r\nproto\r\n:([23])\r\n"
        rb"\$2\r\nid\r\n:\d+\r\n.*?\$7\r\nmodules\r\n\*0\r\n", re.S)  # fmt: skip
    answer = server.ask(
        requests + b"HELLO 3\r\n" + requests + b"HELLO\r\nMULTI\r\nGET no\r\nHELLO 2\r\nEXEC\r\n"
        b"MULTI\r\nGET no\r\nEXEC\r\nHELLO 2 SETNAME me\r\nCLIENT GETNAME\r\nGET no\r\n"
    )
    assert [found.groups() for found in hello.finditer(answer)] == [
        (b"%", b"6", b"3"), (b"%", b"6", b"3"), (b"*", b"12", b"2")], answer  # fmt: skip
    rest = hello.split(answer)[:: hello.groups + 1]
    assert rest == [
        old,
        new,
        b"+OK\r\n+QUEUED\r\n-ERR HELLO is not possible within MULTI\r\n"
        b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        b"+OK\r\n+QUEUED\r\n*1\r\n_\r\n",
        b"$2\r\nme\r\n$-1\r\n",
    ], rest
    assert server.cli("-3", "SET", "three", "3") == "OK" and server.cli("-3", "GET", "three") == "3"
    assert server.cli("-3", "CONFIG", "GET", "appendfsync") == "appendfsync always"
    assert server.cli("-3", "--json", "MGET", "three", "no") == '["3",null]'
    id_of = [int(server.ask(b"CLIENT ID\r\n")[1:]) for _ in range(2)]
    assert 0 < id_of[0] < id_of[1], id_of
    for name in (b"two words", b"line\n", b"n" * 257, b"\xff"):
        answer = server.ask(encoded("CLIENT", "SETNAME", name))
        assert answer.startswith(b"-ERR a client's name has at most 256 bytes"), answer
    assert b"is not supported" in server.ask(b"CLIENT TRACKING on\r\n")
    # As typed after `nc`, and as redis-cli reads a script.
    answer = server.ask(b"SET \"a key\" 'it\\'s'\r\nGET \"a\\x20key\"\r\nECHO \"\"\r\nGET 'a\r\n")
    assert answer == (
        b"+OK\r\n$4\r\nit's\r\n$0\r\n\r\n-ERR Protocol error: unbalanced quotes in request\r\n"
    ), answer


def check_long_values(server):
    """The longest value, one byte more, and the same by INCR's and MSET's ways."""
    longest = os.urandom(VALUE_BYTES_MAX)
    answer = server.ask(encoded("SET", "long", longest) + encoded("GET", "long"))
    assert answer == b"+OK\r\n$%d\r\n%s\r\n" % (len(longest), longest), answer[:100]
    answer = server.ask(encoded("SET", "long", longest + b"x"))
    assert re.fullmatch(rb"-ERR Protocol error: .*at most %d bytes\r\n" % VALUE_BYTES_MAX, answer)
    answer = server.ask(encoded("MSET", "a", longest, "b", longest))
    assert re.fullmatch(rb"-ERR Protocol error: .*a request has at most \d+ bytes\r\n", answer)
    assert server.cli("DEL", "long") == "1"


def check_scan(server):
    assert server.cli("FLUSHALL") == "OK" and server.cli("DBSIZE") == "0"
    keys = {f"key:{i:04}" for i in range(2000)}
    answer = server.ask(b"".join(encoded("SET", key, "v") for key in keys))
    assert answer == b"+OK\r\n" * len(keys)
    # redis-cli follows the cursors; a client of its own may use another connection for each step.
    found = server.cli("--scan").split("\n")
    assert len(found) == len(keys) and set(found) == keys
    cursor, found = "0", []
    while cursor != "0" or not found:
        cursor, *more = server.cli("SCAN", cursor, "COUNT", "137").split("\n")
        found += more
    assert found == sorted(keys)
    found = server.cli("--scan", "--pattern", "key:1[0-2]*5").split("\n")
    assert set(found) == {f"key:1{i:03}" for i in range(300) if i % 10 == 5}
    assert server.cli("DBSIZE") == "2000" and server.cli("FLUSHALL") == "OK"
    assert server.cli("--scan") == ""


def check_benchmark(server):
    for pipeline, requests in ((1, 2000), (16, 20_000)):
        for version in ((), ("-3",)):
            lines = server.benchmark(
                *version,
                *("-t", "ping,set,get,incr,mset", "-r", "1000", "-c", "50"),
                *("-n", str(requests), "-P", str(pipeline)),
            )
            assert len(lines) == 6, lines  # PING has two forms
            print(f"{' '.join(version)} -P {pipeline}: " + ", ".join(lines))
    assert server.cli("GET", "counter:__rand_int__") == "" and int(server.cli("DBSIZE")) > 900


def check_contention(server):
    """Pipelines that lock two keys in different orders: deadlocks, and no lost addition."""
    server.cli("DEL", "x", "y")
    rounds, clients = 30, 8
    pause = encoded("EXISTS", *(f"absent:{i}" for i in range(3000)))

    def client(number):
        keys = ["x", "y"] if number % 2 else ["y", "x"]
        with server.connect() as connection:
            for _ in range(rounds):
                connection.sendall(encoded("INCR", keys[0]) + pause + encoded("INCR", keys[1]))
                answer = b""
                while answer.count(b"\n") < 3:
                    answer += connection.recv(1000)
                assert re.fullmatch(rb":\d+\r\n:0\r\n:\d+\r\n", answer), answer

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    sums = server.cli("MGET", "x", "y").split("\n")
    assert sums == [str(rounds * clients)] * 2, sums
    print(f"{server.info('deadlock_retries')} deadlock victims ran again so far")


def check_hostile(server):
    """Malformed requests get an error and the end of the connection; the server goes on."""
    for request in (
        b"*1\r\n$x\r\n",
        b"*1000000000\r\n",
        b"*1\r\n$2000000000\r\n",
        b"*1\r\n$4\r\nPINGxx",
        b"x" * 100_000,
        b"*1\r\n:4\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nSET stolen 1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n",  # the begin of a TLS connection
        os.urandom(3000) + b"\n" * 2,
    ):
        answer = server.ask(b"PING\r\n" + request)
        assert answer.startswith(b"+PONG\r\n-ERR "), (request[:30], answer)
        assert b"Protocol error" in answer, (request[:30], answer)
    assert server.cli("EXISTS", "stolen") == "0"
    # Requests that never end, clients that never read, and clients that vanish.
    unfinished = [server.connect() for _ in range(20)]
    for i, connection in enumerate(unfinished):
        connection.sendall(encoded("SET", "unfinished", "x" * 50)[: i + 1])
    deaf = server.connect()
    server.ask(encoded("SET", "large", b"l" * 900_000))
    deaf.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(200):
            deaf.send(encoded("GET", "large"))
    for connection in unfinished[::2]:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()  # a reset
    too_much = encoded("MGET", *["large"] * 100)
    assert b"-ERR reply is longer than" in server.ask(too_much)
    assert server.ask(b"MULTI\r\n" + encoded("SET", "q", b"q" * 9_000_000) * 2 + b"EXEC\r\n") == (
        b"+OK\r\n+QUEUED\r\n-ERR too much between MULTI and EXEC\r\n"
        b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    )
    assert server.cli("PING") == "PONG"
    assert server.cli("EXISTS", "unfinished") == "0"
    return unfinished[1::2] + [deaf]  # stay open


def check_kill(program, directory, *options):
    """Kills the server under load; what was acknowledged is there after the next start."""
    acknowledged = []
    for number in range(3):
        with running(program, directory, *options) as server:
            for client, count in acknowledged:
                keys = [f"{client}:{i}" for i in range(count)]
                assert server.cli("EXISTS", *keys) == str(count), f"{client}: writes were lost"
            counts = [0] * 10

            def client(index):
                with contextlib.suppress(OSError), server.connect() as connection:
                    while True:
                        count = counts[index]
                        keys = [f"r{number}c{index}:{count + i}" for i in range(3)]
                        connection.sendall(b"".join(encoded("SET", k, "v") for k in keys))
                        answer = b""
                        while len(answer) < 15:
                            more = connection.recv(100)
                            if not more:
                                return
                            answer += more
                            counts[index] = count + len(answer) // 5

            threads = [threading.Thread(target=client, args=(i,)) for i in range(10)]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            server.end(signal.SIGKILL)
            for thread in threads:
                thread.join(SECONDS)
            assert sum(counts) > 100, counts
            acknowledged = [(f"r{number}c{i}", count) for i, count in enumerate(counts)]
    print(f"kill: {sum(counts)} writes of the last round were acknowledged, and none is lost")


def check_connections(program, directory, wanted):
    """So many connections at once; each writes and reads its key while all are open."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < wanted + 200:
        print(f"skipped: {wanted} connections need a hard limit of descriptors of {wanted + 200}")
        return
    with running(program, directory, "--connections-max", str(wanted)) as server:
        before = server.info("used_memory_rss")
        time.sleep(0.1)  # until the connection of redis-cli has ended
        connections = [server.connect() for _ in range(wanted)]
        late = server.ask(b"")
        assert late == b"-ERR max number of clients reached\r\n", late
        request = [encoded("SET", f"k{i}", f"v{i}") for i in range(wanted)]
        for connection, text in zip(connections, request):
            connection.sendall(text)
        for connection in connections:
            assert connection.recv(100) == b"+OK\r\n"
        for i, connection in enumerate(connections):
            connection.sendall(encoded("GET", f"k{i}"))
        selector = selectors.DefaultSelector()
        for i, connection in enumerate(connections):
            selector.register(connection, selectors.EVENT_READ, i)
        answers = 0
        while answers < wanted:
            ready = selector.select(SECONDS)
            assert ready, f"only {answers} answers"
            for key, _ in ready:
                value = f"v{key.data}".encode()
                assert key.fileobj.recv(100) == b"$%d\r\n%s\r\n" % (len(value), value)
                selector.unregister(key.fileobj)
            answers += len(ready)
        connections.pop().close()
        for _ in range(100):
            time.sleep(0.02)
            if server.ask(b"") == b"":  # there is a place again
                break
        rss = server.info("used_memory_rss")
        print(
            f"{wanted} connections: {(rss - before) / 1e6:.0f} MB of memory,"
            f" {(rss - before) / wanted / 1e3:.1f} KB each"
        )
        server.end()  # with all connections open
        for connection in connections:
            connection.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    parser.add_argument("--connections", type=int, default=10_000)
    arguments = parser.parse_args()
    if shutil.which("redis-cli") is None or shutil.which("redis-benchmark") is None:
        print("skipped: redis-cli and redis-benchmark are missing (Debian: redis-tools)")
        return SKIPPED
    program = arguments.server
    with tempfile.TemporaryDirectory(prefix="lockstep-kv-") as scratch:
        for io in ("automatic", "pool"):
            with running(program, f"{scratch}/{io}", "--io", io, "--workers", "2") as server:
                check_commands(server)
                check_versions(server)
                check_long_values(server)
                check_scan(server)
                check_benchmark(server)
                check_contention(server)
                still_open = check_hostile(server)
                server.end()  # with connections in the middle of a request
                del still_open
        for durability in ("everysec", "none"):
            with running(program, f"{scratch}/automatic", "--durability", durability) as server:
                assert server.keys > 900, server.keys
                check_benchmark(server)
        check_stages(program, f"{scratch}/stages")
        check_kill(program, f"{scratch}/kill", "--workers", "2")
        check_connections(program, f"{scratch}/connections", arguments.connections)
    return 0


if __name__ == "__main__":
    sys.exit(main())
