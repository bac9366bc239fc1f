// lmdb.cc - LMDB: a memory-mapped copy-on-write B-tree with one writer at a time.
#include <lmdb.h>

#include <cstring>

#include "threads/base/try.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

// Address space, not memory: more than any measurement fills.
constexpr size_t kMapBytes = 64ull << 30;
constexpr unsigned kReadersMax = 126;

Result<void> check(int code, const char* what) {
    if (code != MDB_SUCCESS) [[unlikely]]
        return engine_failed(what, code, mdb_strerror(code));
    return {};
}

MDB_val value_of(Slice s) { return {s.size(), const_cast<char*>(s.data())}; }
Slice slice_of(const MDB_val& v) { return {static_cast<const char*>(v.mv_data), v.mv_size}; }

class LmdbSession final : public Session {
public:
    LmdbSession(MDB_env* env, const std::vector<MDB_dbi>& tables) : env_(env), tables_(tables) {}
    ~LmdbSession() override {
        if (reader_) mdb_txn_abort(reader_);
    }

    Result<void> begin(bool writes) override {
        writes_ = writes;
        if (writes) return check(mdb_txn_begin(env_, nullptr, 0, &txn_), "lmdb: mdb_txn_begin");
        if (reader_) TRY(check(mdb_txn_renew(reader_), "lmdb: mdb_txn_renew"));
        else TRY(check(mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_), "lmdb: mdb_txn_begin"));
        txn_ = reader_;
        return {};
    }
    Result<void> commit() override {
        if (writes_) return check(mdb_txn_commit(txn_), "lmdb: mdb_txn_commit");
        mdb_txn_reset(txn_);
        return {};
    }
    void rollback() override {
        if (writes_) mdb_txn_abort(txn_);
        else mdb_txn_reset(txn_);
    }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access) override {
        MDB_val k = value_of(key), v;
        const int code = mdb_get(txn_, tables_[table], &k, &v);
        if (code == MDB_NOTFOUND) return std::optional<size_t>();
        TRY(check(code, "lmdb: mdb_get"));
        std::memcpy(buffer.data(), v.mv_data, std::min(v.mv_size, buffer.size()));
        return std::optional(v.mv_size);
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        return put(table, key, value);
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        MDB_val k = value_of(key), v = value_of(value);
        return check(mdb_put(txn_, tables_[table], &k, &v, 0), "lmdb: mdb_put");
    }
    Result<bool> erase(Table table, Slice key) override {
        MDB_val k = value_of(key);
        const int code = mdb_del(txn_, tables_[table], &k, nullptr);
        if (code == MDB_NOTFOUND) return false;
        TRY(check(code, "lmdb: mdb_del"));
        return true;
    }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access,
                      Visitor fn) override {
        MDB_cursor* cursor = nullptr;
        TRY(check(mdb_cursor_open(txn_, tables_[table], &cursor), "lmdb: mdb_cursor_open"));
        const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> closes(cursor, mdb_cursor_close);
        const bool up = order == Order::ascending;
        MDB_val k = value_of(up ? low : high), v;
        // An empty key is refused.
        int code = mdb_cursor_get(cursor, &k, &v, k.mv_size == 0 ? MDB_FIRST : MDB_SET_RANGE);
        // `high` itself is outside; what stands before it is the last of the range.
        if (!up) code = mdb_cursor_get(cursor, &k, &v, code == MDB_SUCCESS ? MDB_PREV : MDB_LAST);
        while (code == MDB_SUCCESS && slice_of(k) >= low && slice_of(k) < high) {
            if (!fn(slice_of(k), slice_of(v))) return {};
            code = mdb_cursor_get(cursor, &k, &v, up ? MDB_NEXT : MDB_PREV);
        }
        if (code != MDB_NOTFOUND) return check(code, "lmdb: mdb_cursor_get");
        return {};
    }

private:
    MDB_env* const env_;
    const std::vector<MDB_dbi>& tables_;
    MDB_txn* txn_ = nullptr;
    MDB_txn* reader_ = nullptr;  // kept for the next transaction that only reads
    bool writes_ = false;
};

class Lmdb final : public Engine {
public:
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        auto engine = std::make_unique<Lmdb>();
        TRY(engine->open_tables(setup));
        return std::unique_ptr<Engine>(std::move(engine));
    }
    ~Lmdb() override { (void)close(); }

    Result<void> run(unsigned sessions, Body body) override {
        return run_on_threads(sessions, body, [&]() -> Result<std::unique_ptr<Session>> {
            return std::unique_ptr<Session>(new LmdbSession(env_, tables_));
        });
    }
    Result<void> close() override {
        if (!env_) return {};
        const int code = mdb_env_sync(env_, 1);
        mdb_env_close(env_);
        env_ = nullptr;
        return check(code, "lmdb: mdb_env_sync");
    }

private:
    Result<void> open_tables(const Setup& setup) {
        TRY(check(mdb_env_create(&env_), "lmdb: mdb_env_create"));
        TRY(check(mdb_env_set_mapsize(env_, kMapBytes), "lmdb: mdb_env_set_mapsize"));
        TRY(check(mdb_env_set_maxreaders(env_, kReadersMax), "lmdb: mdb_env_set_maxreaders"));
        TRY(check(mdb_env_set_maxdbs(env_, static_cast<MDB_dbi>(setup.tables.size())),
                  "lmdb: mdb_env_set_maxdbs"));
        unsigned flags = MDB_NOTLS | MDB_NORDAHEAD;
        // A loaded file stays as small as its content only without a writable map.
        if (setup.loads) flags |= MDB_NOSYNC;
        else if (!setup.sync) flags |= MDB_NOSYNC | MDB_WRITEMAP;
        TRY(check(mdb_env_open(env_, setup.directory.c_str(), flags, 0644), "lmdb: mdb_env_open"));
        MDB_txn* txn = nullptr;
        TRY(check(mdb_txn_begin(env_, nullptr, 0, &txn), "lmdb: mdb_txn_begin"));
        for (const std::string& name : setup.tables) {
            MDB_dbi table = 0;
            const int code = mdb_dbi_open(txn, name.c_str(), MDB_CREATE, &table);
            if (code != MDB_SUCCESS) mdb_txn_abort(txn);
            TRY(check(code, "lmdb: mdb_dbi_open"));
            tables_.push_back(table);
        }
        return check(mdb_txn_commit(txn), "lmdb: mdb_txn_commit");
    }

    MDB_env* env_ = nullptr;
    std::vector<MDB_dbi> tables_;
};

std::string version() {
    int major = 0, minor = 0, patch = 0;
    mdb_version(&major, &minor, &patch);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

const Product kLmdb = {
    .name = "lmdb",
    .title = "LMDB",
    .package = "liblmdb-dev",
    .version = version,
    .settings =
        "MDB_NORDAHEAD; without sync MDB_NOSYNC and MDB_WRITEMAP; no cache of its own, the "
        "system's page cache serves",
    .isolation = "serializable: one writer at a time",
    .lost =
        "after a crash of the process nothing; after a power cut all since the last sync, and "
        "maybe the file",
    .open = Lmdb::open,
};

}  // namespace lockstep::peers
