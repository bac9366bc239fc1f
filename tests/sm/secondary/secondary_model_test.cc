// labels: model
// secondary_model_test.cc - random changes of an index with three secondary ones, with savepoints,
// rollback, crashes and reopening, against std::map.
#include "tests/sm/secondary/secondary_util.h"

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::secondary_model_test {

using Records = std::map<std::string, std::string>;

void last_field(Slice key, Slice value, SecondaryKeys& keys) {
    if (const size_t bar = value.rfind('|'); bar != Slice::npos && bar + 1 < value.size())
        keys.add(std::string(value.substr(bar + 1)) + std::string(key.substr(0, 1)));
}
// Unique: no two records have one length and one first byte of their key.
void length(Slice key, Slice value, SecondaryKeys& keys) {
    keys.add(Key().u32(static_cast<uint32_t>(value.size() / 4)).u8(static_cast<uint8_t>(key[0])));
}

struct Kind {
    const char* name;
    void (*function)(Slice, Slice, SecondaryKeys&);
    bool unique;
};
constexpr Kind kKinds[] = {
    {"s", first_field, false}, {"t", last_field, false}, {"u", length, true}};

class SecondaryModel : public SecondaryStore {
protected:
    static Pairs expected(const Kind& kind, const Records& records) {
        Pairs pairs;
        for (const auto& [key, value] : records) {
            SecondaryKeys keys;
            kind.function(key, value, keys);
            for (size_t n = 0; n < keys.size(); ++n) pairs.emplace(keys[n], key);
        }
        return pairs;
    }
    static bool collides(const Records& records, const std::string& key, const std::string& value) {
        Records changed = records;
        changed[key] = value;
        std::set<std::string> keys;
        for (const auto& [own, primary] : expected(kKinds[2], changed)) keys.insert(own);
        return keys.size() != changed.size();
    }
    static Result<void> make(Store& store, Txn& txn) {
        const Index i = LOCKSTEP_TRY(store.open_or_create_index(txn, "i"));
        for (const Kind& kind : kKinds)
            LOCKSTEP_TRY(store.open_or_create_index(
                txn, kind.name, {.of = i, .key = kind.function, .unique = kind.unique}));
        return {};
    }
    static std::string random_value(Rng& rng) {
        std::string value;
        for (uint64_t n = rng.below(3); n > 0; --n)
            value += std::string(1 + rng.below(2), static_cast<char>('a' + rng.below(3))) + ",";
        value += "|" + std::string(rng.below(rng.chance(0.05) ? 4000 : 300), 'x') + "|";
        if (rng.chance(0.7)) value += static_cast<char>(rng.below(3));
        return value;
    }
    // One random change; the model follows what the store must do.
    static Result<void> change(const Index& i, Txn& txn, Records& records, Rng& rng) {
        const std::string key =
            std::string(1, static_cast<char>('a' + rng.below(3))) + std::to_string(rng.below(15));
        const bool there = records.contains(key);
        std::string value = random_value(rng);
        ErrorCode wanted =
            collides(records, key, value) ? ErrorCode::duplicate_key : ErrorCode::none;
        ErrorCode got = ErrorCode::none;
        bool changes = true;
        const uint64_t what = rng.below(6);
        switch (what) {
            case 0:
                if (there) wanted = ErrorCode::duplicate_key;
                got = code_of(i.insert(txn, key, value));
                break;
            case 1: got = code_of(i.put(txn, key, value)); break;
            case 2: {
                if (!there) wanted = ErrorCode::none;
                changes = there;
                const auto done = i.update(txn, key, value);
                got = code_of(done);
                EXPECT_TRUE(!done.has_value() || *done == there);
                break;
            }
            case 3: {
                changes = there && !records[key].empty();
                if (!there) records.erase(key);
                const std::string part(1, static_cast<char>('a' + rng.below(3)));
                if (there) value = records[key];
                const size_t at = value.empty() ? 0 : rng.below(value.size());
                if (!value.empty()) value.replace(at, 1, part);
                wanted = !there                          ? ErrorCode::none
                         : records[key].empty()          ? ErrorCode::bad_argument
                         : collides(records, key, value) ? ErrorCode::duplicate_key
                                                         : ErrorCode::none;
                got = code_of(i.patch(txn, key, at, part));
                break;
            }
            case 4: {
                const auto done = i.erase(txn, key);
                got = code_of(done);
                wanted = ErrorCode::none;
                changes = false;
                records.erase(key);
                break;
            }
            default: {
                const std::string second = key + "+";
                const std::string other = random_value(rng);
                const NewRecord many[] = {{key, value}, {second, other}};
                if (there) wanted = ErrorCode::duplicate_key;
                if (wanted == ErrorCode::none) {
                    records[key] = value;
                    if (records.contains(second) || collides(records, second, other))
                        wanted = ErrorCode::duplicate_key;
                    else records[second] = other;
                }
                changes = false;
                got = code_of(i.insert_many(txn, many));
            }
        }
        EXPECT_EQ(error_name(got), std::string(error_name(wanted))) << key << ", change " << what;
        if (got != wanted) return fail(ErrorCode::cancelled, "model");
        if (wanted == ErrorCode::none && changes) records[key] = value;
        return {};
    }
    static Result<void> compare(Store& store, Txn& txn, const Records& records) {
        for (const Kind& kind : kKinds)
            EXPECT_EQ(LOCKSTEP_TRY(pairs_of(store, txn, kind.name)), expected(kind, records))
                << kind.name;
        return {};
    }
};

TEST_F(SecondaryModel, RandomTransactions) {
    const uint64_t seed = seed_of_run(11);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    Records committed;
    for (int life = 0; life < 4 && !HasFailure(); ++life) {
        const std::string name = "life" + std::to_string(life);
        Store store = open(name);
        SCOPED_TRACE(name);
        ASSERT_OK(store.run([&](Txn& txn) { return make(store, txn); }));
        expect_sound(store);
        on_thread(store, [&] {
            for (int n = 0; n < 150 && !HasFailure(); ++n) {
                Txn txn = std::move(*store.begin({.durability = Durability::lazy}));
                Records records = committed;
                std::optional<std::pair<Savepoint, Records>> point;
                const Index i = *store.index("i");
                for (uint64_t changes = 1 + rng.below(12); changes > 0; --changes) {
                    if (rng.chance(0.1)) point.emplace(*txn.savepoint(), records);
                    if (point && rng.chance(0.1)) {
                        ASSERT_OK(txn.rollback_to(point->first));
                        records = point->second;
                    }
                    ASSERT_OK(change(i, txn, records, rng));
                }
                if (rng.chance(0.3)) ASSERT_OK(compare(store, txn, records));
                if (rng.chance(0.2)) {
                    ASSERT_OK(txn.abort());
                } else {
                    ASSERT_OK(txn.commit());
                    committed = std::move(records);
                }
            }
            // A kill in the middle of a transaction: the next life recovers the copy.
            Txn loser = std::move(*store.begin());
            Records lost = committed;
            for (int n = 0; n < 5; ++n) ASSERT_OK(change(*store.index("i"), loser, lost, rng));
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                TRY(store.create_index(txn, "mark" + std::to_string(life)));
                return {};
            }));
            copy(name, "life" + std::to_string(life + 1));
            ASSERT_OK(loser.abort());
        });
        if (HasFailure()) return;
        EXPECT_EQ(index_content(store, "i"), committed);
        expect_sound(store);
    }
}

}  // namespace lockstep::secondary_model_test
