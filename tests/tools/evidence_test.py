#!/usr/bin/env python3
"""evidence_test - the page of evidence over made-up results of the commands.

Usage: evidence_test.py SOURCE_DIRECTORY"""

import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else __file__).resolve()
ROOT = ROOT if ROOT.is_dir() else ROOT.parents[2]
sys.path.insert(0, str(ROOT / "tools/evidence"))
import evidence
from commands import COMMANDS
from rows import CANNOT_TELL, DOES_NOT_APPLY, ROWS

# Stands for each program: writes the result of its benchmark, or fails if there is none.
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
results = json.loads((pathlib.Path(__file__).parent / "results.json").read_text())
words = sys.argv[1:]
if words == ["--list"]:
    print("\\n".join(f"{name} what it does" for name in results["list"]))
    sys.exit(0)
with open(pathlib.Path(__file__).parent / "calls", "a") as calls:
    calls.write(" ".join(words[:2]) + "\\n")
key = " ".join(words[:2]) if words[0] == "run" else words[0]
if key not in results:
    sys.exit("it broke")
pathlib.Path(words[words.index("--json") + 1]).write_text(json.dumps(results[key]))
"""


def measured(**values):
    return {"measurements": [{"name": n, "value": v} for n, v in values.items()], "claims": []}


def comparison(what, serial, team, machines, **more):
    return {"what": what, "serial": serial, "team": team, "machines": machines, **more}


def made_up():
    """Results with which each row that is marked as reached is reached."""
    lines = {}
    for load in ("0.80", "0.95"):
        for loading in ("0", "2", "8", "20", "40", "60"):
            case = f"load {load}, loading {loading}%"
            lines |= {f"{case}, sharing": 100, f"{case}, t_gated(2)": 95}
            lines[f"{case}, d_gated"] = 10 if loading == "60" else 120
    lines["locality-aware queue, solved / simulated, largest"] = 1.001
    scans = {}
    for case in ("rows, reading binds", "columns, reading binds"):
        for policy, latency, reads in (("normal", 3.6, 4000), ("relevance", 2, 1800),
                                       ("elevator", 13, 1700)):  # fmt: skip
            scans |= {f"{case}, {policy}: latency": latency, f"{case}, {policy}: reads": reads}
    policies = measured(**scans)
    policies["claims"] = [
        {"claim": text, "holds": True}
        for text in ("choices of relevance: 0.5%", "latency: a < b", "stream time: a", "reads: a")
    ]
    branches = {"k7": {"total": 10}}
    fewer = {"k7": {"total": 3}}
    cold = {"reduction_cold": 0.85, "model": {"beta": 0.02}, "footprint_over_cache": 0.1}
    operation = [cold | {"l1": "65536,2,64"}, cold | {"l1": "16384,4,32"}]
    transaction = [{"l1": "32768,8,64", "reduction": {"l1i": 0.7}}]
    paired = "  times base, median of pairs"
    return {
        "list": sorted(
            {c.arguments[0] for c in COMMANDS.values() if c.program == "lockstep-bench"}
        ),
        "run fetch": {"comparisons": [
            comparison(what, {"instructions": 1000, "mispredicted_cold": branches},
                       {"instructions": 1060, "mispredicted_cold": fewer}, operation)
            for what in ("fetch", "update")]},
        "run payment": {"comparisons": [
            comparison(what, {"mispredicted": branches}, {"mispredicted": branches}, transaction,
                       teams={"in": 10, "out": 8})
            for what in ("payment", "mix4")]},
        "steps": measured(**{"fetch, 16 MB, 16 threads, base": 9, paired + " (not this)": 0,
                             "fetch, 16 MB, 16 threads, STEPS": 5, paired: 1.8}),
        "tpcc-steps": measured(**{"payment, 10 warehouses, packets, STEPS": 9, paired: 1.1}),
        "production-line": measured(**lines),
        "scan-policies": policies,
        "reports": measured(**{"4 staggered reports, pool of 25%: tables read": 1.5,
                               "  4 staggered cursors, the same": 3.7,
                               "8 reports at once : one, CPU": 1.3,
                               "32 reports at once : one, CPU": 2}),
        "answers": measured(**{"1024 reports of a type as one : one, CPU": 3,
                               "light fetches kept beside heavy reports": 0.97}),
        "qpipe": measured(**{"mix with sharing : without, throughput": 2,
                             "cost without overlap": 0.01}),
    }  # fmt: skip


class Evidence(unittest.TestCase):
    def run_with(self, results, *words):
        """Exit status, what it printed, the claims, and the commands that ran."""
        with tempfile.TemporaryDirectory() as place:
            build = pathlib.Path(place)
            (build / "bin").mkdir()
            for name in {command.program for command in COMMANDS.values()}:
                program = build / "bin" / name
                program.write_text(PROGRAM)
                program.chmod(0o755)
            (build / "bin/results.json").write_text(json.dumps(results))
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                status = evidence.main(
                    ["--build", place, "--json", f"{place}/claims.json", *words]
                )
            document = json.loads((build / "claims.json").read_text())
            self.page = (build / "evidence.html").read_text()
            calls = build / "bin/calls"
            ran = calls.read_text().splitlines() if calls.exists() else []
            self.assertEqual(document["broken"] > 0, status == 1)
            return status, printed.getvalue(), document["claims"], ran

    def test_all_is_as_marked(self):
        status, printed, claims, ran = self.run_with(made_up())
        self.assertEqual(status, 0, printed)
        self.assertEqual(len(claims), len(ROWS))
        self.assertEqual(len(ran), len(COMMANDS))
        for row, claim in zip(ROWS, claims, strict=True):
            self.assertEqual(claim["verdict"], row.mark, claim)
            self.assertIn(claim["place"], self.page)
        ratio = next(c["ratio"] for c in claims if c["place"] == "figure 5-6")
        self.assertAlmostEqual(ratio, 1.8 / 1.31)

    def test_a_claim_that_falls_is_an_error(self):
        results = made_up()
        results["reports"]["measurements"][2]["value"] = 7.5
        status, printed, claims, _ = self.run_with(results)
        self.assertEqual(status, 1)
        broken = [claim for claim in claims if claim["broken"]]
        self.assertEqual([c["place"] for c in broken], ["abstract"])
        self.assertEqual(broken[0]["verdict"], "not reached")
        self.assertIn("not reached (1.07): " + broken[0]["paper"], printed)
        self.assertEqual(self.page.count("<tr class=worse>"), 1)

    def test_an_order_that_falls_is_an_error(self):
        results = made_up()
        results["scan-policies"]["claims"][2]["holds"] = False
        status, printed, _, _ = self.run_with(results)
        self.assertEqual(status, 1)
        self.assertIn("orders of the policies", printed)

    def test_a_command_that_does_not_exist_is_an_error(self):
        results = made_up()
        results["list"].remove("qpipe")
        status, printed, claims, _ = self.run_with(results)
        self.assertEqual(status, 1)
        self.assertIn("lockstep-bench has no 'qpipe'", printed)
        lost = [c for c in claims if c["command"].startswith("lockstep-bench qpipe")]
        self.assertTrue(lost and all(c["verdict"] == "error" for c in lost))

    def test_a_figure_that_does_not_exist_is_an_error(self):
        for change, text in (
            (lambda r: r["qpipe"]["measurements"].pop(), "no measurement 'cost without overlap'"),
            (lambda r: r["scan-policies"]["claims"].pop(0), "no claim 'choices of relevance ...'"),
            (lambda r: r["run payment"]["comparisons"].pop(), "no field comparisons what=mix4"),
            (lambda r: r.pop("steps"), "status 1: it broke"),
        ):
            results = copy.deepcopy(made_up())
            change(results)
            status, printed, _, _ = self.run_with(results)
            self.assertEqual(status, 1, text)
            self.assertIn(text, printed)

    def test_the_budget_chooses(self):
        status, printed, claims, ran = self.run_with(made_up(), "--budget", "1")
        self.assertEqual(status, 0, printed)
        self.assertEqual(sorted(ran), ["run fetch", "scan-policies --json"])
        verdicts = {claim["verdict"] for claim in claims if "reports" in claim["command"]}
        self.assertEqual(verdicts, {"not run"})

    def test_a_document_alone(self):
        status, _, claims, ran = self.run_with(made_up(), "--paper", "blink")
        self.assertEqual(status, 0)
        self.assertEqual({claim["paper"] for claim in claims}, {ROWS[-5].paper})
        self.assertEqual(ran, ["reports --warehouses"])
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(evidence.main(["--paper", "nobody"]), 2)

    def test_the_table_is_whole(self):
        for row in ROWS:
            told = row.mark in (DOES_NOT_APPLY, CANNOT_TELL)
            self.assertTrue(row.reason if told else row.goal and row.read and row.command, row)
            self.assertEqual(bool(row.command), row.read is not None, row)
        self.assertEqual({row.command for row in ROWS} - {""}, set(COMMANDS))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
