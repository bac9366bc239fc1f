// check.cc - what must be in the store follows from the newest transaction of each client.
#include "tools/acked/check.h"

#include <map>

#include "threads/base/try.h"
#include "tools/acked/work.h"

namespace lockstep::acked {
namespace {

class Check {
public:
    Check(Store& store, uint64_t seed, const std::vector<uint64_t>& acked, uint64_t ahead,
          Verdict& verdict)
        : store_(store), seed_(seed), acked_(acked), ahead_(ahead), verdict_(verdict) {}

    Result<void> run() {
        if (store_.list().empty()) {
            for (uint32_t c = 0; c < acked_.size(); ++c)
                if (acked_[c] != 0) fault(c, "the store is empty", acked_[c]);
            return structures();
        }
        TRY(store_.run([&](Txn& txn) -> Result<void> {
            verdict_.faults.clear();  // of an attempt before
            TRY(newest(txn));
            TRY(rows(txn));
            TRY(accounts(txn));
            return notes(txn);
        }));
        return structures();
    }

private:
    void fault(uint32_t client, const std::string& what, uint64_t number) {
        verdict_.faults.push_back("client " + std::to_string(client) + ", transaction " +
                                  std::to_string(number) + ": " + what);
    }

    // Nothing acknowledged is missing, and nothing is there that cannot have begun.
    Result<void> newest(Txn& txn) {
        const Index clients = TRY(store_.index("clients"));
        for (uint32_t c = 0; c < acked_.size(); ++c) {
            std::string text;
            found_.emplace_back();
            if (TRY(clients.get(txn, client_key(c), text))) found_[c] = newest_of(text);
            verdict_.newest[c] = found_[c].number;
            if (found_[c].number < acked_[c])
                fault(c, "is lost, the newest one is " + std::to_string(found_[c].number),
                      acked_[c]);
            if (found_[c].number > acked_[c] + ahead_)
                fault(c, "is there and was never begun", found_[c].number);
        }
        return {};
    }

    Result<void> rows(Txn& txn) {
        const Index rows = TRY(store_.index("rows"));
        std::map<std::string, std::string> expected;
        for (uint32_t c = 0; c < found_.size(); ++c) {
            const uint64_t last = found_[c].number;
            for (uint64_t n = last > kWindow ? last - kWindow + 1 : 1; n <= last; ++n) {
                const Plan plan = plan_of(seed_, c, n);
                for (uint32_t i = 0; i < plan.rows.size(); ++i)
                    expected[std::string(Slice(row_key(c, n, i)))] = plan.rows[i];
            }
        }
        size_t same = 0, others = 0;
        Cursor at = rows.scan(txn);
        while (TRY(at.next())) {
            const auto found = expected.find(std::string(at.key()));
            const bool right = found != expected.end() && found->second == at.value();
            ++(right ? same : others);
        }
        if (same != expected.size() || others != 0)
            verdict_.faults.push_back("index rows: " + std::to_string(expected.size() - same) +
                                      " rows are missing, " + std::to_string(others) +
                                      " are wrong or too many");
        return {};
    }

    // Transfers add up, in whatever order they ran.
    Result<void> accounts(Txn& txn) {
        std::vector<int64_t> balances(kAccounts, kBalance);
        for (uint32_t c = 0; c < found_.size(); ++c)
            for (uint64_t n = 1; n <= found_[c].number; ++n)
                for (const Transfer& t : transfers_of(seed_, c, n)) {
                    balances[t.from] -= t.amount;
                    balances[t.to] += t.amount;
                }
        const Index accounts = TRY(store_.index("accounts"));
        for (uint32_t i = 0; i < kAccounts; ++i) {
            std::string text;
            const bool there = TRY(accounts.get(txn, account_key(i), text));
            if (!there || balance_of(text) != balances[i])
                verdict_.faults.push_back("account " + std::to_string(i) + " has a wrong balance");
        }
        return {};
    }

    Result<void> notes(Txn& txn) {
        const Heap notes = TRY(store_.heap("notes"));
        size_t wanted = 0, there = 0;
        for (uint32_t c = 0; c < found_.size(); ++c) {
            if (found_[c].number == 0) continue;
            ++wanted;
            std::string text;
            if (!TRY(notes.get(txn, found_[c].note, text)) ||
                text != plan_of(seed_, c, found_[c].number).note)
                fault(c, "the note is missing or wrong", found_[c].number);
        }
        TRY(notes.scan(txn, [&](RecordId, Slice) { return ++there, true; }));
        if (there != wanted)
            verdict_.faults.push_back("heap notes: " + std::to_string(there) +
                                      " records instead of " + std::to_string(wanted));
        return {};
    }

    Result<void> structures() {
        for (const std::string& text : TRY(store_.verify()))
            verdict_.faults.push_back("verify: " + text);
        return {};
    }

    Store& store_;
    uint64_t seed_;
    const std::vector<uint64_t>& acked_;
    uint64_t ahead_;
    Verdict& verdict_;
    std::vector<Newest> found_;
};

Result<void> open_and_check(const std::string& path, uint64_t seed,
                            const std::vector<uint64_t>& acked, uint64_t ahead,
                            const Logger& logger, Verdict& verdict) {
    Options options = small_store(1);
    options.logger = logger;
    Store store = TRY(Store::open(path, options));
    TRY(Check(store, seed, acked, ahead, verdict).run());
    return store.close();
}

}  // namespace

Verdict check_store(const std::string& path, uint64_t seed, const std::vector<uint64_t>& acked,
                    uint64_t ahead, const Logger& logger) {
    Verdict verdict;
    verdict.newest.resize(acked.size());
    const auto done = open_and_check(path, seed, acked, ahead, logger, verdict);
    if (!done) verdict.faults.push_back("error: " + done.error().text());
    return verdict;
}

}  // namespace lockstep::acked
