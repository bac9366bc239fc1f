// rocksdb.cc - RocksDB's TransactionDB: an LSM tree with locks on keys.
#include <rocksdb/cache.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/transaction_db.h>
#include <rocksdb/version.h>

#include <cstring>

#include "threads/base/try.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

constexpr size_t kMemtableBytes = 64u << 20;
constexpr int kBackgroundJobs = 2;
constexpr int kBloomBits = 10;

Result<void> check(const rocksdb::Status& status, const char* what) {
    if (status.ok()) [[likely]]
        return {};
    if (status.IsBusy() || status.IsTimedOut() || status.IsTryAgain()) return conflict(what);
    return engine_failed(what, static_cast<int>(status.code()), status.ToString().c_str());
}

// A null pointer is refused.
rocksdb::Slice to_rocks(Slice s) { return {s.empty() ? "" : s.data(), s.size()}; }
Slice from_rocks(const rocksdb::Slice& s) { return {s.data(), s.size()}; }

using Families = std::vector<rocksdb::ColumnFamilyHandle*>;

class RocksSession final : public Session {
public:
    RocksSession(rocksdb::TransactionDB& db, const Families& tables, bool sync)
        : db_(db), tables_(tables) {
        write_.sync = sync;
        transaction_.deadlock_detect = true;
    }

    Result<void> begin(bool) override {
        // The object of the last transaction is used again.
        txn_.reset(db_.BeginTransaction(write_, transaction_, txn_.release()));
        return {};
    }
    Result<void> commit() override { return check(txn_->Commit(), "rocksdb: Commit"); }
    void rollback() override { (void)txn_->Rollback(); }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access access) override {
        value_.Reset();
        const auto status = access == Access::read
                                ? txn_->Get(read_, tables_[table], to_rocks(key), &value_)
                                : txn_->GetForUpdate(read_, tables_[table], to_rocks(key), &value_);
        if (status.IsNotFound()) return std::optional<size_t>();
        TRY(check(status, "rocksdb: Get"));
        std::memcpy(buffer.data(), value_.data(), std::min(value_.size(), buffer.size()));
        return std::optional(value_.size());
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        return put(table, key, value);
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        return check(txn_->Put(tables_[table], to_rocks(key), to_rocks(value)), "rocksdb: Put");
    }
    // With the key locked, so that two transactions cannot both find it.
    Result<bool> erase(Table table, Slice key) override {
        value_.Reset();
        const auto found = txn_->GetForUpdate(read_, tables_[table], to_rocks(key), &value_);
        if (found.IsNotFound()) return false;
        TRY(check(found, "rocksdb: GetForUpdate"));
        TRY(check(txn_->Delete(tables_[table], to_rocks(key)), "rocksdb: Delete"));
        return true;
    }
    // Records are not locked: the caller gets or erases those that it changes.
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access,
                      Visitor fn) override {
        const rocksdb::Slice begin = to_rocks(low), end = to_rocks(high);
        rocksdb::ReadOptions range;
        range.iterate_lower_bound = &begin;
        range.iterate_upper_bound = &end;
        const std::unique_ptr<rocksdb::Iterator> rows(txn_->GetIterator(range, tables_[table]));
        const bool up = order == Order::ascending;
        if (up) rows->Seek(begin);
        else rows->SeekForPrev(end);
        // A transaction's own writes may lie outside the bounds.
        const auto inside = [&] {
            return rows->Valid() && from_rocks(rows->key()) >= low &&
                   from_rocks(rows->key()) < high;
        };
        if (!up && rows->Valid() && from_rocks(rows->key()) >= high) rows->Prev();
        while (inside() && fn(from_rocks(rows->key()), from_rocks(rows->value()))) {
            if (up) rows->Next();
            else rows->Prev();
        }
        return check(rows->status(), "rocksdb: iterator");
    }

private:
    rocksdb::TransactionDB& db_;
    const Families& tables_;
    rocksdb::WriteOptions write_;
    rocksdb::TransactionOptions transaction_;
    const rocksdb::ReadOptions read_;
    rocksdb::PinnableSlice value_;
    std::unique_ptr<rocksdb::Transaction> txn_;
};

class RocksDb final : public Engine {
public:
    explicit RocksDb(bool sync) : sync_(sync) {}
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        auto engine = std::make_unique<RocksDb>(setup.sync);
        TRY(engine->open_families(setup));
        return std::unique_ptr<Engine>(std::move(engine));
    }
    ~RocksDb() override { (void)close(); }

    Result<void> run(unsigned sessions, Body body) override {
        return run_on_threads(sessions, body, [&]() -> Result<std::unique_ptr<Session>> {
            return std::unique_ptr<Session>(new RocksSession(*db_, tables_, sync_));
        });
    }
    Result<void> close() override {
        if (!db_) return {};
        Result<void> done = check(db_->Flush({}, tables_), "rocksdb: Flush");
        for (auto* family : families_) (void)db_->DestroyColumnFamilyHandle(family);
        if (const auto closed = check(db_->Close(), "rocksdb: Close"); done) done = closed;
        db_.reset();
        return done;
    }

private:
    Result<void> open_families(const Setup& setup) {
        rocksdb::BlockBasedTableOptions blocks;
        blocks.block_cache = rocksdb::NewLRUCache(setup.cache_bytes);
        blocks.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
        rocksdb::ColumnFamilyOptions family;
        family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(blocks));
        family.compression = rocksdb::kNoCompression;
        family.write_buffer_size = kMemtableBytes;
        rocksdb::DBOptions options;
        options.create_if_missing = options.create_missing_column_families = true;
        options.max_background_jobs = kBackgroundJobs;
        std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
        descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, family);
        for (const std::string& table : setup.tables) descriptors.emplace_back(table, family);
        rocksdb::TransactionDB* db = nullptr;
        TRY(check(rocksdb::TransactionDB::Open(options, {}, setup.directory, descriptors,
                                               &families_, &db),
                  "rocksdb: Open"));
        db_.reset(db);
        tables_.assign(families_.begin() + 1, families_.end());
        return {};
    }

    const bool sync_;
    std::unique_ptr<rocksdb::TransactionDB> db_;
    Families families_, tables_;  // all; those of the workload
};

std::string version() { return rocksdb::GetRocksVersionAsString(true); }

}  // namespace

const Product kRocksDb = {
    .name = "rocksdb",
    .title = "RocksDB TransactionDB",
    .package = "librocksdb-dev",
    .version = version,
    .settings =
        "a column family for each table, memtables of 64 MB, bloom filters of 10 bits, two "
        "background jobs, no compression; WriteOptions::sync on or off; Debian compiles it with "
        "assertions",
    .isolation =
        "read committed with locks on the keys that are changed: no repeatable reads, "
        "phantoms",
    .lost =
        "after a crash of the process nothing; after a power cut what the system had not written",
    .open = RocksDb::open,
};

}  // namespace lockstep::peers
