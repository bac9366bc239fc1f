"""leaving - the ways in which a function of the application can end without a result."""

import asyncio
import sys


class Unprintable(BaseException):
    def __repr__(self):
        raise SystemExit("repr")


def _next():
    return next(iter(()))


def _raise(error):
    def work():
        raise error

    return work


#: By name. None of them is an error that an answer can carry as it is.
WAYS = {
    "sys.exit": lambda: sys.exit(3),
    "StopIteration": _next,
    "StopAsyncIteration": _raise(StopAsyncIteration()),
    "KeyboardInterrupt": _raise(KeyboardInterrupt()),
    "GeneratorExit": _raise(GeneratorExit()),
    "CancelledError": _raise(asyncio.CancelledError()),
    "BaseException": _raise(BaseException("base")),
    "BaseExceptionGroup": _raise(BaseExceptionGroup("group", [SystemExit(1)])),
    "Unprintable": _raise(Unprintable()),
}
