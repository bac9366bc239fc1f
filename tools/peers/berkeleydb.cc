// berkeleydb.cc - Berkeley DB 5.3: B-trees with page locks and a write-ahead log.
#include <db.h>

#include <atomic>
#include <cstring>

#include "threads/base/try.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

constexpr uint32_t kPageBytes = 8192;
constexpr uint32_t kLogBufferBytes = 32u << 20;
constexpr uint32_t kLogFileBytes = 256u << 20;
constexpr uint32_t kLocksMax = 200'000;
constexpr uint32_t kCheckpointKilobytes = 256u << 10;  // of log
constexpr uint64_t kCommitsBetweenLooks = 512;
constexpr uint64_t kGigabyte = 1ull << 30;

Result<void> check(int code, const char* what) {
    if (code == 0) [[likely]]
        return {};
    if (code == DB_LOCK_DEADLOCK || code == DB_LOCK_NOTGRANTED) return conflict(what);
    return engine_failed(what, code, db_strerror(code));
}

DBT to_read(Slice s) {
    DBT dbt{};
    dbt.data = const_cast<char*>(s.data());
    dbt.size = static_cast<uint32_t>(s.size());
    return dbt;
}
Slice slice_of(const DBT& dbt) { return {static_cast<const char*>(dbt.data), dbt.size}; }

class BerkeleySession final : public Session {
public:
    BerkeleySession(DB_ENV* env, const std::vector<DB*>& tables) : env_(env), tables_(tables) {}

    Result<void> begin(bool) override {
        return check(env_->txn_begin(env_, nullptr, &txn_, 0), "berkeleydb: txn_begin");
    }
    Result<void> commit() override {
        DB_TXN* const txn = std::exchange(txn_, nullptr);
        TRY(check(txn->commit(txn, 0), "berkeleydb: commit"));
        // Nothing else makes checkpoints, and without them the log grows for ever.
        if (++commits_ % kCommitsBetweenLooks != 0) return {};
        return check(env_->txn_checkpoint(env_, kCheckpointKilobytes, 0, 0),
                     "berkeleydb: txn_checkpoint");
    }
    void rollback() override {
        DB_TXN* const txn = std::exchange(txn_, nullptr);
        if (txn) txn->abort(txn);
    }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access access) override {
        DBT k = to_read(key), v{};
        v.data = value_;
        v.ulen = sizeof(value_);
        v.flags = DB_DBT_USERMEM;
        DB* const db = tables_[table];
        const int code = db->get(db, txn_, &k, &v, access == Access::read ? 0 : DB_RMW);
        if (code == DB_NOTFOUND) return std::optional<size_t>();
        TRY(check(code, "berkeleydb: get"));
        std::memcpy(buffer.data(), value_, std::min<size_t>(v.size, buffer.size()));
        return std::optional<size_t>(v.size);
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        return put(table, key, value);
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        DBT k = to_read(key), v = to_read(value);
        DB* const db = tables_[table];
        return check(db->put(db, txn_, &k, &v, 0), "berkeleydb: put");
    }
    Result<bool> erase(Table table, Slice key) override {
        DBT k = to_read(key);
        DB* const db = tables_[table];
        const int code = db->del(db, txn_, &k, 0);
        if (code == DB_NOTFOUND) return false;
        TRY(check(code, "berkeleydb: del"));
        return true;
    }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access access,
                      Visitor fn) override {
        DB* const db = tables_[table];
        DBC* cursor = nullptr;
        TRY(check(db->cursor(db, txn_, &cursor, 0), "berkeleydb: cursor"));
        const Result<void> done = walk(*cursor, low, high, order == Order::ascending,
                                       access == Access::read ? 0 : DB_RMW, fn);
        const int code = cursor->close(cursor);
        if (!done) return done;
        return check(code, "berkeleydb: cursor close");
    }

private:
    Result<void> walk(DBC& cursor, Slice low, Slice high, bool up, uint32_t lock, Visitor fn) {
        // The key is in and out, so the bound is copied to where the cursor's keys come.
        const Slice bound = up ? low : high;
        std::memcpy(key_, bound.data(), bound.size());
        DBT k{}, v{};
        k.data = key_;
        k.size = static_cast<uint32_t>(bound.size());
        k.ulen = sizeof(key_);
        v.data = value_;
        v.ulen = sizeof(value_);
        k.flags = v.flags = DB_DBT_USERMEM;
        int code =
            cursor.get(&cursor, &k, &v, (k.size == 0 ? DB_FIRST : DB_SET_RANGE) | (up ? lock : 0));
        if (!up && (code == 0 || code == DB_NOTFOUND))
            code = cursor.get(&cursor, &k, &v, (code == 0 ? DB_PREV : DB_LAST) | lock);
        while (code == 0 && slice_of(k) >= low && slice_of(k) < high) {
            if (!fn(slice_of(k), slice_of(v))) return {};
            code = cursor.get(&cursor, &k, &v, (up ? DB_NEXT : DB_PREV) | lock);
        }
        if (code == DB_NOTFOUND) return {};
        return check(code, "berkeleydb: cursor get");
    }

    DB_ENV* const env_;
    const std::vector<DB*>& tables_;
    DB_TXN* txn_ = nullptr;
    uint64_t commits_ = 0;
    char key_[64], value_[4096];
};

class BerkeleyDb final : public Engine {
public:
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        auto engine = std::make_unique<BerkeleyDb>();
        TRY(engine->open_environment(setup));
        for (const std::string& table : setup.tables) TRY(engine->open_table(table));
        return std::unique_ptr<Engine>(std::move(engine));
    }
    ~BerkeleyDb() override { (void)close(); }

    Result<void> run(unsigned sessions, Body body) override {
        return run_on_threads(sessions, body, [&]() -> Result<std::unique_ptr<Session>> {
            return std::unique_ptr<Session>(new BerkeleySession(env_, tables_));
        });
    }
    Result<void> close() override {
        if (!env_) return {};
        int code = env_->txn_checkpoint(env_, 0, 0, DB_FORCE);
        for (DB* db : tables_)
            if (const int closed = db->close(db, 0); code == 0) code = closed;
        tables_.clear();
        if (const int closed = env_->close(env_, 0); code == 0) code = closed;
        env_ = nullptr;
        return check(code, "berkeleydb: close");
    }

private:
    Result<void> open_environment(const Setup& setup) {
        TRY(check(db_env_create(&env_, 0), "berkeleydb: db_env_create"));
        DB_ENV* const e = env_;
        const uint64_t cache = setup.cache_bytes;
        TRY(check(e->set_cachesize(e, static_cast<uint32_t>(cache / kGigabyte),
                                   static_cast<uint32_t>(cache % kGigabyte), 1),
                  "berkeleydb: set_cachesize"));
        TRY(check(e->set_lg_bsize(e, kLogBufferBytes), "berkeleydb: set_lg_bsize"));
        TRY(check(e->set_lg_max(e, kLogFileBytes), "berkeleydb: set_lg_max"));
        TRY(check(e->set_lk_max_locks(e, kLocksMax), "berkeleydb: set_lk_max_locks"));
        TRY(check(e->set_lk_max_objects(e, kLocksMax), "berkeleydb: set_lk_max_objects"));
        TRY(check(e->set_lk_detect(e, DB_LOCK_MINWRITE), "berkeleydb: set_lk_detect"));
        TRY(check(e->log_set_config(e, DB_LOG_AUTO_REMOVE, 1), "berkeleydb: log_set_config"));
        if (!setup.sync) TRY(check(e->set_flags(e, DB_TXN_NOSYNC, 1), "berkeleydb: set_flags"));
        return check(e->open(e, setup.directory.c_str(),
                             DB_CREATE | DB_INIT_TXN | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL |
                                 DB_THREAD | DB_PRIVATE | DB_RECOVER,
                             0),
                     "berkeleydb: environment open");
    }
    Result<void> open_table(const std::string& name) {
        DB* db = nullptr;
        TRY(check(db_create(&db, env_, 0), "berkeleydb: db_create"));
        tables_.push_back(db);
        TRY(check(db->set_pagesize(db, kPageBytes), "berkeleydb: set_pagesize"));
        return check(db->open(db, nullptr, (name + ".db").c_str(), nullptr, DB_BTREE,
                              DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0),
                     "berkeleydb: open");
    }

    DB_ENV* env_ = nullptr;
    std::vector<DB*> tables_;
};

std::string version() {
    int major = 0, minor = 0, patch = 0;
    db_version(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

const Product kBerkeleyDb = {
    .name = "berkeleydb",
    .title = "Berkeley DB",
    .package = "libdb5.3-dev",
    .version = version,
    .settings =
        "DB_PRIVATE, B-trees with pages of 8 KB, log buffer of 32 MB, checkpoints every 256 "
        "MB of log, DB_LOCK_MINWRITE; without sync DB_TXN_NOSYNC",
    .isolation = "serializable: locks on pages",
    .lost = "the commits that are still in the log buffer",
    .open = BerkeleyDb::open,
};

}  // namespace lockstep::peers
