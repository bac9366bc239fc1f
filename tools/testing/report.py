"""report - what `ctest --output-junit` tells of tests."""

import dataclasses
import pathlib
import xml.etree.ElementTree as ElementTree


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    seconds: float
    failed: bool


def cases(report: pathlib.Path) -> list[Case]:
    """The tests of a report, those that were skipped among them."""
    return [
        Case(
            # GoogleTest appends the bytes of a parameter; addresses among them change.
            str(test.get("name")).split("  # GetParam()")[0],
            float(test.get("time") or 0),
            test.get("status") == "fail",
        )
        for test in ElementTree.parse(report).iter("testcase")
    ]


def slowest(found: list[Case], count: int) -> list[Case]:
    return sorted(found, key=lambda case: -case.seconds)[:count]
