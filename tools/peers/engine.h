// engine.h - a storage engine as the workloads see it: ordered tables of byte strings, and
// transactions on them.
//
// Concepts   One source file for each engine derives Engine and Session. Nothing else of the
//            program knows which engine it drives. memcmp orders the keys.
//            An engine may refuse a transaction because of another one: a deadlock, or a change of
//            what was read. It returns ErrorCode::deadlock then. The caller rolls back and repeats
//            the transaction. Every other error ends the measurement.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/function_ref.h>
#include <lockstep/record.h>
#include <lockstep/result.h>

namespace lockstep::peers {

// The number of a table: its place in Setup::tables.
using Table = uint8_t;

enum class Order : uint8_t { ascending, descending };

// Greater than every key of the workloads: an open upper bound.
inline constexpr Slice kKeyEnd = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";

// How an engine is opened. The directory exists; it is empty, or holds the same tables.
struct Setup {
    std::string directory;
    std::vector<std::string> tables;
    uint64_t cache_bytes = 0;
    unsigned workers = 1;
    // A commit returns when it is on the disk. Else the engine may lose the latest commits.
    bool sync = false;
    // The tables are being filled: what is committed must be on the disk only after close().
    bool loads = false;
};

// What one worker uses; not to be shared. At most one transaction at a time.
class Session {
public:
    virtual ~Session() = default;

    // `writes`: false promises that the transaction changes nothing.
    virtual Result<void> begin(bool writes) = 0;
    virtual Result<void> commit() = 0;
    virtual void rollback() = 0;

    // Copies the value, or as much of it as fits. The value's full length, or nothing if there is
    // no such key. Access::write says that the transaction will change the record.
    virtual Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                              Access access) = 0;
    // Adds a record whose key is new.
    virtual Result<void> insert(Table table, Slice key, Slice value) = 0;
    // Replaces the value of a record that exists.
    virtual Result<void> put(Table table, Slice key, Slice value) = 0;
    // False: there is no such key.
    virtual Result<bool> erase(Table table, Slice key) = 0;
    // Calls fn for the records with low <= key < high (empty `low`: from the first), until it
    // returns false. It must not use the session; the bytes are valid only within it.
    using Visitor = FunctionRef<bool(Slice key, Slice value)>;
    virtual Result<void> scan(Table table, Slice low, Slice high, Order order, Access access,
                              Visitor fn) = 0;
};

class Engine {
public:
    virtual ~Engine() = default;

    // Calls body(i, session) for i = 0 .. sessions - 1, all at once, on workers of the engine or on
    // kernel threads. Blocks. The first error of a body is returned.
    using Body = FunctionRef<Result<void>(unsigned number, Session& session)>;
    virtual Result<void> run(unsigned sessions, Body body) = 0;
    // Everything that was committed is then in the directory.
    virtual Result<void> close() = 0;
};

// A kind of engine, with what a reader of the tables must know.
struct Product {
    const char* name;     // as in --engines
    const char* title;    // as in tables
    const char* package;  // Debian's package that it was built with
    std::string (*version)();
    const char* settings;
    const char* isolation;
    const char* lost;  // what a crash may take without a sync at each commit
    Result<std::unique_ptr<Engine>> (*open)(const Setup& setup);
};

// All that this program was built with, Lockstep first.
std::span<const Product> products();
// The others, with the packages that are missing.
struct Missing {
    const char* name;
    const char* package;
};
std::span<const Missing> missing_products();

extern const Product kLockstep, kLmdb, kSqlite, kBerkeleyDb, kRocksDb, kWiredTiger;

// For engines that take any kernel thread: run() with a thread and a session of its own for each
// body.
Result<void> run_on_threads(unsigned sessions, Engine::Body body,
                            FunctionRef<Result<std::unique_ptr<Session>>()> make_session);

// The error for a call of the engine that failed: `what` names engine and call, `code` is the
// engine's own. Prints `text`, the engine's words for it, on stderr.
[[gnu::cold]] Unexpected engine_failed(const char* what, int code, const char* text);
// The error for a transaction that must be repeated.
[[gnu::cold]] Unexpected conflict(const char* what);

}  // namespace lockstep::peers
