"""Which actors Ray has."""

import time

import ray


def wait_until_gone(*names, seconds=20):
    """Until Ray has no actor of these names."""
    until = time.monotonic() + seconds
    while there := {
        actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True)
    }.intersection(names):
        assert time.monotonic() < until, f"{there} live"
        time.sleep(0.05)
