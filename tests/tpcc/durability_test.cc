// labels: sim
// durability_test.cc - the durability tests of clause 3.5: loss of power, loss of memory, and loss
// of the data medium, while terminals run.
//
// Concepts   As clause 3.5.4 says: sum the order numbers, run terminals that note each committed
//            New-Order, cause the failure, recover, and compare the notes with the database. Power
//            cuts come at random I/O events of the simulated disk, in each of its crash modes. Loss
//            of memory leaves all that was written. After the loss of the data medium, a backup and
//            the log archive on another medium are restored.
// LOCKSTEP_SEED: first seed.
// Source: TPC-C revision 5.11, clauses 3.5.3.1 to 3.5.3.3 and 3.5.4.
#include <gtest/gtest.h>

#include "sm/backup/restore.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "threads/base/try.h"
#include "tpcc/consistency.h"
#include "tpcc/deck.h"
#include "tpcc/loader.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc::durability_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimEvent;

constexpr Scale kSmall{
    .warehouses = 1, .districts = 3, .customers = 20, .undelivered = 8, .items = 100};
constexpr uint32_t kTerminals = 4;
constexpr const char* kArchive = "/archive";

// A line of the file of successes.
struct Success {
    uint32_t d, o, c, lines;
    Lsn point;
};

struct Image {
    std::unique_ptr<SimDisk> disk;
    uint64_t event;
    size_t successes;  // noted by then
};

class Failure {
public:
    explicit Failure(uint64_t seed) : seed_(seed), rng_(seed), disk_({.seed = seed}) {}

    // Runs `transactions` durable ones on each terminal. `moment`: called at each I/O event.
    // `backup`: makes a full backup in the middle, and archives the log.
    void run(int transactions, std::function<void(const SimEvent&)> moment, bool backup = false) {
        SimStore store(disk_, seed_, 2);
        store.options().checkpoint_log_bytes = 2 << 20;
        if (backup) store.options().archive = kArchive;
        ASSERT_TRUE(store.open());
        store.on_thread([&] {
            LoadProgress progress;
            auto loaded = load(*store, {kSmall, seed_, 1'000'000'000}, progress);
            ASSERT_TRUE(loaded) << loaded.error().text();
            db_ = *loaded;
            numbers_before_ = sum_of_numbers(db_);
        });
        disk_.observe(std::move(moment));
        uint32_t running = kTerminals + backup;
        for (uint32_t n = 0; n < kTerminals; ++n)
            handles_.push_back(store->start([&, n]() -> Result<void> {
                terminal(n, transactions);
                --running;
                return {};
            }));
        if (backup)
            handles_.push_back(store->start([&]() -> Result<void> {
                while (successes_.size() < 10) sleep_for(kMillisecond);
                auto info = store->backup("/backup");
                EXPECT_TRUE(info) << info.error().text();
                if (info) info_ = *info;
                --running;
                return {};
            }));
        ASSERT_TRUE(store.step_until([&] { return running == 0; })) << "hangs";
        for (auto& handle : handles_) EXPECT_TRUE(handle.join());
        disk_.observe(nullptr);
        ASSERT_TRUE(store.close());
    }

    // Recovers on `disk` and compares it with the successes that were noted first.
    void expect_durable(SimDisk& disk, std::string_view directory, std::span<const Success> noted) {
        SimStore store(disk, seed_ + 1);
        const auto opened = store.open(directory);
        ASSERT_TRUE(opened) << opened.error().text();
        store.on_thread([&] {
            auto db = open_database(*store);
            ASSERT_TRUE(db) << db.error().text();
            for (const Success& success : noted) expect_order(*db, success);
            numbers_after_ = sum_of_numbers(*db) - numbers_before_;
            EXPECT_GE(numbers_after_, noted.size());
            const auto checked = check_consistency(*db);
            ASSERT_TRUE(checked) << checked.error().text();
            EXPECT_TRUE(checked->ok());
        });
        ASSERT_TRUE(store.close());
    }

    void note_image(const SimEvent& event, SimCrash mode) {
        images_.push_back({disk_.image(rng_.next(), mode), event.number, successes_.size()});
    }
    Rng& rng() { return rng_; }
    SimDisk& disk() { return disk_; }
    std::vector<Image>& images() { return images_; }
    const std::vector<Success>& successes() const { return successes_; }
    const std::optional<BackupInfo>& backup() const { return info_; }
    // New-Orders that the recovered database has, by its order numbers.
    uint64_t numbers_after() const { return numbers_after_; }

private:
    void terminal(uint32_t n, int transactions) {
        Rng rng = Rng(seed_).fork(n);
        Deck deck(Mix::full, rng.fork(1));
        const InputRules rules{db_.scale, db_.constants};
        for (int i = 0; i < transactions; ++i) {
            const TxnType type = deck.deal();
            const Rng input = rng.fork(static_cast<uint64_t>(i));
            for (bool again = true; again && !testing::Test::HasFailure();) {
                Rng same = input;
                again = !once(type, same, rules);
                if (again) yield();
            }
        }
    }
    // False: it was a deadlock's victim and must be repeated.
    bool once(TxnType type, Rng& rng, const InputRules& rules) {
        Success success{};
        const auto done = [&]() -> Result<void> {
            Txn txn = TRY(db_.store->begin({.durability = Durability::durable}));
            const auto body = run_body(txn, type, rng, rules, success);
            if (!body.has_value() || !*body) {
                TRY(txn.abort());
                if (!body.has_value()) return std::unexpected(body.error());
                return {};
            }
            success.point = TRY(txn.commit());
            if (success.o != 0) successes_.push_back(success);
            return {};
        }();
        if (done) return true;
        EXPECT_TRUE(done.error().code == ErrorCode::deadlock ||
                    done.error().code == ErrorCode::lock_timeout)
            << done.error().text();
        return false;
    }
    Result<bool> run_body(Txn& txn, TxnType type, Rng& rng, const InputRules& rules,
                          Success& success) {
        const Time date = 2'000'000'000;
        switch (type) {
            case TxnType::new_order: {
                const NewOrderInput in = make_new_order(rng, rules, 1);
                NewOrderOutput out;
                if (!TRY(new_order(db_, txn, in, date, out))) return false;
                success = {in.d, out.o_id, in.c, in.ol_cnt, {}};
                return true;
            }
            case TxnType::payment: {
                PaymentOutput out;
                TRY(payment(db_, txn, make_payment(rng, rules, 1), date, out));
                return true;
            }
            case TxnType::order_status: {
                OrderStatusOutput out;
                TRY(order_status(db_, txn, make_order_status(rng, rules, 1), out));
                return true;
            }
            case TxnType::delivery: {
                DeliveryOutput out;
                TRY(delivery(db_, txn, make_delivery(rng, 1), date, out));
                return true;
            }
            case TxnType::stock_level: break;
        }
        StockLevelOutput out;
        TRY(stock_level(db_, txn, make_stock_level(rng, 1, 1), out));
        return true;
    }

    static uint64_t sum_of_numbers(Database& db) {
        uint64_t sum = 0;
        const auto done = db.store->run([&](Txn& txn) -> Result<void> {
            sum = 0;
            Cursor districts = db.district.scan(txn);
            DistrictRecord record;
            while (TRY(districts.next()))
                if (read_record(districts.value(), record)) sum += record.next_o_id;
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
        return sum;
    }
    static void expect_order(Database& db, const Success& success) {
        OrderRecord order{};
        uint32_t lines = 0;
        const auto found = db.store->run([&](Txn& txn) -> Result<bool> {
            lines = 0;
            std::string value;
            const RowKey key = order_key(1, success.d, success.o);
            if (!TRY(db.orders.get(txn, key, value)) || !read_record(value, order)) return false;
            Cursor cursor = db.order_line.scan(txn, key, order_key(1, success.d, success.o + 1));
            while (TRY(cursor.next())) ++lines;
            return true;
        });
        ASSERT_TRUE(found.has_value() && *found) << "order " << success.o << " of district "
                                                 << success.d << " was committed, and is lost";
        EXPECT_EQ(order.c_id, success.c);
        EXPECT_EQ(lines, success.lines);
    }

    const uint64_t seed_;
    Rng rng_;
    SimDisk disk_;
    Database db_;
    std::vector<Handle<void>> handles_;
    std::vector<Success> successes_;  // in the order in which commit() returned
    std::vector<Image> images_;
    std::optional<BackupInfo> info_;
    uint64_t numbers_before_ = 0, numbers_after_ = 0;
};

// Clause 3.5.3.2. A power cut keeps what was synced; of the rest it keeps nothing, all, any
// sectors, parts of requests, or a prefix.
TEST(Clause3Durability, PowerIsCut) {
    for (const SimCrash mode : threads::kSimCrashes) {
        SCOPED_TRACE("crash mode " + std::to_string(static_cast<int>(mode)));
        Failure test(seed_of_run(11) + static_cast<uint64_t>(mode));
        uint64_t next = 1 + test.rng().below(20);
        test.run(60, [&](const SimEvent& event) {
            if (--next != 0) return;
            next = 1 + test.rng().below(40);
            test.note_image(event, mode);
        });
        EXPECT_GE(test.images().size(), 3u);
        EXPECT_GT(test.successes().size(), 30u);
        for (Image& image : test.images()) {
            SCOPED_TRACE("event " + std::to_string(image.event));
            test.expect_durable(*image.disk, "/store",
                                std::span(test.successes()).first(image.successes));
            EXPECT_LE(test.numbers_after(), image.successes + kTerminals);
        }
    }
}

// Clause 3.5.3.3. The process is gone with its memory; the disk has all that was written to it.
TEST(Clause3Durability, MemoryIsLost) {
    Failure test(seed_of_run(21));
    uint64_t events = 0;
    test.run(60, [&](const SimEvent& event) {
        if (++events % 30 == 0) test.note_image(event, SimCrash::keep_all);
    });
    EXPECT_GE(test.images().size(), 3u);
    for (Image& image : test.images()) {
        test.expect_durable(*image.disk, "/store",
                            std::span(test.successes()).first(image.successes));
        EXPECT_LE(test.numbers_after(), image.successes + kTerminals);
    }
}

// Clause 3.5.3.1. All files of the store are gone. The backup, made while the terminals ran, gives
// the state at its point: each New-Order whose commit has a point not above it, and no other. With
// the archive each New-Order is there.
TEST(Clause3Durability, TheDataMediumIsLost) {
    Failure test(seed_of_run(31));
    test.run(40, nullptr, true);
    ASSERT_TRUE(test.backup());
    const auto files = test.disk().list("/store");
    ASSERT_TRUE(files && !files->empty());
    for (const std::string& name : *files)
        ASSERT_TRUE(test.disk().unlink("/store/" + name)) << name;
    const std::string from[] = {"/backup"};
    const auto restored = sm::restore_on(test.disk(), from, "/restored");
    ASSERT_TRUE(restored) << restored.error().text();
    std::vector<Success> before;
    for (const Success& success : test.successes())
        if (success.point <= test.backup()->lsn) before.push_back(success);
    EXPECT_GE(before.size(), 10u);
    EXPECT_LT(before.size(), test.successes().size());
    test.expect_durable(test.disk(), "/restored", before);
    EXPECT_EQ(test.numbers_after(), before.size());

    RestoreOptions options;
    options.archive = kArchive;
    const auto whole = sm::restore_on(test.disk(), from, "/whole", options);
    ASSERT_TRUE(whole) << whole.error().text();
    test.expect_durable(test.disk(), "/whole", test.successes());
    EXPECT_EQ(test.numbers_after(), test.successes().size());
}

}  // namespace lockstep::tpcc::durability_test
