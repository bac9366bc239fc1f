// sqlite.cc - SQLite: SQL statements on tables WITHOUT ROWID, with a write-ahead log.
#include <fmt/format.h>
#include <sqlite3.h>

#include <cstring>
#include <mutex>

#include "threads/base/try.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

constexpr int kCheckpointPages = 8192;  // of 8 KB each: 64 MB of log between checkpoints

Result<void> check(int code, sqlite3* db, const char* what) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) [[likely]]
        return {};
    if (code == SQLITE_BUSY) return conflict(what);
    return engine_failed(what, code, db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

// A prepared statement; its bindings are cleared before each use.
class Statement {
public:
    Statement() = default;
    Statement(Statement&& other) noexcept
        : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)) {}
    Statement& operator=(Statement&&) = delete;
    ~Statement() { sqlite3_finalize(statement_); }

    Result<void> prepare(sqlite3* db, const std::string& sql) {
        db_ = db;
        return check(sqlite3_prepare_v3(db, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement_,
                                        nullptr),
                     db, "sqlite: prepare");
    }
    Statement& bind(int number, Slice value) {
        // A null pointer would be bound as NULL.
        sqlite3_bind_blob(statement_, number, value.empty() ? "" : value.data(),
                          static_cast<int>(value.size()), SQLITE_STATIC);
        return *this;
    }
    // True: there is a row.
    Result<bool> step(const char* what) {
        const int code = sqlite3_step(statement_);
        TRY(check(code, db_, what));
        return code == SQLITE_ROW;
    }
    Slice column(int number) const {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, number));
        return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, number))};
    }
    void reset() { sqlite3_reset(statement_); }

private:
    sqlite3* db_ = nullptr;
    sqlite3_stmt* statement_ = nullptr;
};

struct TableStatements {
    Statement get, insert, put, erase, scan_up, scan_down;

    Result<void> prepare(sqlite3* db, const std::string& t) {
        TRY(get.prepare(db, fmt::format("SELECT v FROM {} WHERE k = ?1", t)));
        TRY(insert.prepare(db, fmt::format("INSERT INTO {} VALUES (?1, ?2)", t)));
        TRY(put.prepare(db, fmt::format("UPDATE {} SET v = ?2 WHERE k = ?1", t)));
        TRY(erase.prepare(db, fmt::format("DELETE FROM {} WHERE k = ?1", t)));
        const std::string range =
            fmt::format("SELECT k, v FROM {} WHERE k >= ?1 AND k < ?2 ORDER BY k", t);
        TRY(scan_up.prepare(db, range));
        return scan_down.prepare(db, range + " DESC");
    }
};

class SqliteSession final : public Session {
public:
    explicit SqliteSession(std::mutex& writer) : writer_(writer, std::defer_lock) {}
    ~SqliteSession() override {
        tables_.clear();
        for (Statement* s : {&begin_, &commit_, &rollback_}) Statement(std::move(*s));
        sqlite3_close(db_);
    }

    Result<void> open(const Setup& setup) {
        const std::string file = setup.directory + "/peers.db";
        const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
        TRY(check(sqlite3_open_v2(file.c_str(), &db_, flags, nullptr), db_, "sqlite: open"));
        TRY(execute(pragmas(setup)));
        for (const std::string& table : setup.tables)
            TRY(
                execute(fmt::format("CREATE TABLE IF NOT EXISTS {} (k BLOB PRIMARY KEY, v BLOB NOT "
                                    "NULL) WITHOUT ROWID",
                                    table)));
        tables_.resize(setup.tables.size());
        for (size_t t = 0; t < tables_.size(); ++t) TRY(tables_[t].prepare(db_, setup.tables[t]));
        TRY(begin_.prepare(db_, "BEGIN"));
        TRY(commit_.prepare(db_, "COMMIT"));
        return rollback_.prepare(db_, "ROLLBACK");
    }

    Result<void> begin(bool writes) override {
        if (writes) writer_.lock();
        return once(begin_, "sqlite: BEGIN");
    }
    Result<void> commit() override {
        const Result<void> done = once(commit_, "sqlite: COMMIT");
        if (done && writer_.owns_lock()) writer_.unlock();
        return done;
    }
    void rollback() override {
        (void)once(rollback_, "sqlite: ROLLBACK");
        if (writer_.owns_lock()) writer_.unlock();
    }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access) override {
        Statement& get = tables_[table].get.bind(1, key);
        const Result<bool> found = get.step("sqlite: SELECT");
        std::optional<size_t> bytes;
        if (found.has_value() && *found) {
            const Slice value = get.column(0);
            bytes = value.size();
            std::memcpy(buffer.data(), value.data(), std::min(value.size(), buffer.size()));
        }
        get.reset();
        if (!found.has_value()) return std::unexpected(found.error());
        return bytes;
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        return once(tables_[table].insert.bind(1, key).bind(2, value), "sqlite: INSERT");
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        return once(tables_[table].put.bind(1, key).bind(2, value), "sqlite: UPDATE");
    }
    Result<bool> erase(Table table, Slice key) override {
        TRY(once(tables_[table].erase.bind(1, key), "sqlite: DELETE"));
        return sqlite3_changes(db_) == 1;
    }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access,
                      Visitor fn) override {
        TableStatements& t = tables_[table];
        Statement& rows = order == Order::ascending ? t.scan_up : t.scan_down;
        rows.bind(1, low).bind(2, high);
        Result<bool> row = rows.step("sqlite: SELECT");
        while (row.has_value() && *row && fn(rows.column(0), rows.column(1)))
            row = rows.step("sqlite: SELECT");
        rows.reset();
        if (!row.has_value()) return std::unexpected(row.error());
        return {};
    }

private:
    static std::string pragmas(const Setup& setup) {
        return fmt::format(
            "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = {};"
            "PRAGMA cache_size = -{}; PRAGMA locking_mode = {}; PRAGMA temp_store = MEMORY;"
            "PRAGMA wal_autocheckpoint = {};",
            setup.sync ? "FULL" : "OFF", setup.cache_bytes / 1024 / setup.workers,
            setup.workers == 1 ? "EXCLUSIVE" : "NORMAL", kCheckpointPages);
    }
    Result<void> execute(const std::string& sql) {
        return check(sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr), db_,
                     "sqlite: open");
    }
    static Result<void> once(Statement& statement, const char* what) {
        const Result<bool> done = statement.step(what);
        statement.reset();
        if (!done.has_value()) return std::unexpected(done.error());
        return {};
    }

    sqlite3* db_ = nullptr;
    std::vector<TableStatements> tables_;
    Statement begin_, commit_, rollback_;
    std::unique_lock<std::mutex> writer_;
};

class Sqlite final : public Engine {
public:
    explicit Sqlite(const Setup& setup) : setup_(setup) {}
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        // The first connection of all makes the tables; the others find them.
        std::mutex nobody;
        TRY(SqliteSession(nobody).open(setup));
        return std::unique_ptr<Engine>(new Sqlite(setup));
    }

    Result<void> run(unsigned sessions, Body body) override {
        return run_on_threads(sessions, body, [&]() -> Result<std::unique_ptr<Session>> {
            // One after the other: opening changes the journal mode.
            const std::lock_guard opens(opening_);
            auto session = std::make_unique<SqliteSession>(writer_);
            TRY(session->open(setup_));
            return std::unique_ptr<Session>(std::move(session));
        });
    }
    Result<void> close() override { return {}; }  // with the last session

private:
    const Setup setup_;
    // A writer that finds another at work would sleep for milliseconds in SQLite.
    std::mutex writer_, opening_;
};

std::string version() { return sqlite3_libversion(); }

}  // namespace

const Product kSqlite = {
    .name = "sqlite",
    .title = "SQLite",
    .package = "libsqlite3-dev",
    .version = version,
    .settings =
        "WAL, pages of 8 KB, tables WITHOUT ROWID, prepared statements, checkpoints every "
        "64 MB; EXCLUSIVE locking with one worker; synchronous FULL or OFF",
    .isolation = "serializable: one writer at a time",
    .lost = "after a crash of the process nothing; a power cut can also damage the file",
    .open = Sqlite::open,
};

}  // namespace lockstep::peers
