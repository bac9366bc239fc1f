// lockstep.cc - Lockstep itself behind the interface of its peers: a user thread for each session.
#include <lockstep/store.h>

#include "threads/base/try.h"
#include "tools/base/build_info.h"
#include "tools/peers/engine.h"

namespace lockstep::peers {

namespace {

class LockstepSession final : public Session {
public:
    LockstepSession(Store& store, const std::vector<Index>& tables, bool sync)
        : store_(store), tables_(tables) {
        options_.durability = sync ? Durability::durable : Durability::lazy;
    }

    Result<void> begin(bool writes) override {
        // A transaction that nothing delays would keep the worker from its other user threads.
        yield();
        options_.read_only = !writes;
        txn_.emplace(TRY(store_.begin(options_)));
        return {};
    }
    Result<void> commit() override {
        TRY(txn().commit());
        txn_.reset();
        return {};
    }
    void rollback() override {
        (void)txn().abort();
        txn_.reset();
    }

    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access access) override {
        return tables_[table].get(txn(), key, buffer, access);
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        return tables_[table].insert(txn(), key, value);
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        return tables_[table].put(txn(), key, value);
    }
    Result<bool> erase(Table table, Slice key) override { return tables_[table].erase(txn(), key); }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access access,
                      Visitor fn) override {
        Cursor cursor = tables_[table].scan(txn(), low, high, access);
        while (TRY(order == Order::ascending ? cursor.next() : cursor.prev()))
            if (!fn(cursor.key(), cursor.value())) return {};
        return {};
    }

private:
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): there is one between begin() and the end
    Txn& txn() { return *txn_; }

    Store& store_;
    const std::vector<Index>& tables_;
    TxnOptions options_;
    std::optional<Txn> txn_;
};

class Lockstep final : public Engine {
public:
    explicit Lockstep(Store store, bool sync) : store_(std::move(store)), sync_(sync) {}
    static Result<std::unique_ptr<Engine>> open(const Setup& setup) {
        Options options;
        options.workers = setup.workers;
        options.pool_bytes = setup.cache_bytes;
        auto engine =
            std::make_unique<Lockstep>(TRY(Store::open(setup.directory, options)), setup.sync);
        for (const std::string& name : setup.tables)
            engine->tables_.push_back(TRY(engine->store_.run(
                [&](Txn& txn) { return engine->store_.open_or_create_index(txn, name); })));
        return std::unique_ptr<Engine>(std::move(engine));
    }

    Result<void> run(unsigned sessions, Body body) override {
        std::vector<Handle<void>> handles;
        const unsigned workers = store_.options().workers;
        for (unsigned i = 0; i < sessions; ++i)
            handles.push_back(store_.start(
                [this, body, i]() -> Result<void> {
                    LockstepSession session(store_, tables_, sync_);
                    return body(i, session);
                },
                static_cast<int>(i % workers)));
        Result<void> outcome;
        for (auto& handle : handles) {
            const Result<void> joined = handle.join();
            if (outcome && !joined) outcome = joined;
        }
        return outcome;
    }
    Result<void> close() override { return store_.close(); }

private:
    Store store_;
    std::vector<Index> tables_;
    const bool sync_;
};

std::string version() { return built_version(); }

}  // namespace

const Product kLockstep = {
    .name = "lockstep",
    .title = "Lockstep",
    .package = "",
    .version = version,
    .settings =
        "default options, one user thread for each worker; whole rows are read and written, "
        "one a call",
    .isolation = "serializable",
    .lost = "the commits of the last 10 ms",
    .open = Lockstep::open,
};

}  // namespace lockstep::peers
