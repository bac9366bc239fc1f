// labels: unit model
// key_test.cc - keys that an application composes: their order, and what happens at the limit of
// 1024 bytes. No operation may take a key that lost a part.
#include <lockstep/key.h>
#include <lockstep/key_reader.h>

#include <functional>
#include <tuple>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::key_test {

struct Appender {
    const char* name;
    size_t bytes;  // that it appends
    std::function<void(Key&)> append;
};

std::vector<Appender> appenders() {
    return {
        {"u8", 1, [](Key& k) { k.u8(1); }},
        {"u16", 2, [](Key& k) { k.u16(1); }},
        {"u32", 4, [](Key& k) { k.u32(1); }},
        {"u64", 8, [](Key& k) { k.u64(1); }},
        {"i32", 4, [](Key& k) { k.i32(-1); }},
        {"i64", 8, [](Key& k) { k.i64(-1); }},
        {"empty text", 2, [](Key& k) { k.text(""); }},
        {"text", 7, [](Key& k) { k.text("hello"); }},
        {"zero byte", 4, [](Key& k) { k.text(Slice("\0", 1)); }},
        {"zero bytes", 12, [](Key& k) { k.text(Slice("\0\0\0\0\0", 5)); }},
        {"zero byte at the end", 8, [](Key& k) { k.text(Slice("hell\0", 5)); }},
    };
}

Key of_bytes(size_t n) {
    Key key;
    while (key.size() < n) key.u8(static_cast<uint8_t>(key.size()));
    return key;
}

TEST(KeyOfParts, TakesExactlyWhatAnIndexTakes) {
    for (const Appender& part : appenders()) {
        SCOPED_TRACE(part.name);
        Key full = of_bytes(kKeyBytesMax - part.bytes);
        const std::string before(full);
        part.append(full);
        EXPECT_FALSE(full.overflowed());
        ASSERT_EQ(full.size(), kKeyBytesMax);
        EXPECT_EQ(Slice(full).substr(0, before.size()), before);
    }
}

TEST(KeyOfParts, OneByteMoreOverflowsForGood) {
    for (const Appender& part : appenders()) {
        for (size_t missing = 1; missing <= part.bytes; ++missing) {
            SCOPED_TRACE(std::string(part.name) + ", missing " + std::to_string(missing));
            Key key = of_bytes(kKeyBytesMax - part.bytes + missing);
            part.append(key);
            EXPECT_TRUE(key.overflowed());
            EXPECT_GT(Slice(key).size(), kKeyBytesMax);  // what each index refuses
            for (const Appender& later : appenders()) {
                later.append(key);
                EXPECT_TRUE(key.overflowed());
                EXPECT_EQ(Slice(key).size(), kKeyBytesMax + 1);
            }
            const Key copy = key;
            EXPECT_TRUE(copy.overflowed());
            EXPECT_EQ(Slice(copy), Slice(key));
            Key assigned;
            assigned = key;
            EXPECT_TRUE(assigned.overflowed());
            assigned = of_bytes(3);
            EXPECT_FALSE(assigned.overflowed());
            EXPECT_EQ(Slice(assigned), Slice(of_bytes(3)));
        }
    }
}

TEST(KeyOfParts, LongTextsAreKeptWhole) {
    EXPECT_EQ(Key().text(std::string(200, 'x')).size(), 202u);
    const std::string a = std::string(200, 'x') + "a", b = std::string(200, 'x') + "b";
    EXPECT_NE(Slice(Key().text(a)), Slice(Key().text(b)));
    EXPECT_EQ(Key().text(std::string(kKeyBytesMax - 2, 'x')).size(), kKeyBytesMax);
    EXPECT_TRUE(Key().text(std::string(kKeyBytesMax - 1, 'x')).overflowed());
    EXPECT_EQ(Key().text(std::string(kKeyBytesMax / 2 - 1, '\0')).size(), kKeyBytesMax);
    EXPECT_TRUE(Key().text(std::string(kKeyBytesMax / 2, '\0')).overflowed());
    EXPECT_TRUE(Key().text(std::string(1 << 20, 'x')).overflowed());
}

TEST(KeyOfParts, CopiesOfEverySize) {
    for (size_t n = 0; n <= kKeyBytesMax; ++n) {
        const Key key = of_bytes(n);
        const Key copy = key;
        Key assigned = of_bytes(n * 7 % (kKeyBytesMax + 1));
        assigned = copy;
        assigned = *&assigned;
        ASSERT_EQ(Slice(copy), Slice(key)) << n;
        ASSERT_EQ(Slice(assigned), Slice(key)) << n;
    }
}

// Random parts against std::tuple's order.
TEST(KeyOfParts, SortsByItsParts) {
    Rng rng(seed_of_run(1));
    using Parts = std::tuple<std::string, int32_t, std::string, uint64_t>;
    const auto text = [&] {
        std::string s(rng.below(4), '\0');
        for (char& c : s) c = "\0\1a\xff"[rng.below(4)];
        return s;
    };
    const auto parts = [&] {
        return Parts{text(), static_cast<int32_t>(rng.below(5)) - 2, text(), rng.below(3)};
    };
    for (int i = 0; i < 20000; ++i) {
        const Parts a = parts(), b = parts();
        const auto key = [](const Parts& p) {
            return std::string(Key()
                                   .text(std::get<0>(p))
                                   .i32(std::get<1>(p))
                                   .text(std::get<2>(p))
                                   .u64(std::get<3>(p)));
        };
        const auto sign = [](int c) { return (c > 0) - (c < 0); };
        const auto wanted = a <=> b;
        ASSERT_EQ(sign(key(a).compare(key(b))), wanted < 0 ? -1 : wanted > 0);
    }
}

class LongKeys : public StoreCrash {};

// Each operation of the public interface that takes a key.
using Operation = std::function<Result<void>(Store&, const Index&, Txn&, Slice)>;
template <class T>
Result<void> without_value(Result<T> r) {
    if (!r.has_value()) return std::unexpected(r.error());
    return {};
}
std::vector<std::pair<const char*, Operation>> operations() {
    return {
        {"get",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             std::string value;
             return without_value(i.get(t, k, value));
         }},
        {"get for update",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             std::byte buffer[8];
             return without_value(i.get(t, k, buffer, Access::update));
         }},
        {"get_many",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             Lookup rows[] = {{.key = "a", .buffer = {}}, {.key = k, .buffer = {}}};
             return without_value(i.get_many(t, rows));
         }},
        {"insert",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return i.insert(t, k, "v");
         }},
        {"insert_many",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             const NewRecord one[] = {{k, "v"}};
             return i.insert_many(t, one);
         }},
        {"insert_many behind others",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             const Savepoint before = TRY(t.savepoint());
             const NewRecord some[] = {{"m", "v"}, {"n", "v"}, {"o", "v"}, {k, "v"}};
             Result<void> done = i.insert_many(t, some);
             TRY(t.rollback_to(before));
             return done;
         }},
        {"update",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.update(t, k, "v"));
         }},
        {"put",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> { return i.put(t, k, "v"); }},
        {"patch",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.patch(t, k, 0, "v"));
         }},
        {"patch with a hint",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             Lookup row{.key = "a", .buffer = {}};
             TRY(i.get_many(t, {&row, 1}, Access::write));
             return without_value(i.patch(t, k, 0, "v", row.hint));
         }},
        {"modify",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(
                 i.modify(t, k, {}, [](std::span<std::byte>) { return ByteRange{}; }));
         }},
        {"modify_many",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             Lookup rows[] = {{.key = "a", .buffer = {}}, {.key = k, .buffer = {}}};
             return without_value(
                 i.modify_many(t, rows, [](size_t, std::span<std::byte>) { return ByteRange{}; }));
         }},
        {"erase",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.erase(t, k));
         }},
        {"scan from",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.scan(t, k).next());
         }},
        {"scan back from",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.scan(t, {}, k).prev());
         }},
        {"scan to",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.scan(t, "a", k, Access::write).next());
         }},
        {"scan back to",
         [](Store&, const Index& i, Txn& t, Slice k) -> Result<void> {
             return without_value(i.scan(t, k, "z").prev());
         }},
        {"bulk_load",
         [](Store& store, const Index&, Txn& t, Slice k) -> Result<void> {
             Index other = TRY(store.create_index(t, "loaded"));
             bool first = true;
             return store.bulk_load(t, other, [&](Slice& key, Slice& value) {
                 key = k, value = "v";
                 return std::exchange(first, false);
             });
         }},
    };
}

TEST_F(LongKeys, EveryOperationRefusesAnOverflowedKey) {
    Store store = open("a");
    Index index;
    const Result<void> made = store.run([&](Txn& txn) -> Result<void> {
        index = TRY(store.create_index(txn, "t"));
        for (const char* key : {"a", "b", "c"}) TRY(index.insert(txn, key, "1"));
        return {};
    });
    ASSERT_TRUE(made) << made.error().text();
    const Key cut = Key().u32(7).text(std::string(kKeyBytesMax, 'x'));
    for (const Isolation isolation :
         {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed}) {
        for (const auto& [name, operation] : operations()) {
            SCOPED_TRACE(name);
            const Result<void> done = store.run(
                [&](Txn& txn) -> Result<void> {
                    const Result<void> refused = operation(store, index, txn, cut);
                    if (refused) return fail(ErrorCode::cancelled, "was taken");
                    EXPECT_EQ(refused.error().code, ErrorCode::key_too_long);
                    EXPECT_NE(refused.error().text().find("1024"), std::string::npos)
                        << refused.error().text();
                    // The transaction may go on.
                    TRY(index.put(txn, "a", "2"));
                    return fail(ErrorCode::rolled_back);
                },
                {.isolation = isolation});
            EXPECT_EQ(done.error().code, ErrorCode::rolled_back) << done.error().text();
        }
    }
    EXPECT_TRUE(store.verify()->empty());
}

// The longest keys that fit are taken by all of them, and are different keys.
TEST_F(LongKeys, LongestKeysAreOrdinaryKeys) {
    Store store = open("a");
    const Result<void> done = store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.create_index(txn, "t"));
        const std::string same(kKeyBytesMax - 7, 'x');
        for (const uint8_t n : {1, 2, 3}) {
            const Key key = Key().text(same + std::string(1, static_cast<char>(n))).u32(n);
            EXPECT_EQ(key.size(), kKeyBytesMax);
            TRY(index.insert(txn, key, std::to_string(n)));
        }
        std::string value;
        for (const uint8_t n : {1, 2, 3}) {
            const Key key = Key().text(same + std::string(1, static_cast<char>(n))).u32(n);
            EXPECT_TRUE(TRY(index.get(txn, key, value)));
            EXPECT_EQ(value, std::to_string(n));
        }
        const Key low = Key().text(same + "\2").u32(2), high = Key().text(same + "\3").u32(3);
        Cursor cursor = index.scan(txn, low, high);
        EXPECT_TRUE(TRY(cursor.next()));
        EXPECT_EQ(cursor.key(), Slice(low));
        EXPECT_FALSE(TRY(cursor.next()));
        Cursor back = index.scan(txn, {}, high);
        EXPECT_TRUE(TRY(back.prev()));
        EXPECT_EQ(back.key(), Slice(low));
        return {};
    });
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_TRUE(store.verify()->empty());
}

TEST(KeyReader, GivesBackWhatKeyHasPacked) {
    Rng rng(seed_of_run(11));
    for (int round = 0; round < 2000; ++round) {
        const uint64_t bits = rng.next();
        std::string text(rng.below(20), 'x');
        for (char& c : text) c = static_cast<char>(rng.chance(0.3) ? 0 : rng.below(256));
        Key key;
        key.u8(static_cast<uint8_t>(bits)).text(text).i32(static_cast<int32_t>(bits));
        key.u16(static_cast<uint16_t>(bits)).i64(static_cast<int64_t>(bits)).text("").u64(bits);
        key.u32(static_cast<uint32_t>(bits));
        KeyReader reader(key);
        EXPECT_EQ(reader.u8(), static_cast<uint8_t>(bits));
        EXPECT_EQ(reader.text(), text);
        EXPECT_EQ(reader.i32(), static_cast<int32_t>(bits));
        EXPECT_EQ(reader.u16(), static_cast<uint16_t>(bits));
        EXPECT_EQ(reader.i64(), static_cast<int64_t>(bits));
        EXPECT_EQ(reader.text(), "");
        EXPECT_EQ(reader.u64(), bits);
        EXPECT_EQ(reader.rest().size(), 4u);
        EXPECT_TRUE(reader.ok() && !reader.at_end());
        EXPECT_EQ(reader.u32(), static_cast<uint32_t>(bits));
        ASSERT_TRUE(reader.at_end());
    }
}

TEST(KeyReader, SaysThatAPartIsNotThere) {
    for (const Slice cut : {Slice("\1\2\3", 3), Slice("a\0", 2), Slice("a\0b", 3), Slice("a", 1),
                            Slice("\0", 1), Slice()}) {
        KeyReader text(cut), number(cut), negative(cut);
        EXPECT_EQ(text.text(), "");
        EXPECT_EQ(number.u32(), 0u);
        EXPECT_EQ(negative.i64(), 0);
        for (const KeyReader* reader : {&text, &number, &negative})
            EXPECT_FALSE(reader->ok() || reader->at_end());
        EXPECT_EQ(number.u8(), 0u);  // for good
        EXPECT_FALSE(number.ok());
    }
}

}  // namespace lockstep::key_test
