#!/usr/bin/env python3
"""kv_redis_py_test - the example server behind redis-py, the newest that pip finds.

Usage: kv_redis_py_test.py SERVER [PYTHON]. PYTHON has redis-py; without it, the test makes a venv
and installs redis-py there. It runs with both versions of the protocol. The exit status is 77 if
redis-py cannot be had."""

import subprocess
import sys
import tempfile
import venv

from kv_server_test import SKIPPED, VALUE_BYTES_MAX, running

CLIENT = r"""
import sys
import redis

port, value_bytes_max = int(sys.argv[1]), int(sys.argv[2])
for protocol in (None, 2, 3):
    version = {} if protocol is None else {"protocol": protocol}
    r = redis.Redis(port=port, client_name="test", **version)
    assert r.ping() and r.client_getname() in ("test", b"test"), r.client_getname()
    r.flushall()
    assert r.set("a", "1") and r.get("a") == b"1" and r.get("none") is None
    assert r.incr("a") == 2 and r.mget("a", "none") == [b"2", None]
    assert r.set("a", "x", nx=True) is None and r.set("b", "x", nx=True)
    assert r.set("c", "x", xx=True) is None and r.set("b", "y", xx=True, keepttl=True)
    assert r.set("b", "z", get=True) == b"y"
    assert r.mset({"k1": "v", "k2": "v"}) and sorted(r.scan_iter("k*")) == [b"k1", b"k2"]
    assert r.config_get("appendfsync") == {"appendfsync": "always"}, r.config_get("appendfsync")
    assert r.dbsize() == 4 and r.exists("a", "none") == 1 and r.delete("k1", "k2") == 2
    assert r.info()["maxclients"] > 0 and r.client_id() > 0
    with r.pipeline(transaction=True) as pipe:
        assert pipe.set("t", "1").incr("t").get("none").execute() == [True, 2, None]
    for options in ({"ex": 10}, {"px": 10}, {"nx": True, "ex": 1}):
        try:
            r.set("a", "soon", **options)
            sys.exit(f"{options} was accepted")
        except redis.ResponseError as error:
            assert "do not expire" in str(error), error
    assert r.get("a") == b"2"
    longest = b"v" * value_bytes_max
    assert r.set("long", longest) and r.get("long") == longest
    try:
        r.set("long", longest + b"x")
        sys.exit("a value that is too long was accepted")
    except (redis.ResponseError, redis.ConnectionError) as error:
        print(f"protocol {protocol}: {error}")
    assert r.ping() and r.delete("long") == 1
print("redis-py", redis.__version__)
"""


def python_with_redis(directory):
    """None: it cannot be had here."""
    venv.create(directory, with_pip=True)
    python = f"{directory}/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "redis>=6"]
    done = subprocess.run(install, capture_output=True, text=True, timeout=150)
    if done.returncode == 0:
        return python
    print(f"skipped: redis-py cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    return None


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory(prefix="lockstep-kv-") as scratch:
        python = sys.argv[2] if len(sys.argv) == 3 else python_with_redis(f"{scratch}/venv")
        if python is None:
            return SKIPPED
        with running(sys.argv[1], f"{scratch}/db") as server:
            words = [python, "-c", CLIENT, str(server.port), str(VALUE_BYTES_MAX)]
            subprocess.run(words, check=True, timeout=120)
    return 0


if __name__ == "__main__":
    sys.exit(main())
