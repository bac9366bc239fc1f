"""The audit of tpcc_kill_test notices a lost row, and one that no terminal was told of."""

import struct
from collections import Counter

import pytest
from lockstep.cluster import OutcomeUnknown, ShardUnavailable
from tpcc_kill_test import Ledger, compare, trace_of

ORDERS = [struct.pack("<BIIIBBB", 0, 1, 2, customer, 5, 1, 0) for customer in range(4)]
TRACES = [trace_of(packet) for packet in ORDERS]


def told():
    """0 is acknowledged twice, 1 refused, 2 of unknown outcome."""
    ledger = Ledger()
    ledger.note(ORDERS[0])
    ledger.note(ORDERS[0])
    ledger.note(ORDERS[1], ShardUnavailable("down"))
    ledger.note(ORDERS[2], OutcomeUnknown("killed"))
    return ledger


def test_what_an_order_leaves():
    assert TRACES[3] == ("orders", 1, 2, 3, 5)
    assert trace_of(struct.pack("<BIIIBBB", 0, 1, 2, 3, 5, 1, 1)) is None  # it rolls back
    assert trace_of(b"\x03" + bytes(8)) is None  # a Delivery


def test_an_unknown_outcome_may_be_either():
    acknowledged = {TRACES[0]: 2}
    assert compare(Counter(acknowledged), told()) == 0
    assert compare(Counter({**acknowledged, TRACES[2]: 1}), told()) == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({TRACES[0]: 1}, "acknowledged, and not there"),
        ({TRACES[0]: 3}, "refused, or never begun"),
        ({TRACES[0]: 2, TRACES[1]: 1}, "refused, or never begun"),
        ({TRACES[0]: 2, TRACES[2]: 2}, "refused, or never begun"),
    ],
)
def test_a_lost_or_an_additional_row_is_noticed(rows, said):
    with pytest.raises(AssertionError, match=said):
        compare(Counter(rows), told())
