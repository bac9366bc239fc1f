#!/usr/bin/env python3
"""coherence_test - tables, bounds and projection of tools/coherence and tools/scaling, from counts
that are made up. The counting itself is a part of tools/tests.py."""

import pathlib
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path[:0] = [str(TOOLS / "coherence"), str(TOOLS / "scaling")]

import coherence  # noqa: E402
import model  # noqa: E402
from picture import stacked_bars  # noqa: E402


def row(structure: str, transfers: int, **more) -> dict:
    return {"structure": structure, "field": "", "offset": 0, "object": "", "pc": 1, "read": 0,
            "write": transfers, "upgrade": 0, "false": 0, "prefetch": 0} | more


def run_of(workers: int, *rows: dict, lines: tuple = ()) -> dict:
    return coherence.summary({"workers": workers, "mix": "mix", "transactions": 100,
                              "load_address": 0, "lines": list(lines), "rows": list(rows)})


class Counts(unittest.TestCase):
    def test_rows_of_one_name_add_up(self):
        run = run_of(4, row("log", 300, field="tail"), row("log", 100, field="tail", read=50),
                     row("page", 10), row("page", 20, offset=1))
        self.assertEqual(run["transfers"]["log: tail"]["all"], 4.5)
        self.assertEqual(run["transfers"]["page, first line"]["all"], 0.1)
        self.assertEqual(run["transfers"]["page, the rest"]["all"], 0.2)

    def test_the_table_ends_with_the_sum(self):
        runs = [run_of(2, row("a", 100), row("tiny", 2)), run_of(4, row("a", 300), row("b", 50))]
        lines = coherence.table(runs).splitlines()
        self.assertEqual(lines[2], "| a | 1.0 | 3.0 | 0% |")
        self.assertEqual(lines[-1], "| **sum** | **1.0** | **3.5** | |")

    def test_the_picture_has_a_bar_for_each_run(self):
        drawn = stacked_bars([run_of(2, row("a", 100)), run_of(4, row("<b>", 300))])
        self.assertIn("2 workers", drawn)
        self.assertIn("&lt;b&gt;", drawn)


class Bounds(unittest.TestCase):
    def test_a_line_above_its_bound_is_named(self):
        run = run_of(4, row("log", 400, field="tail"), row("a", 300))
        found = coherence.offences([run], {"mix, 4 workers": {"log: tail": 3.9, "a": 3.0}})
        self.assertEqual(len(found), 1)
        self.assertIn("'log: tail' moves 4.00", found[0])

    def test_a_new_shared_line_is_named(self):
        run = run_of(4, row("other", 60))
        self.assertIn("'other'", coherence.offences([run], {"mix, 4 workers": {}})[0])

    def test_a_run_without_bounds_is_no_success(self):
        self.assertTrue(coherence.offences([run_of(4)], {}))

    def test_bounds_only_fall(self):
        bounds = coherence.lower([run_of(4, row("a", 200), row("b", 1000))], {})
        self.assertEqual(bounds, {"mix, 4 workers": {"a": 2.8, "b": 12.8}})
        bounds = coherence.lower([run_of(4, row("a", 400), row("b", 500))], bounds)
        self.assertEqual(bounds, {"mix, 4 workers": {"a": 2.8, "b": 6.55}})
        bounds = coherence.lower([run_of(4, row("a", 10), row("c", 500))], bounds)
        self.assertEqual(bounds, {"mix, 4 workers": {}})


class Projection(unittest.TestCase):
    def test_one_hot_line_is_the_limit(self):
        tail = {"structure": "log", "field": "tail", "transfers": 1400}
        run = run_of(16, row("log", 1400, field="tail"), lines=(tail,))
        _, station, load = model.at(model.counts_of(run), 16, 0.08, 11.5)
        self.assertEqual(station, "log: tail")
        self.assertGreater(load, 0.5)
        # However many cores: the line serves one transfer at a time.
        rate = model.at(model.counts_of(run), 64, 0.08, 11.5)[0]
        self.assertLess(rate, 1 / (14 * 0.08))
        self.assertGreater(rate, 0.5 / (14 * 0.08))

    def test_without_transfers_only_the_data_slow_it_down(self):
        counts = model.counts_of(run_of(16))
        one = model.at(counts, 1, 0.08, 11.5)[0]
        self.assertAlmostEqual(model.at(counts, 2, 0.08, 11.5)[0] / one, 2.0, delta=0.05)
        self.assertLess(model.at(counts, 64, 0.08, 11.5)[0] / one, 64 / 1.5)

    def test_more_transfers_give_less(self):
        few, many = (model.at(model.counts_of(run_of(8, row("a", n))), 8, 0.08, 11.5)[0]
                     for n in (1000, 8000))
        self.assertGreater(few, many)

    def test_the_nearest_run_counts(self):
        runs = [run_of(4, row("a", 100)), run_of(16, row("a", 900))]
        self.assertEqual(model.nearest(runs, 2).workers, 4)
        self.assertEqual(model.nearest(runs, 64).workers, 16)


if __name__ == "__main__":
    unittest.main()
