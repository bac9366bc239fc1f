#!/usr/bin/env python3
"""metrics_test.py - metrics as a Prometheus server would read them: the official client parses what
sm_metrics_test renders and what `lockstep-tpcc --metrics` serves while it runs.

Usage: metrics_test.py METRICS_TEST DRIVER
"""

import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    sys.exit("the Debian package python3-prometheus-client is missing; ./tools/run installs it")

PROGRAM, DRIVER = sys.argv[1:3]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def families_of(text):
    families = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in families, f"{family.name} comes twice"
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        assert family.samples, family
        families[family.name] = family
    check_conventions(families)
    return families


def check_conventions(families):
    for name, family in families.items():
        assert re.fullmatch(r"lockstep_[a-z][a-z0-9_]*", name), name
        assert not re.search("nanos|_(us|ms|ns)(_|$)", name), name
        seen = set()
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in seen, f"{key} comes twice"
            seen.add(key)
            assert sample.value >= 0 and not math.isnan(sample.value), sample
            if family.type == "counter":
                assert sample.name == name + "_total", sample
        if family.type == "histogram":
            check_histogram(family)


def check_histogram(family):
    lines = {}
    for sample in family.samples:
        labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        lines.setdefault(labels, []).append(sample)
    for labels, samples in lines.items():
        buckets = [s for s in samples if s.name.endswith("_bucket")]
        borders = [float(s.labels["le"]) for s in buckets]
        counts = [s.value for s in buckets]
        assert borders == sorted(set(borders)) and borders[-1] == math.inf, (labels, borders)
        assert counts == sorted(counts), (labels, counts)
        count = [s.value for s in samples if s.name.endswith("_count")]
        assert count == [counts[-1]], (labels, count)
        assert len([s for s in samples if s.name.endswith("_sum")]) == 1, labels


def value(families, name, **labels):
    found = [s.value for s in families[name].samples if s.labels == labels]
    assert len(found) == 1, (name, labels, families[name].samples)
    return found[0]


def check_rendered(directory):
    """Label values come back as they were; what is no UTF-8 comes as its number."""
    path = os.path.join(directory, "metrics.txt")
    subprocess.run(
        [PROGRAM, "--gtest_filter=MetricsTest.AWholeText"],
        check=True,
        env=dict(os.environ, LOCKSTEP_METRICS_FILE=path),
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    with open(path, encoding="utf-8") as file:
        families = families_of(file.read())
    assert value(families, "lockstep_transactions", outcome="committed") == 42
    assert value(families, "lockstep_team_teams", operation='fetch (q"uo\\te \\xe9)') == 7
    assert value(families, "lockstep_tuner_team_max", worker="0", mode="on") == 16


def get(url, method="GET", data=None):
    request = urllib.request.Request(url, method=method, data=data)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.headers["Content-Type"], reply.read().decode("utf-8")


def status_of(*arguments, **more):
    try:
        get(*arguments, **more)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def check_served(directory):
    """Scraped twice during a run: counters grow, and the rest of HTTP has its proper status."""
    store = os.path.join(directory, "store")
    small = "-w 1 --warmup 0 --pool 64M --log-size 256M --duration 60 --steps on".split()
    driver = subprocess.Popen(
        [DRIVER, "--path", store, "--metrics", "0", *small], stdout=subprocess.PIPE, text=True
    )
    try:
        line = driver.stdout.readline()
        url = re.fullmatch(r"metrics: (http://127\.0\.0\.1:\d+/metrics)\n", line).group(1)
        deadline = time.time() + 100
        while True:
            content_type, text = get(url)
            first = families_of(text)
            assert content_type == CONTENT_TYPE, content_type
            if value(first, "lockstep_transactions", outcome="committed") > 1000:
                break
            assert time.time() < deadline, "no transactions"
            time.sleep(0.2)
        # A busy machine's disk may stand still for seconds.
        while True:
            time.sleep(0.5)
            second = families_of(get(url)[1])
            committed = [
                value(of, "lockstep_transactions", outcome="committed") for of in (first, second)
            ]
            if committed[1] > committed[0]:
                break
            assert time.time() < deadline, committed
        for name, family in first.items():
            if family.type != "counter" or name.startswith("lockstep_team"):
                continue
            for sample in family.samples:
                assert value(second, name, **sample.labels) >= sample.value, sample
        assert value(second, "lockstep_log_written_bytes") > 0
        uptimes = [value(of, "lockstep_uptime_seconds") for of in (first, second)]
        assert 0 < uptimes[0] < uptimes[1] < 200, uptimes
        assert value(second, "lockstep_store_failed") == 0
        (info,) = second["lockstep_store_info"].samples
        assert re.fullmatch(r"\d+\.\d+\.\d+", info.labels["version"]), info
        assert any(s.value > 0 for s in second["lockstep_team_teams"].samples)
        assert status_of(url + "x") == 404
        assert status_of(url, method="POST", data=b"x" * 100000) == 405
        assert get(url, method="HEAD") == (CONTENT_TYPE, "")
    finally:
        driver.terminate()
        driver.communicate(timeout=100)
    assert driver.returncode == 130, driver.returncode


def check_refused(directory):
    for port in ("x", "65536", "localhost:1", ":1", "1.2.3.4:"):
        done = subprocess.run(
            [DRIVER, "--path", directory, "--metrics", port], capture_output=True, timeout=60
        )
        assert done.returncode != 0 and b"--metrics" in done.stderr, (port, done)


scratch = tempfile.mkdtemp(prefix="lockstep-metrics-")
try:
    check_rendered(scratch)
    check_served(scratch)
    check_refused(scratch)
    print("3 passed, 0 failed")
finally:
    shutil.rmtree(scratch, ignore_errors=True)
