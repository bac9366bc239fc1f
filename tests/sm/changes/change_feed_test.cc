// labels: model
// change_feed_test.cc - a store that is made from the change feed of another one equals it, after
// crashes too; positions; log that is gone.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include <lockstep/changes.h>
#include "sm/catalog/catalog.h"
#include "sm/changes/change_reader.h"
#include "tests/seed_of_run.h"
#include "tests/sm/backup/archive_test_util.h"
#include "tests/sm/changes/random_changes.h"
#include "tests/sm/changes/replica.h"

namespace lockstep::change_feed_test {

constexpr uint64_t kCommitBytes = 32;  // of a commit record

// How many changes are behind the position.
Result<size_t> count(Store& store, const std::string& position) {
    ChangeFeed feed = TRY(store.changes(position));
    size_t n = 0;
    for (Change change; TRY(feed.next(change));) ++n;
    return n;
}

// A store on a disk that may crash, and its feed. With an archive it keeps no log for feeds.
class Source {
public:
    explicit Source(uint64_t seed, bool archives = false)
        : seed_(seed), archives_(archives), work_(seed) {
        disk_ = std::make_unique<threads::SimDisk>();
        open();
        store().on_thread([&] { ASSERT_OK(RandomChanges::make(*store())); });
    }
    SimStore& store() { return *store_; }
    RandomChanges& work() { return work_; }
    const std::string& position() const { return position_; }
    void forget_position() { position_.clear(); }
    void remove_archived_log() {
        const auto archive = threads::Directory::opened(*disk_, kArchive);
        const auto names = disk_->list(archive.here());
        ASSERT_OK(names);
        for (const std::string& name : *names)
            if (name.ends_with(".log")) ASSERT_OK(disk_->unlink(archive / name));
    }

    void open() {
        store_.emplace(*disk_, seed_ + ++opens_, 2);
        store().options().changes_log_bytes = 16 << 20;
        if (archives_) {
            store().options().changes_log_bytes = 0;
            archive_options(store().options());
        }
        store().options().pool_bytes = 8 << 20;
        store().options().logger = nullptr;
        ASSERT_OK(store_->open());
        const auto attached = store()->attach_key("s", secondary_key);
        if (opens_ > 1) ASSERT_OK(attached);
    }
    // As a power cut that comes at some moment while three transactions run and the feed is read.
    void crash(threads::SimCrash mode, Replica& replica) {
        begin_transactions(3);
        for (uint64_t left = rng_.below(400); left > 0; --left) {
            store_->step();
            if (left % 8 == 0) follow_now(replica);
        }
        replica.forget_begun();
        auto image = disk_->image(rng_.next(), mode);
        // What the transactions still do is lost; nothing of theirs is left on stacks.
        CHECK(store_->step_until([&] { return running_ == 0; }));
        store_->abandon();
        store_.reset();
        disk_ = std::move(image);
        open();
    }
    void close_and_open() {
        ASSERT_OK(store_->close());
        open();
    }
    void transactions(size_t n) {
        begin_transactions(n);
        CHECK(store_->step_until([&] { return running_ == 0; }));
    }
    // All that is committed now reaches the replica.
    void follow(Replica& replica) {
        Lsn end{};
        store_->on_thread([&] {
            auto done = (*store_)->begin();
            ASSERT_OK(done);
            ASSERT_OK((*store_)->index("end")->put(*done, "end", std::to_string(++ends_)));
            const auto point = done->commit();
            ASSERT_OK(point);
            end = *point;
        });
        auto feed = (*store_)->changes(position_.empty() ? kChangesFromOldest : Slice(position_));
        ASSERT_OK(feed);
        Change change;
        CHECK(store_->step_until([&] {
            const auto next = feed->next(change);
            EXPECT_TRUE(next.has_value()) << next.error().text();
            if (!next.has_value()) return true;
            if (!*next) return false;
            replica.take(change, *store_);
            if (change.kind != ChangeKind::commit) return false;
            position_ = feed->position();
            return change.commit + kCommitBytes >= end;
        }));
    }
    void follow_now(Replica& replica) {
        auto feed = (*store_)->changes(position_.empty() ? kChangesFromOldest : Slice(position_));
        ASSERT_OK(feed);
        // What a reset asks for would take turns of the store.
        std::vector<ToldChange> begun;
        Change change;
        while (feed->next(change).value_or(false)) {
            if (change.kind == ChangeKind::reset) return;
            begun.emplace_back(change);
            if (change.kind != ChangeKind::commit) continue;
            for (ToldChange& told : begun) replica.take(told.change(), *store_);
            begun.clear();
            position_ = feed->position();
        }
    }
    static void secondary_key(Slice key, Slice value, SecondaryKeys& keys) {
        keys.add(value.substr(0, 3));
        if (key.size() > 3) keys.add(key.substr(0, 2));
    }

private:
    void begin_transactions(size_t n) {
        running_ = n;
        for (size_t i = 0; i < n; ++i)
            (void)(*store_)->start([this]() -> Result<void> {
                work_.transaction(**store_);
                if (rng_.below(4) == 0) work_.decide(**store_);
                --running_;
                return {};
            });
    }

    const uint64_t seed_;
    const bool archives_;
    Rng rng_{seed_ ^ 0x5eed};
    RandomChanges work_;
    std::unique_ptr<threads::SimDisk> disk_;
    std::optional<SimStore> store_;
    std::string position_;
    size_t running_ = 0;
    uint64_t opens_ = 0, ends_ = 0;
};

TEST(ChangeFeed, MakesAnEqualStore) {
    const uint64_t seed = seed_of_run();
    Source source(seed);
    Replica replica;
    Rng rng(seed);
    for (int round = 0; round < 24 && !::testing::Test::HasFailure(); ++round) {
        source.transactions(12);
        if (round % 6 == 2) source.close_and_open();
        if (round % 3 == 0)
            source.crash(threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))], replica);
        if (round % 2 == 1) continue;  // the feed stays behind over the next crash
        source.follow(replica);
        replica.forget_begun();
        replica.compare(source.store());
    }
    for (const ChangeKind kind :
         {ChangeKind::insert, ChangeKind::update, ChangeKind::patch, ChangeKind::erase,
          ChangeKind::create, ChangeKind::drop, ChangeKind::reset, ChangeKind::commit})
        EXPECT_GT(replica.taken(kind), 0u) << change_kind_name(kind);
}

// All that the feed tells from a position on, which `from` becomes.
std::vector<std::string> told(Store& store, std::string& from, size_t most = SIZE_MAX) {
    std::vector<std::string> all;
    auto feed = store.changes(from);
    EXPECT_TRUE(feed.has_value()) << feed.error().text();
    Change change;
    while (feed.has_value() && all.size() < most) {
        const auto next = feed->next(change);
        EXPECT_TRUE(next.has_value()) << next.error().text();
        if (!next.has_value() || !*next) break;
        all.push_back(ToldChange(change).text());
    }
    from = feed->position();
    return all;
}

TEST(ChangeFeed, APositionGivesEachLaterChangeOnce) {
    Source source(seed_of_run(2));
    source.transactions(150);
    source.store().on_thread([&] { sleep_for(kSecond); });
    Store& store = *source.store();
    std::string whole(kChangesFromOldest), pieces = whole;
    const std::vector<std::string> expected = told(store, whole);
    ASSERT_GT(expected.size(), 100u);
    std::vector<std::string> found;
    for (size_t n = 1; found.size() < expected.size(); n = n % 3 + 1) {
        const auto next = told(store, pieces, n);
        ASSERT_FALSE(next.empty());
        found.insert(found.end(), next.begin(), next.end());
    }
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(told(store, pieces).empty());
}

// A reader that keeps two places only follows the chain of a transaction often.
TEST(ChangeFeed, ALargeTransactionTakesNoMemory) {
    Source source(seed_of_run(3));
    source.transactions(150);
    source.store().on_thread([&] { sleep_for(kSecond); });
    std::vector<std::string> texts[2];
    for (const size_t window : {size_t{2}, sm::ChangeReader::kWindow}) {
        sm::ChangeReader reader(source.store().engine(), *source.store().engine().catalog, nullptr,
                                window);
        ASSERT_OK(reader.start(kChangesFromOldest));
        Change change;
        for (;;) {
            const auto next = reader.next(change);
            ASSERT_OK(next);
            if (!*next) break;
            texts[window == 2].push_back(ToldChange(change).text());
        }
    }
    EXPECT_GT(texts[0].size(), 100u);
    EXPECT_EQ(texts[0], texts[1]);
}

// The log beyond changes_log_bytes goes, whoever reads.
TEST(ChangeFeed, LogThatIsGoneIsAnError) {
    for (const uint64_t kept : {uint64_t{0}, uint64_t{16} << 20}) {
        threads::SimDisk disk;
        SimStore store(disk);
        store.options().changes_log_bytes = kept;
        ASSERT_OK(store.open());
        const auto write = [&](int megabytes) {
            store.on_thread([&] {
                const Index index =
                    *store->run([&](Txn& txn) { return store->open_or_create_index(txn, "i"); });
                for (int i = 0; i < megabytes; ++i)
                    ASSERT_OK(index.put("k", std::string(1 << 20, static_cast<char>('a' + i))));
                if (megabytes > 2) ASSERT_OK(store->checkpoint());
                sleep_for(kSecond);  // old segments are recycled
            });
        };
        write(2);
        std::string position(kChangesFromOldest);
        ASSERT_EQ(told(*store, position).size(), 6u);  // create, insert, update, three commits
        const std::string early = position;
        write(10);
        if (kept != 0) {
            EXPECT_EQ(count(*store, early).value_or(0), 20u);
            write(14);
        }
        const auto gone = count(*store, early);
        ASSERT_FALSE(gone.has_value());
        EXPECT_EQ(gone.error().code, ErrorCode::changes_lost);
        EXPECT_NE(gone.error().text().find("changes_log_bytes"), std::string::npos);
        EXPECT_TRUE(store->changes().has_value());  // from now on
    }
}

// The log is recycled again and again, also while the store was closed meanwhile.
TEST(ChangeFeed, ReadsOnFromTheArchive) {
    const uint64_t seed = seed_of_run();
    Source source(seed, true);
    Replica early, late;
    const auto fall_behind = [&] {
        for (int round = 0; round < 6; ++round) {
            source.transactions(40);
            source.store().on_thread([&] {
                ASSERT_OK(source.store()->checkpoint());
                sleep_for(kSecond);  // archived, and old segments are recycled
            });
        }
    };
    source.transactions(12);
    source.follow(early);
    const std::string first = source.position();
    fall_behind();
    {
        // One that has begun to read the archive, which gets more meanwhile.
        auto feed = source.store()->changes(kChangesFromOldest);
        ASSERT_OK(feed);
        Change change;
        size_t n = 0;
        for (; n < 100; ++n) ASSERT_TRUE(feed->next(change).value_or(false));
        fall_behind();
        while (feed->next(change).value_or(false)) ++n;
        EXPECT_EQ(n, count(*source.store(), std::string(kChangesFromOldest)).value_or(0));
    }
    source.close_and_open();
    fall_behind();
    const Lsn begin = source.store().engine().log->start();
    EXPECT_GT(begin.value, txn::kLogFirst + (1 << 20)) << "the test is blind";
    source.follow(early);
    early.compare(source.store());
    // A whole store from its archive.
    source.forget_position();
    source.follow(late);
    late.compare(source.store());
    EXPECT_GT(late.taken(ChangeKind::commit), early.taken(ChangeKind::commit));
    source.remove_archived_log();
    EXPECT_EQ(code_of(count(*source.store(), first)), ErrorCode::changes_lost);
}

TEST(ChangeFeed, GoesOnBehindASnapshot) {
    threads::SimDisk disk;
    SimStore store(disk);
    store.options().changes_log_bytes = 4 << 20;
    ASSERT_OK(store.open());
    ChangePoint point;
    Lsn before{}, after{};
    store.on_thread([&] {
        const Index index = *store->run([&](Txn& txn) { return store->create_index(txn, "i"); });
        auto writer = store->begin();
        ASSERT_OK(index.put(*writer, "open", "1"));
        auto seen = store->begin();
        ASSERT_OK(index.put(*seen, "seen", "1"));
        before = *seen->commit();
        auto snapshot = store->begin({.isolation = Isolation::snapshot});
        ASSERT_OK(snapshot);
        auto later = store->begin();
        ASSERT_OK(index.put(*later, "later", "1"));
        ASSERT_OK(later->commit());
        point = *store->changes_point(*snapshot);
        EXPECT_EQ(records_of(index, *snapshot)->size(), 1u);
        EXPECT_FALSE(store->changes_point(*writer).has_value());
        after = *writer->commit();
        ASSERT_OK(snapshot->commit());
        sleep_for(kSecond);
    });
    EXPECT_LE(before, point.lsn);
    auto feed = store->changes(point.position);
    Change change;
    ASSERT_TRUE(feed->next(change).value_or(false));
    EXPECT_EQ(change.key, "later");
    EXPECT_GE(change.commit, point.lsn);
    ASSERT_TRUE(feed->next(change).value_or(false));
    EXPECT_EQ(change.kind, ChangeKind::commit);
    ASSERT_TRUE(feed->next(change).value_or(false));
    EXPECT_EQ(change.key, "open");
    EXPECT_EQ(change.commit + kCommitBytes, after);
    EXPECT_GE(change.commit, point.lsn);
    EXPECT_NE(change.time, 0u);
}

// The number of an object that was dropped may be another's after an open.
TEST(ChangeFeed, ObjectsThatWereDroppedKeepTheirNames) {
    threads::SimDisk disk;
    SimStore store(disk);
    store.options().changes_log_bytes = 4 << 20;
    ASSERT_OK(store.open());
    const auto make = [&](const char* name) {
        ObjectId id{};
        store.on_thread([&] {
            const auto made = store->run([&](Txn& txn) { return store->create_index(txn, name); });
            ASSERT_OK(made->put("k", name));
            id = made->id();
        });
        return id;
    };
    const ObjectId first = make("first");
    std::string position(kChangesFromOldest);
    store.on_thread([&] { sleep_for(kSecond); });
    ASSERT_EQ(told(*store, position).size(), 4u);
    store.on_thread([&] {
        ASSERT_OK(store->index("first")->put("k", "changed"));
        ASSERT_OK(store->run([&](Txn& txn) { return store->drop(txn, "first"); }));
        sleep_for(kSecond);
    });
    for (int open = 0; open < 2; ++open) {
        ASSERT_OK(store.close());
        ASSERT_OK(store.open());
    }
    ASSERT_EQ(make("second"), first);
    store.on_thread([&] { sleep_for(kSecond); });
    std::string kinds;
    auto feed = store->changes(position);
    ASSERT_OK(feed);
    for (Change change; feed->next(change).value_or(false);)
        kinds +=
            std::string(change_kind_name(change.kind)) + " " + std::string(change.object) + ";";
    EXPECT_EQ(
        kinds,
        "reset first;commit ;drop first;commit ;create second;commit ;insert second;commit ;");
}

TEST(ChangeFeed, TellsWhatIsDurableOnly) {
    threads::SimDisk disk;
    SimStore store(disk);
    ASSERT_OK(store.open());
    store.on_thread([&] {
        const Index index = *store->run([&](Txn& txn) { return store->create_index(txn, "i"); });
        sleep_for(kSecond);
        auto feed = store->changes();
        ASSERT_OK(feed);
        auto txn = store->begin({.durability = Durability::lazy});
        ASSERT_OK(index.put(*txn, "k", "v"));
        const auto point = txn->commit();
        ASSERT_OK(point);
        Change change;
        EXPECT_FALSE(feed->next(change).value_or(true));
        ASSERT_OK(store->wait_durable(*point));
        EXPECT_TRUE(feed->next(change).value_or(false));
    });
}

TEST(ChangeFeed, RefusesWhatIsNoPosition) {
    threads::SimDisk disk;
    SimStore store(disk);
    ASSERT_OK(store.open());
    const std::string now = store->changes()->position();
    std::string other = now, later = now;
    other[3] = other[3] == '0' ? '1' : '0';
    later.replace(later.rfind('-'), 0, "00");
    for (const std::string& bad : {std::string("now"), now + " ", now.substr(1), other, later}) {
        const auto feed = store->changes(bad);
        ASSERT_FALSE(feed.has_value()) << bad;
        EXPECT_EQ(feed.error().code, ErrorCode::bad_argument) << bad;
    }
    auto feed = store->changes(now);
    ASSERT_OK(feed);
    ASSERT_OK(store.close());
    Change change;
}

}  // namespace lockstep::change_feed_test
