// labels: model
// snapshot_model_test.cc - random transactions beside snapshots, against a model that keeps the
// committed state of each moment; and values that a writer on another worker rolls back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/function_ref.h>
#include <lockstep/heap.h>
#include <lockstep/index.h>
#include "sm/api/engine_of.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/snapshots.h"
#include "tests/sm/services/snapshot_test_util.h"

namespace lockstep::snapshot_model_test {

struct Contents {
    std::map<std::string, std::string> index;
    std::map<RecordId, std::string> heap;
};

// A live writer of the model: what it has changed, and on which records it holds locks.
struct Writer {
    Txn txn;
    Contents view;  // as it sees the store
    std::set<std::string> keys;
    std::set<RecordId> records;
    std::optional<std::pair<Savepoint, Contents>> mark;
};
struct Reader {
    Txn txn;
    Contents sees;
};

class SnapshotModel : public StoreCrash {
protected:
    std::string random_key() {
        if (rng_.below(3) == 0) return run_key(rng_.below(10));
        return "key" + std::to_string(rng_.below(60));
    }
    // One of the ten keys of a run that was inserted not long ago, or will be.
    std::string run_key(uint64_t last) {
        const uint64_t run = runs_ - std::min(runs_, rng_.below(6));
        return "run" + std::to_string(10 * run + last);
    }
    std::string random_value() {
        const uint64_t kind = rng_.below(40);
        const size_t size = kind == 0 ? 3000 + rng_.below(20'000) : kind < 8 ? 500 : rng_.below(60);
        return random_text(rng_, size);
    }
    Index index() { return *store_->index("i"); }
    Heap heap() { return *store_->heap("h"); }
    template <class T>
    T& any(std::vector<T>& list) {
        return list[rng_.below(list.size())];
    }
    template <class T>
    void forget(std::vector<T>& list, T& one) {
        if (&one != &list.back()) {
            T taken = std::move(list.back());
            list.pop_back();
            std::destroy_at(&one);
            std::construct_at(&one, std::move(taken));
        } else {
            list.pop_back();
        }
    }

    void begin_writer() {
        auto txn = store_->begin(kWriter);
        ASSERT_OK(txn);
        writers_.push_back({std::move(*txn), committed_, {}, {}, {}});
    }
    void begin_reader() {
        auto txn = store_->begin(kSnapshot);
        ASSERT_OK(txn);
        readers_.push_back({std::move(*txn), committed_});
    }
    bool owned_by_other(const Writer& writer, const std::string& key) {
        for (const Writer& other : writers_)
            if (&other != &writer && other.keys.contains(key)) return true;
        return false;
    }
    // The writer's view of a record that others may have committed since is what they left.
    void refresh(Writer& writer, const std::string& key) {
        if (writer.keys.contains(key)) return;
        writer.view.index.erase(key);
        if (const auto it = committed_.index.find(key); it != committed_.index.end())
            writer.view.index.insert(*it);
    }
    // Before the writer changes the record.
    void touch(Writer& writer, const std::string& key) {
        refresh(writer, key);
        writer.keys.insert(key);
        if (writer.mark) {  // before the change, as of the mark
            auto& then = writer.mark->second.index;
            if (!marked_keys_[&writer].contains(key)) {
                then.erase(key);
                if (const auto it = writer.view.index.find(key); it != writer.view.index.end())
                    then.insert(*it);
                marked_keys_[&writer].insert(key);
            }
        }
    }
    // Inserts those of ten neighbours that are not there.
    void insert_run(Writer& writer) {
        runs_ += rng_.below(3);
        const std::string first = run_key(0);
        std::vector<std::string> keys;
        for (uint64_t i = rng_.below(4); i < 10; i += 1 + rng_.below(8) / 7) {
            std::string key = first;
            key.back() = static_cast<char>('0' + i);
            if (owned_by_other(writer, key)) continue;
            touch(writer, key);
            if (!writer.view.index.contains(key)) keys.push_back(std::move(key));
        }
        std::vector<NewRecord> records;
        for (const std::string& key : keys) {
            records.push_back({key, first});
            writer.view.index[key] = first;
        }
        ASSERT_OK(index().insert_many(writer.txn, records));
    }
    void change_index(Writer& writer) {
        if (rng_.below(5) == 0) return insert_run(writer);
        const std::string key = random_key();
        if (owned_by_other(writer, key)) return;
        touch(writer, key);
        auto& view = writer.view.index;
        const std::string value = random_value();
        switch (rng_.below(4)) {
            case 0: {
                if (!erases_) break;
                const auto erased = index().erase(writer.txn, key);
                ASSERT_OK(erased);
                ASSERT_EQ(*erased, view.erase(key) == 1);
                break;
            }
            case 1:
                if (const auto it = view.find(key); it != view.end() && it->second.size() > 4) {
                    const std::string part(1 + rng_.below(3),
                                           static_cast<char>('0' + rng_.below(10)));
                    const size_t at = rng_.below(it->second.size() - part.size() + 1);
                    ASSERT_TRUE(*index().patch(writer.txn, key, at, part));
                    it->second.replace(at, part.size(), part);
                }
                break;
            default: ASSERT_OK(index().put(writer.txn, key, value)); view[key] = value;
        }
    }
    void change_heap(Writer& writer) {
        if (writer.mark) return;  // savepoints are tried on the index
        auto& view = writer.view.heap;
        std::string value = random_value().substr(0, 4000);
        if (rng_.below(3) == 0 || committed_.heap.empty()) {
            const auto id = heap().insert(writer.txn, value);
            ASSERT_OK(id);
            writer.records.insert(*id);
            view[*id] = value;
            return;
        }
        auto it = committed_.heap.begin();
        std::advance(it, rng_.below(committed_.heap.size()));
        const RecordId id = it->first;
        for (const Writer& other : writers_)
            if (&other != &writer && other.records.contains(id)) return;
        if (!writer.records.contains(id)) view[id] = it->second;
        writer.records.insert(id);
        if (const auto now = view.find(id); now != view.end() && rng_.below(3) == 0) {
            value = now->second;  // some of its bytes change
            for (size_t i = rng_.below(4); i < value.size(); i += 1 + rng_.below(8))
                value[i] = static_cast<char>(value[i] ^ 1);
        }
        const auto done = rng_.below(3) == 0 ? heap().erase(writer.txn, id)
                                             : heap().update(writer.txn, id, value);
        const bool erased = [&] {
            std::string text;
            return !*heap().get(writer.txn, id, text);
        }();
        ASSERT_OK(done);
        ASSERT_EQ(*done, view.contains(id));
        if (erased) view.erase(id);
        else view[id] = value;
    }
    void savepoint(Writer& writer) {
        if (!writer.mark) {
            const auto mark = writer.txn.savepoint();
            ASSERT_OK(mark);
            writer.mark.emplace(*mark, writer.view);
            marked_keys_[&writer] = writer.keys;
            return;
        }
        ASSERT_OK(writer.txn.rollback_to(writer.mark->first));
        for (const std::string& key : writer.keys) {
            writer.view.index.erase(key);
            const auto& then = writer.mark->second.index;
            if (const auto it = then.find(key); it != then.end()) writer.view.index.insert(*it);
        }
        writer.mark.reset();
    }
    void end_writer(Writer& writer) {
        if (rng_.below(4) == 0) {
            ASSERT_OK(writer.txn.abort());
        } else {
            ASSERT_OK(writer.txn.commit());
            for (const std::string& key : writer.keys) {
                committed_.index.erase(key);
                if (const auto it = writer.view.index.find(key); it != writer.view.index.end())
                    committed_.index.insert(*it);
            }
            for (const RecordId id : writer.records) {
                committed_.heap.erase(id);
                if (const auto it = writer.view.heap.find(id); it != writer.view.heap.end())
                    committed_.heap.insert(*it);
            }
        }
        marked_keys_.clear();
        for (Writer& other : writers_)
            if (&other != &writer) other.mark.reset();
        forget(writers_, writer);
    }
    void check(Reader& reader) {
        const auto& [rows, records] = reader.sees;
        std::map<std::string, std::string> seen;
        switch (rng_.below(6)) {
            case 0: {
                Cursor cursor = index().scan(reader.txn);
                for (auto more = cursor.next(); more.has_value() && *more; more = cursor.next())
                    seen.emplace(cursor.key(), cursor.value());
                ASSERT_EQ(seen, rows);
                break;
            }
            case 1: {
                Cursor cursor = index().scan(reader.txn);
                for (auto more = cursor.prev(); more.has_value() && *more; more = cursor.prev())
                    seen.emplace(cursor.key(), cursor.value());
                ASSERT_EQ(seen, rows);
                break;
            }
            case 2: {
                std::map<RecordId, std::string> found;
                ASSERT_OK(heap().scan(reader.txn, [&](RecordId id, Slice value) {
                    return found.emplace(id, value).second;
                }));
                ASSERT_EQ(found, records);
                for (const auto& [id, value] : records) {
                    std::string text;
                    ASSERT_TRUE(*heap().get(reader.txn, id, text));
                    ASSERT_EQ(text, value);
                }
                break;
            }
            case 3: {
                std::array<std::string, 20> keys;
                for (std::string& key : keys) key = random_key();
                ASSERT_OK(compare_many(index(), reader.txn, keys, rows));
                break;
            }
            default:
                for (int i = 0; i < 8; ++i) {
                    const std::string key = random_key();
                    std::string value;
                    const auto found = index().get(reader.txn, key, value);
                    ASSERT_OK(found);
                    const auto it = rows.find(key);
                    ASSERT_EQ(*found, it != rows.end()) << key;
                    ASSERT_EQ(*found ? value : "", *found ? it->second : "") << key;
                }
        }
    }
    void step() {
        switch (const uint64_t what = rng_.below(100); what) {
            case 0 ... 9:
                if (writers_.size() < 4) begin_writer();
                break;
            case 10 ... 14:
                if (readers_.size() < 6) begin_reader();
                break;
            case 15 ... 24:
                if (!readers_.empty()) check(any(readers_));
                break;
            case 25 ... 27:
                if (!readers_.empty()) forget(readers_, any(readers_));
                break;
            case 28 ... 33:
                if (!writers_.empty()) end_writer(any(writers_));
                break;
            case 34 ... 37:
                if (!writers_.empty()) savepoint(any(writers_));
                break;
            case 38:
                ASSERT_OK(sm::engine_of(*store_).ghosts->run_once());
                sm::engine_of(*store_).snapshots->table().sweep(100);
                break;
            case 39: threads::yield(); break;
            case 40 ... 54:
                if (!writers_.empty()) change_heap(any(writers_));
                break;
            default:
                if (!writers_.empty()) change_index(any(writers_));
        }
    }

    void run_steps(int steps) {
        store_.emplace(open("db"));
        make(*store_, "i", "h");
        on_thread(*store_, [&] {
            for (int n = 0; n < steps && !HasFatalFailure(); ++n) {
                step();
                if (HasFatalFailure()) ADD_FAILURE() << "at step " << n;
            }
            for (Reader& reader : readers_) check(reader);
            readers_.clear();
            writers_.clear();
        });
        expect_sound(*store_);
        ASSERT_OK(store_->close());
    }

    Rng rng_{seed_of_run()};
    bool erases_ = true;
    uint64_t runs_ = 1;  // as many have begun, or more
    // A writer changes a record and rolls most changes back; another worker reads it.
    void expect_no_aborted_value(FunctionRef<Result<std::string>(Txn&)> read_hot);

    std::optional<Store> store_;
    Contents committed_;
    std::vector<Writer> writers_;
    std::vector<Reader> readers_;
    std::map<Writer*, std::set<std::string>> marked_keys_;
};

TEST_F(SnapshotModel, RandomTransactions) { run_steps(30'000); }

// Erased keys that snapshots see stand in the way of runs (KR-1). Here are none.
TEST_F(SnapshotModel, RandomTransactionsThatEraseNothing) {
    erases_ = false;
    run_steps(10'000);
}

// A reader may copy the record while its writer rolls back on another worker.
void SnapshotModel::expect_no_aborted_value(FunctionRef<Result<std::string>(Txn&)> read_hot) {
    store_.emplace(open("db", small_options(2)));
    make(*store_, "i", "h");
    ASSERT_OK(store_->run([&](Txn& txn) { return index().put(txn, "hot", "committed 0"); }));
    std::atomic<bool> stop{false};
    auto writer = store_->start(
        [&]() -> Result<void> {
            for (uint64_t n = 1; !stop.load(); ++n) {
                Txn txn = TRY(store_->begin(kWriter));
                TRY(index().put(txn, "hot", n % 4 == 0 ? "committed 1" : "rolled back"));
                if (n % 4 == 0) TRY(txn.commit());
                else TRY(txn.abort());
                if (n % 64 == 0) threads::yield();
            }
            return {};
        },
        0);
    auto reader = store_->start(
        [&]() -> Result<void> {
            uint64_t wrong = 0;
            for (int n = 0; n < 3000 && wrong == 0; ++n) {
                Txn txn = TRY(store_->begin(kSnapshot));
                for (int i = 0; i < 100; ++i) {
                    const std::string value = TRY(read_hot(txn));
                    wrong += !value.starts_with("committed");
                }
                TRY(txn.commit());
            }
            EXPECT_EQ(wrong, 0u);
            stop.store(true);
            return {};
        },
        1);
    EXPECT_TRUE(reader.join());
    stop.store(true);
    EXPECT_TRUE(writer.join());
    ASSERT_OK(store_->close());
}

TEST_F(SnapshotModel, AnAbortedValueIsNeverSeen) {
    expect_no_aborted_value([this](Txn& txn) -> Result<std::string> {
        std::string value;
        EXPECT_TRUE(TRY(index().get(txn, "hot", value)));
        return value;
    });
}

TEST_F(SnapshotModel, ManyReadsNeverSeeAnAbortedValue) {
    expect_no_aborted_value([this](Txn& txn) -> Result<std::string> {
        std::array<std::byte, 32> buffers[2];
        std::array<Lookup, 2> rows{{{"hot", buffers[0]}, {"none", buffers[1]}}};
        EXPECT_EQ(TRY(index().get_many(txn, rows)), 1u);
        return std::string(reinterpret_cast<const char*>(buffers[0].data()), rows[0].bytes);
    });
}

}  // namespace lockstep::snapshot_model_test
