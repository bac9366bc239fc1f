// work.cc - the clients and their transactions.
#include "tools/acked/work.h"

#include <atomic>
#include <deque>

#include "threads/base/try.h"

namespace lockstep::acked {
namespace {

struct Tables {
    Index rows, accounts, clients;
    Heap notes;
};

Result<Tables> make_tables(Store& store, Txn& txn) {
    Tables t{TRY(store.create_index(txn, "rows")), TRY(store.create_index(txn, "accounts")),
             TRY(store.create_index(txn, "clients")), TRY(store.create_heap(txn, "notes"))};
    for (uint32_t i = 0; i < kAccounts; ++i)
        TRY(t.accounts.insert(txn, account_key(i), text_of(kBalance)));
    return t;
}

// Made in one transaction, so there are all of them or none.
Result<Tables> tables_of(Store& store) {
    if (store.list().empty())
        return store.run([&](Txn& txn) -> Result<Tables> { return make_tables(store, txn); });
    return Tables{TRY(store.index("rows")), TRY(store.index("accounts")),
                  TRY(store.index("clients")), TRY(store.heap("notes"))};
}

// One client. Its functions run on its user thread.
class Client {
public:
    Client(Store& store, const Tables& tables, const Work& work, uint32_t number,
           const std::atomic<bool>& stop)
        : store_(store), t_(tables), work_(work), client_(number), stop_(stop) {}

    Result<void> run() {
        TRY(store_.run([&](Txn& txn) -> Result<void> {
            std::string text;
            newest_ = {};
            if (TRY(t_.clients.get(txn, client_key(client_), text))) newest_ = newest_of(text);
            return {};
        }));
        for (uint64_t i = 0; i < work_.transactions && !stop_.load(); ++i) TRY(run_one());
        return {};
    }

private:
    Result<void> run_one() {
        const uint64_t number = newest_.number + 1;
        const Plan plan = plan_of(work_.seed, client_, number);
        if (plan.fails_first) {
            const auto undone = store_.run([&](Txn& txn) -> Result<void> {
                (void)TRY(change(txn, plan, number, kRolledBack));
                return fail(ErrorCode::rolled_back, "transaction");
            });
            if (!undone && undone.error().code != ErrorCode::rolled_back) return undone;
        }
        const TxnOptions options{.durability = plan.lazy ? Durability::lazy : Durability::durable};
        newest_ = TRY(store_.run([&](Txn& txn) { return change(txn, plan, number, 0); }, options));
        if (!plan.lazy) work_.acknowledged(client_, number);
        return {};
    }

    // May run several times: it changes nothing but the store.
    Result<Newest> change(Txn& txn, const Plan& plan, uint64_t number, uint32_t first_row) {
        for (uint32_t i = 0; i < plan.rows.size(); ++i)
            TRY(t_.rows.insert(txn, row_key(client_, number, first_row + i), plan.rows[i]));
        for (const Transfer& transfer : plan.transfers) {
            TRY(add(txn, transfer.from, -transfer.amount));
            TRY(add(txn, transfer.to, transfer.amount));
        }
        if (number > kWindow) TRY(erase_old(txn, number - kWindow));
        const Newest next{number, TRY(write_note(txn, plan))};
        TRY(t_.clients.put(txn, client_key(client_), text_of(next)));
        return next;
    }

    Result<void> add(Txn& txn, uint32_t account, int64_t amount) {
        std::string text;
        if (!TRY(t_.accounts.get(txn, account_key(account), text, Access::write)))
            return fail(ErrorCode::no_such_record, "account", account);
        const std::string balance = text_of(balance_of(text) + amount);
        TRY(t_.accounts.patch(txn, account_key(account), 0, Slice(balance).substr(0, 8)));
        return {};
    }

    Result<void> erase_old(Txn& txn, uint64_t number) {
        const size_t rows = plan_of(work_.seed, client_, number).rows.size();
        for (uint32_t i = 0; i < rows; ++i)
            if (!TRY(t_.rows.erase(txn, row_key(client_, number, i))))
                return fail(ErrorCode::no_such_record, "row", client_, number, i);
        return {};
    }

    Result<RecordId> write_note(Txn& txn, const Plan& plan) {
        if (newest_.number == 0) return t_.notes.insert(txn, plan.note);
        if (plan.replaces_note) {
            if (!TRY(t_.notes.erase(txn, newest_.note)))
                return fail(ErrorCode::no_such_record, "note", client_);
            return t_.notes.insert(txn, plan.note);
        }
        if (!TRY(t_.notes.update(txn, newest_.note, plan.note)))
            return fail(ErrorCode::no_such_record, "note", client_);
        return newest_.note;
    }

    Store& store_;
    const Tables& t_;
    const Work& work_;
    uint32_t client_;
    const std::atomic<bool>& stop_;
    Newest newest_;
};

}  // namespace

Options small_store(uint32_t workers) {
    Options options;
    options.workers = workers;
    options.pool_bytes = 4 << 20;
    options.log_bytes = 8 << 20;
    options.log_segment_bytes = 1 << 20;
    options.log_ring_bytes = 1 << 20;
    options.checkpoint_log_bytes = 1 << 20;
    options.slice_warning = std::nullopt;  // acknowledgements block, and a guest is slow
    return options;
}

Result<void> run_work(const std::string& path, const Work& work) {
    Options options = small_store(work.workers);
    options.logger = work.logger;
    Store store = TRY(Store::open(path, options));
    const Tables tables = TRY(tables_of(store));
    std::atomic<bool> stop = false;
    std::deque<Client> clients;
    std::vector<Handle<void>> running;
    for (uint32_t i = 0; i < work.clients; ++i) {
        Client& client = clients.emplace_back(store, tables, work, i, stop);
        running.push_back(store.start([&client, &stop]() -> Result<void> {
            auto done = client.run();
            if (!done) stop.store(true);
            return done;
        }));
    }
    Result<void> outcome{};
    for (Handle<void>& one : running) {
        auto done = one.join();
        if (!done && outcome) outcome = done;
    }
    const auto closed = store.close();
    return outcome ? closed : outcome;
}

}  // namespace lockstep::acked
