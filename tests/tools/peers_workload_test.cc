// labels: unit
// peers_workload_test.cc - the workloads of lockstep-peers on an engine of std::map: a sound one
// passes the checks, and one that loses or repeats changes does not.
#include <gtest/gtest.h>

#include <map>

#include "tools/peers/workload.h"

namespace lockstep::peers::peers_workload_test {

// What the engine does wrong.
enum class Fault { none, drops_puts, keeps_erased, keeps_rolled_back, drops_inserts };

using Map = std::map<std::string, std::string, std::less<>>;

class MapSession final : public Session {
public:
    MapSession(std::vector<Map>& tables, Fault fault) : tables_(tables), fault_(fault) {}
    bool loaded = false;  // faults begin
    unsigned refused = 0;

    Result<void> begin(bool) override {
        undo_.clear();
        return {};
    }
    Result<void> commit() override {
        // Every tenth commit is refused once, as by an engine that finds a conflict.
        if (loaded && ++commits_ % 10 == 0) {
            ++refused;
            return conflict("test");
        }
        return {};
    }
    void rollback() override {
        if (strikes(Fault::keeps_rolled_back)) return;
        for (; !undo_.empty(); undo_.pop_back()) {
            auto& [table, key, value] = undo_.back();
            if (value) tables_[table][key] = *value;
            else tables_[table].erase(key);
        }
    }
    Result<std::optional<size_t>> get(Table table, Slice key, std::span<std::byte> buffer,
                                      Access) override {
        const auto found = tables_[table].find(key);
        if (found == tables_[table].end()) return std::optional<size_t>();
        const std::string& value = found->second;
        std::copy_n(reinterpret_cast<const std::byte*>(value.data()),
                    std::min(value.size(), buffer.size()), buffer.data());
        return std::optional(value.size());
    }
    Result<void> insert(Table table, Slice key, Slice value) override {
        if (strikes(Fault::drops_inserts)) return {};
        note(table, key);
        tables_[table][std::string(key)] = value;
        return {};
    }
    Result<void> put(Table table, Slice key, Slice value) override {
        if (strikes(Fault::drops_puts)) return {};
        note(table, key);
        tables_[table][std::string(key)] = value;
        return {};
    }
    Result<bool> erase(Table table, Slice key) override {
        const auto found = tables_[table].find(key);
        if (found == tables_[table].end()) return false;
        note(table, key);
        if (!strikes(Fault::keeps_erased)) tables_[table].erase(found);
        return true;
    }
    Result<void> scan(Table table, Slice low, Slice high, Order order, Access,
                      Visitor fn) override {
        const Map& map = tables_[table];
        auto first = map.lower_bound(low), last = map.lower_bound(high);
        if (order == Order::ascending) {
            for (; first != last && fn(first->first, first->second); ++first) {}
        } else {
            while (first != last) {
                --last;
                if (!fn(last->first, last->second)) break;
            }
        }
        return {};
    }

private:
    // Remembers the record as it is.
    void note(Table table, Slice key) {
        const auto found = tables_[table].find(key);
        std::optional<std::string> value;
        if (found != tables_[table].end()) value = found->second;
        undo_.emplace_back(table, std::string(key), std::move(value));
    }
    // One change in fifty goes wrong.
    bool strikes(Fault fault) { return loaded && fault_ == fault && ++changes_ % 50 == 0; }

    std::vector<Map>& tables_;
    std::vector<std::tuple<Table, std::string, std::optional<std::string>>> undo_;
    const Fault fault_;
    unsigned commits_ = 0, changes_ = 0;
};

constexpr Sizes kSizes = {
    .warehouses = 1, .customers = 15, .items = 100, .ycsb_records = 200, .subscribers = 100};

struct Played {
    std::vector<std::string> faults;
    unsigned refused = 0;
    uint64_t repeats = 0;
};

Played play(const WorkloadKind& kind, Fault fault, unsigned steps = 400) {
    const auto workload = kind.make(kSizes);
    std::vector<Map> tables(workload->tables().size());
    MapSession session(tables, fault);
    EXPECT_TRUE(workload->load(session));
    session.loaded = true;
    const auto client = workload->client(0, 1, 7);
    Tally tally(workload->types().size());
    tally.measures = true;
    Played out;
    for (unsigned n = 0; n < steps; ++n) {
        const Result<size_t> type = client->step(session, tally);
        // A row that is missing stops a client: that is noticed too.
        if (!type) {
            out.faults.push_back(type.error().text());
            break;
        }
        EXPECT_LT(*type, workload->types().size());
    }
    out.refused = session.refused;
    out.repeats = tally.repeats;
    session.loaded = false;
    const auto faults = workload->check(session, tally.rows_added);
    EXPECT_TRUE(faults);
    if (faults) out.faults.insert(out.faults.end(), faults->begin(), faults->end());
    return out;
}

const WorkloadKind& kind_of(const std::string& name) {
    for (const WorkloadKind& kind : workload_kinds())
        if (name == kind.name) return kind;
    ADD_FAILURE() << name;
    return workload_kinds().front();
}

TEST(Workloads, ASoundEnginePassesEachCheck) {
    for (const WorkloadKind& kind : workload_kinds()) {
        SCOPED_TRACE(kind.name);
        const Played played = play(kind, Fault::none);
        EXPECT_EQ(played.faults, std::vector<std::string>());
        EXPECT_GT(played.refused, 0u);
        EXPECT_EQ(played.repeats, played.refused);
    }
}

TEST(Workloads, TpccNoticesEachKindOfFault) {
    for (const Fault fault :
         {Fault::drops_puts, Fault::keeps_erased, Fault::keeps_rolled_back, Fault::drops_inserts}) {
        SCOPED_TRACE(static_cast<int>(fault));
        // A refused commit that is kept and repeated leaves a sound database. One in two hundred
        // transactions rolls back of itself, and one rollback in fifty is kept.
        const unsigned steps = fault == Fault::keeps_rolled_back ? 60'000 : 3000;
        EXPECT_NE(play(kind_of("tpcc"), fault, steps).faults, std::vector<std::string>());
    }
}

TEST(Workloads, YcsbAndTatpCountTheirRows) {
    EXPECT_NE(play(kind_of("ycsb-e"), Fault::drops_inserts, 3000).faults,
              std::vector<std::string>());
    EXPECT_NE(play(kind_of("tatp"), Fault::keeps_erased, 8000).faults, std::vector<std::string>());
    EXPECT_NE(play(kind_of("tatp"), Fault::drops_inserts, 8000).faults, std::vector<std::string>());
}

TEST(Workloads, ScansOfWholeTablesSeeEachRowOnce) {
    for (const size_t count : {0, 1, 255, 256, 257, 1000}) {
        std::vector<Map> tables(1);
        for (size_t n = 0; n < count; ++n) tables[0][std::to_string(100'000 + n)] = "v";
        MapSession session(tables, Fault::none);
        Rows rows(session, 0);
        size_t seen = 0;
        std::string last;
        while (rows.next().value()) {
            EXPECT_LT(last, rows.key());
            last = rows.key();
            ++seen;
        }
        EXPECT_EQ(seen, count);
    }
}

}  // namespace lockstep::peers::peers_workload_test
