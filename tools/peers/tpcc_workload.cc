// tpcc_workload.cc - TPC-C over the small interface: loads the rows of tpcc/, and checks the twelve
// consistency conditions and the stock.
#include <fmt/format.h>

#include "tools/peers/tpcc_client.h"
#include "tpcc/consistency_scan.h"
#include "tpcc/feeds.h"

namespace lockstep::peers {

using namespace tpcc;

namespace {

// The tables of a session for the audits.
class SessionSource {
public:
    explicit SessionSource(Session& session) : session_(session) {}
    Rows rows(TableId table) const { return {session_, table_of(table)}; }
    Result<void> each_history(FunctionRef<bool(Slice)> fn) const {
        return session_.scan(table_of(TableId::history), {}, kKeyEnd, Order::ascending,
                             Access::read, [&](Slice, Slice value) { return fn(value); });
    }
    void row_read() const {}

private:
    Session& session_;
};

Scale scale_of(const Sizes& sizes) {
    return {.warehouses = sizes.warehouses,
            .customers = sizes.customers,
            .undelivered = sizes.customers * 3 / 10,
            .items = sizes.items};
}

class TpccWorkload final : public Workload {
public:
    explicit TpccWorkload(const Sizes& sizes)
        : rows_{sizes.seed, scale_of(sizes), RandomConstants::choose(sizes.seed), kLoadTime} {}

    std::vector<std::string> tables() const override {
        std::vector<std::string> names;
        for (const TableName& table : kTables) names.emplace_back(table.name);
        return names;
    }
    std::vector<std::string> types() const override {
        return {std::begin(kTxnNames), std::end(kTxnNames)};
    }

    Result<void> load(Session& s) override {
        TRY(load_from<StockFeed>(s, TableId::stock));
        TRY(load_from<LineFeed>(s, TableId::order_line));
        TRY(load_from<CustomerFeed>(s, TableId::customer));
        TRY(load_from<NameFeed>(s, TableId::customer_name));
        TRY(load_from<OrderFeed>(s, TableId::orders));
        TRY(load_from<CustomerOrderFeed>(s, TableId::orders_customer));
        TRY(load_from<NewOrderFeed>(s, TableId::new_order));
        TRY(load_from<ItemFeed>(s, TableId::item));
        TRY(load_from<DistrictFeed>(s, TableId::district));
        TRY(load_from<WarehouseFeed>(s, TableId::warehouse));
        return load_history(s);
    }

    std::unique_ptr<Client> client(unsigned number, unsigned clients, uint64_t seed) override {
        return std::make_unique<TpccClient>(InputRules{rows_.scale, rows_.constants}, number,
                                            clients, row_rng(seed, 300, number));
    }

    Result<std::vector<std::string>> check(Session& session, int64_t) override {
        TRY(session.begin(false));
        SessionSource source(session);
        const ConsistencyReport report = TRY(ConsistencyScan(source, rows_).run());
        TRY(session.commit());
        std::vector<std::string> faults = report.index_faults;
        for (const Condition& condition : report.conditions)
            for (const std::string& fault : condition.faults)
                faults.push_back(fmt::format("condition {}: {}", condition.id, fault));
        for (const StockCheck& stock : report.stock)
            faults.insert(faults.end(), stock.faults.begin(), stock.faults.end());
        return faults;
    }

private:
    template <class Feed>
    Result<void> load_from(Session& session, TableId table) const {
        Feed feed{rows_};
        RowKey row_key;
        return load_table(session, table_of(table), [&](Slice& key, Slice& value) {
            const bool more = feed.next(row_key, value);
            key = row_key;
            return more;
        });
    }
    Result<void> load_history(Session& session) const {
        DistrictWalk walk{rows_.scale, rows_.scale.customers};
        HistoryRecord record;
        RowKey row_key;
        uint32_t count = 0;
        return load_table(session, table_of(TableId::history), [&](Slice& key, Slice& value) {
            if (!walk.step()) return false;
            rows_.history(walk.w, walk.d, walk.n, record);
            row_key = history_key(0, count++);
            key = row_key;
            value = bytes_of(record);
            return true;
        });
    }

    const RowSource rows_;
};

}  // namespace

std::unique_ptr<Workload> make_tpcc(const Sizes& sizes) {
    return std::make_unique<TpccWorkload>(sizes);
}

}  // namespace lockstep::peers
