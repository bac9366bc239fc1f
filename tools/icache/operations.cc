// operations.cc - single operations, each thread's in one transaction, between marks.
#include <cstring>

#include "threads/base/check.h"
#include "tools/icache/trace_format.h"
#include "tools/icache/workload.h"

namespace lockstep::icache {

namespace {

constexpr uint64_t kRows = 100'000;    // the thesis's table: 25 int columns, 100,000 rows
constexpr uint64_t kVictims = 40'000;  // further rows, for delete alone
constexpr uint64_t kRowBytes = 100;
// A lower bound: touching every 50th row touches every page.
constexpr uint64_t kRowsPerPage = 50;
constexpr int kScanRows = 10;

// Marks begin and end of thread `number`'s operation, and nothing else.
template <class Body>
auto marked(uint32_t number, Body&& body) {
    LOCKSTEP_TRACE_MARK(kMarkOpBegin, number);
    auto result = body();
    LOCKSTEP_TRACE_MARK(kMarkOpEnd, number);
    return result;
}

class Operations final : public Workload {
public:
    Operations(Store& store, const WorkloadSettings& settings)
        : store_(store), settings_(settings) {}

    Result<void> load() override {
        index_ = TRY(store_.run([&](Txn& txn) -> Result<Index> {
            Index index = TRY(store_.create_index(txn, "rows"));
            uint64_t next = 0;
            Key key;
            const std::string value(kRowBytes, 'v');
            TRY(store_.bulk_load(txn, index, [&](Slice& k, Slice& v) {
                if (next == kRows + kVictims) return false;
                key = Key().u64(next++);
                k = key;
                v = value;
                return true;
            }));
            return index;
        }));
        // The first change of a page after a checkpoint logs its image: long before anything is
        // counted.
        for (uint64_t row = 0; row < kRows + kVictims; row += kRowsPerPage) {
            Txn txn = TRY(store_.begin({.durability = Durability::lazy}));
            TRY(index_.patch(txn, Key().u64(row), 0, "w"));
            TRY(txn.commit());
        }
        return {};
    }

    uint32_t threads(const Part& part) const override { return part.threads; }

    Result<void> begin_part(const Part& part) override {
        what_ = part.what;
        threads_ = part.threads;
        members_.clear();
        for (uint32_t i = 0; i < part.threads; ++i)
            members_.push_back(std::make_unique<Member>(settings_.seed * 1000 + i));
        ++parts_;
        return {};
    }

    Result<void> unit(uint32_t number) override {
        Member& m = *members_[number];
        if (what_ == "begin" || what_ == "commit") return whole(number, m);
        if (!m.txn) m.txn.emplace(TRY(store_.begin({.durability = Durability::lazy})));
        TRY(record_operation(number, m));
        // Natively a thread runs for long; its transaction must not collect locks without end.
        if (settings_.native && ++m.operations % 10 == 0) return end(number);
        return {};
    }

    Result<void> end(uint32_t number) override {
        Member& m = *members_[number];
        if (!m.txn) return {};
        const auto done = m.txn->commit();
        m.txn.reset();
        if (!done) return std::unexpected(done.error());
        return {};
    }

private:
    struct Member {
        explicit Member(uint64_t seed) : rng(seed), value(kRowBytes, 'v') {}
        Rng rng;
        std::optional<Txn> txn;
        std::string value;
        std::byte buffer[kRowBytes];
        uint64_t operations = 0, fresh = 0;
    };

    uint64_t own_row(uint32_t number, Member& m) {
        return m.rng.below(kRows / threads_) * threads_ + number;
    }

    Result<void> record_operation(uint32_t number, Member& m) {
        const Key key = Key().u64(own_row(number, m));
        if (what_ == "fetch") return fetch(number, m, key);
        if (what_ == "update") {
            // Changes the same eight bytes in every part, and all.
            const uint64_t stamp = m.rng.next() + parts_ * 0x0101010101010101;
            std::memcpy(m.value.data(), &stamp, sizeof(stamp));
            CHECK(TRY(marked(number, [&] { return index_.update(*m.txn, key, m.value); })));
            return {};
        }
        if (what_ == "insert") return insert(number, m);
        if (what_ == "delete") return erase(number, m);
        return scan(number, m, key);
    }

    Result<void> fetch(uint32_t number, Member& m, const Key& key) {
        CHECK(TRY(marked(number, [&] { return index_.get(*m.txn, key, m.buffer); })));
        return {};
    }

    Result<void> insert(uint32_t number, Member& m) {
        // Between existing rows, all over the tree.
        const uint64_t n = m.fresh++ * threads_ + number;
        const Key key = Key().u64(n * 7919 % kRows).u64(parts_).u64(number).u64(n);
        TRY(marked(number, [&] { return index_.insert(*m.txn, key, m.value); }));
        return {};
    }

    // All over the victims; natively each comes back, or they would run out.
    Result<void> erase(uint32_t number, Member& m) {
        const Key key = Key().u64(kRows + victim_++ * 7919 % kVictims);
        CHECK(TRY(marked(number, [&] { return index_.erase(*m.txn, key); })));
        if (settings_.native) return index_.insert(*m.txn, key, m.value);
        return {};
    }

    Result<void> scan(uint32_t number, Member& m, const Key& key) {
        const auto walk = [&]() -> Result<int> {
            Cursor cursor = index_.scan(*m.txn, key);
            int rows = 0;
            while (rows < kScanRows && TRY(cursor.next())) ++rows;
            return rows;
        };
        CHECK(TRY(marked(number, walk)) > 0);
        return {};
    }

    // A transaction that updates one row, of which only begin or commit is marked.
    Result<void> whole(uint32_t number, Member& m) {
        const auto begin = [&] { return store_.begin({.durability = Durability::lazy}); };
        Txn txn = TRY(what_ == "begin" ? marked(number, begin) : begin());
        CHECK(TRY(index_.patch(txn, Key().u64(own_row(number, m)), 8 * m.rng.below(8),
                               Slice(m.value).substr(0, 8))));
        const auto commit = [&] { return txn.commit(); };
        TRY(what_ == "commit" ? marked(number, commit) : commit());
        return {};
    }

    Store& store_;
    const WorkloadSettings settings_;
    Index index_;
    std::string what_;
    uint32_t threads_ = 0;
    uint64_t parts_ = 0;
    uint64_t victim_ = 0;
    std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace

std::unique_ptr<Workload> make_operations(Store& store, const WorkloadSettings& settings) {
    return std::make_unique<Operations>(store, settings);
}

}  // namespace lockstep::icache
