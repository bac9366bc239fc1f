// wiredtiger.cc - WiredTiger: B-trees with versions in memory, snapshot isolation and a log.
#include <fmt/format.h>
#include <wiredtiger.h>

#include <cstring>

#include "threads/base/try.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

Result<void> check(int code, const char* what) {
    if (code == 0) [[likely]]
        return {};
    if (code == WT_ROLLBACK) return conflict(what);
    return engine_failed(what, code, wiredtiger_strerror(code));
}

WT_ITEM item_of(Slice s) {
    WT_ITEM item{};
    item.data = s.data();
    item.size = s.size();
    return item;
}
Slice slice_of(const WT_ITEM& item) { return {static_cast<const char*>(item.data), item.size}; }

class WiredTigerSession final : public Session {
public:
    ~WiredTigerSession() override {
        if (session_) session_->close(session_, nullptr);
    }
    Result<void> open(WT_CONNECTION* connection, const std::vector<std::string>& tables) {
        TRY(check(connection->open_session(connection, nullptr, "isolation=snapshot", &session_),
                  "wiredtiger: open_session"));
        for (const std::string& table : tables) {
            WT_CURSOR* cursor = nullptr;
            TRY(check(session_->open_cursor(session_, ("table:" + table).c_str(), nullptr, nullptr,
                                            &cursor),
                      "wiredtiger: open_cursor"));
            cursors_.push_back(cursor);
        }
        return {};
    }

    Result<void> begin(bool) override {
        return check(session_->begin_transaction(session_, nullptr),
                     "wiredtiger: begin_transaction");
    }
    Result<void> commit() override {
        return check(session_->commit_transaction(session_, nullptr),
                     "wiredtiger: commit_transaction");
    }
    void rollback() override { session_->rollback_transaction(session_, nullptr); }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access) override {
        WT_CURSOR* const cursor = at(table, key);
        const int code = cursor->search(cursor);
        if (code == WT_NOTFOUND) return std::optional<size_t>();
        TRY(check(code, "wiredtiger: search"));
        WT_ITEM value;
        TRY(check(cursor->get_value(cursor, &value), "wiredtiger: get_value"));
        std::memcpy(buffer.data(), value.data, std::min(value.size, buffer.size()));
        const size_t bytes = value.size;
        TRY(check(cursor->reset(cursor), "wiredtiger: reset"));
        return std::optional(bytes);
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        WT_CURSOR* const cursor = at(table, key);
        const WT_ITEM item = item_of(value);
        cursor->set_value(cursor, &item);
        return check(cursor->insert(cursor), "wiredtiger: insert");
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        WT_CURSOR* const cursor = at(table, key);
        const WT_ITEM item = item_of(value);
        cursor->set_value(cursor, &item);
        TRY(check(cursor->update(cursor), "wiredtiger: update"));
        return check(cursor->reset(cursor), "wiredtiger: reset");
    }
    Result<bool> erase(Table table, Slice key) override {
        WT_CURSOR* const cursor = at(table, key);
        int code = cursor->search(cursor);
        if (code == 0) code = cursor->remove(cursor);
        if (code == WT_NOTFOUND) return false;
        TRY(check(code, "wiredtiger: remove"));
        TRY(check(cursor->reset(cursor), "wiredtiger: reset"));
        return true;
    }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access,
                      Visitor fn) override {
        const bool up = order == Order::ascending;
        // An empty key is refused; a cursor without a key steps to the first one.
        const bool from_first = up && low.empty();
        WT_CURSOR* const cursor = from_first ? cursors_[table] : at(table, up ? low : high);
        const Result<void> done = walk(*cursor, low, high, up, from_first, fn);
        const int code = cursor->reset(cursor);
        if (!done) return done;
        return check(code, "wiredtiger: reset");
    }

private:
    // The table's cursor with this key, which must live until the next call on the cursor.
    WT_CURSOR* at(Table table, Slice key) {
        WT_CURSOR* const cursor = cursors_[table];
        key_ = item_of(key);
        cursor->set_key(cursor, &key_);
        return cursor;
    }
    static Result<void> walk(WT_CURSOR& cursor, Slice low, Slice high, bool up, bool from_first,
                             Visitor fn) {
        const auto step = [&] { return up ? cursor.next(&cursor) : cursor.prev(&cursor); };
        int exact = -1;
        int code = from_first ? 0 : cursor.search_near(&cursor, &exact);
        // It may stand before the range. A step back from `high` is a step into the range.
        if (code == 0 && (up ? exact < 0 : exact >= 0)) code = step();
        while (code == 0) {
            WT_ITEM key, value;
            TRY(check(cursor.get_key(&cursor, &key), "wiredtiger: get_key"));
            if (slice_of(key) < low || slice_of(key) >= high) return {};
            TRY(check(cursor.get_value(&cursor, &value), "wiredtiger: get_value"));
            if (!fn(slice_of(key), slice_of(value))) return {};
            code = step();
        }
        if (code == WT_NOTFOUND) return {};
        return check(code, "wiredtiger: cursor step");
    }

    WT_SESSION* session_ = nullptr;
    std::vector<WT_CURSOR*> cursors_;  // by table
    WT_ITEM key_{};
};

class WiredTiger final : public Engine {
public:
    explicit WiredTiger(const Setup& setup) : tables_(setup.tables) {}
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        auto engine = std::make_unique<WiredTiger>(setup);
        const std::string config = fmt::format(
            "create,cache_size={},session_max=64,log=(enabled=true,file_max=256MB),"
            "checkpoint=(log_size=256MB),transaction_sync=(enabled={},method=fsync)",
            setup.cache_bytes, setup.sync);
        TRY(check(
            wiredtiger_open(setup.directory.c_str(), nullptr, config.c_str(), &engine->connection_),
            "wiredtiger: wiredtiger_open"));
        TRY(engine->make_tables());
        return std::unique_ptr<Engine>(std::move(engine));
    }
    ~WiredTiger() override { (void)close(); }

    Result<void> run(unsigned sessions, Body body) override {
        return run_on_threads(sessions, body, [&]() -> Result<std::unique_ptr<Session>> {
            auto session = std::make_unique<WiredTigerSession>();
            TRY(session->open(connection_, tables_));
            return std::unique_ptr<Session>(std::move(session));
        });
    }
    Result<void> close() override {
        if (!connection_) return {};
        WT_CONNECTION* const connection = std::exchange(connection_, nullptr);
        return check(connection->close(connection, nullptr), "wiredtiger: close");
    }

private:
    Result<void> make_tables() {
        WT_SESSION* session = nullptr;
        TRY(check(connection_->open_session(connection_, nullptr, nullptr, &session),
                  "wiredtiger: open_session"));
        for (const std::string& table : tables_)
            TRY(check(
                session->create(session, ("table:" + table).c_str(), "key_format=u,value_format=u"),
                "wiredtiger: create"));
        return check(session->close(session, nullptr), "wiredtiger: session close");
    }

    WT_CONNECTION* connection_ = nullptr;
    const std::vector<std::string> tables_;
};

std::string version() {
    int major = 0, minor = 0, patch = 0;
    wiredtiger_version(&major, &minor, &patch);
    return fmt::format("{}.{}.{}", major, minor, patch);
}

}  // namespace

const Product kWiredTiger = {
    .name = "wiredtiger",
    .title = "WiredTiger",
    .package = "libwiredtiger-dev",
    .version = version,
    .settings =
        "B-tree tables, one cursor for each table and session, log and checkpoints every 256 "
        "MB of log; transaction_sync on or off",
    .isolation = "snapshot: write skew is possible (TPC-C has none)",
    .lost = "the commits that are still in the log buffer",
    .open = WiredTiger::open,
};

}  // namespace lockstep::peers
