"""Lockstep: an embeddable OLTP storage manager with B-trees, heaps, transactions and recovery.

    import lockstep

    with lockstep.open("first_steps.db") as store:
        cities = store.index("cities", create=True)
        cities["Lisbon"] = "Portugal"
        with store.transaction() as txn:
            txn.put(cities, "Porto", "Portugal")
"""

try:
    import lockstep._core
except ModuleNotFoundError as error:
    raise ImportError(
        f"the extension lockstep._core is not beside {__file__}: this is the source, or the build"
        " for another Python. Install the package: pip install ./tools/python",
        name=error.name,
    ) from error
lockstep._core.require_main_interpreter()
from . import _core
from ._aio import AsyncTransaction
from ._backup import read_backup, restore_backup, update_backup, verify_backup, verify_restore
from ._batch import Batch
from ._changes import Change, ChangeFeed, ChangePoint
from ._context import TransactionContext
from ._errors import (
    AlreadyExists,
    ArchiveFailed,
    BadArchive,
    BadArgument,
    BadBackup,
    BadOption,
    BadPath,
    BadVersion,
    Cancelled,
    ChangesLost,
    CorruptLog,
    CorruptPage,
    CorruptSuperblock,
    Deadlock,
    DuplicateKey,
    EndedByOperator,
    Error,
    Forked,
    IndexMismatch,
    InputOutputError,
    KeyFunctionMissing,
    KeyTooLong,
    LockRefused,
    LockTimeout,
    LogFull,
    LostWrite,
    NoSpace,
    NoSuchObject,
    NoSuchRecord,
    NotClosed,
    OutOfMemory,
    PoolFull,
    ReadOnly,
    RolledBack,
    SelfDeadlock,
    SnapshotTooOld,
    StoreClosed,
    StoreFailed,
    StoreLocked,
    Timeout,
    TooMany,
    TransactionAborting,
    TransactionEnded,
    TransactionTooOld,
    Unsupported,
    UserError,
    ValueTooLong,
    WrongKind,
    WrongThread,
    make_error,
)
from ._keys import I32, U8, U16, U32, U64, Key, Part, Value, pack_key, unpack_key
from ._objects import (
    BackupInfo,
    Heap,
    Index,
    ObjectInfo,
    PreparedInfo,
    RecordId,
    Savepoint,
    TransactionInfo,
)
from ._options import Access, Options, StepsOptions, TransactionOptions
from ._report import Report, ReportProgress, Table, Where
from ._scan import Cursor, Scan
from ._store import Store, open
from ._transaction import KeyFunction, Transaction

_core.set_types(make_error, RecordId, Index, Heap, U8, U16, U32, U64, I32)
__version__ = "0.2.0"
GID_BYTES_MAX = _core.GID_BYTES_MAX
KEY_BYTES_MAX = _core.KEY_BYTES_MAX
VALUE_BYTES_MAX = _core.VALUE_BYTES_MAX

__all__ = [
    "Access",
    "AlreadyExists",
    "ArchiveFailed",
    "AsyncTransaction",
    "BackupInfo",
    "BadArchive",
    "BadArgument",
    "BadBackup",
    "BadOption",
    "BadPath",
    "BadVersion",
    "Batch",
    "Cancelled",
    "Change",
    "ChangeFeed",
    "ChangePoint",
    "ChangesLost",
    "CorruptLog",
    "CorruptPage",
    "CorruptSuperblock",
    "Cursor",
    "Deadlock",
    "DuplicateKey",
    "EndedByOperator",
    "Error",
    "Forked",
    "GID_BYTES_MAX",
    "Heap",
    "I32",
    "Index",
    "IndexMismatch",
    "InputOutputError",
    "KEY_BYTES_MAX",
    "Key",
    "KeyFunction",
    "KeyFunctionMissing",
    "KeyTooLong",
    "LockRefused",
    "LockTimeout",
    "LogFull",
    "LostWrite",
    "NoSpace",
    "NoSuchObject",
    "NoSuchRecord",
    "NotClosed",
    "ObjectInfo",
    "Options",
    "OutOfMemory",
    "Part",
    "PoolFull",
    "PreparedInfo",
    "ReadOnly",
    "RecordId",
    "Report",
    "ReportProgress",
    "RolledBack",
    "Savepoint",
    "Scan",
    "SelfDeadlock",
    "SnapshotTooOld",
    "StepsOptions",
    "Store",
    "StoreClosed",
    "StoreFailed",
    "StoreLocked",
    "Table",
    "Timeout",
    "TooMany",
    "Transaction",
    "TransactionAborting",
    "TransactionContext",
    "TransactionEnded",
    "TransactionInfo",
    "TransactionOptions",
    "TransactionTooOld",
    "U16",
    "U32",
    "U64",
    "U8",
    "Unsupported",
    "UserError",
    "VALUE_BYTES_MAX",
    "Value",
    "ValueTooLong",
    "Where",
    "WrongKind",
    "WrongThread",
    "open",
    "pack_key",
    "read_backup",
    "restore_backup",
    "unpack_key",
    "update_backup",
    "verify_backup",
    "verify_restore",
]
