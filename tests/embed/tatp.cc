// tatp.cc - the seven transactions of TATP on a small population, from 16 user threads, and the
// consistency of the tables afterwards.
//
// Source     "Telecommunication Application Transaction Processing (TATP) Benchmark Description",
//            IBM Software Group Information Management, 2009.
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <tuple>
#include <vector>

#include <embed/expect.h>

using namespace lockstep;
using embed::expect, embed::expect_value, embed::Random;

namespace {

constexpr uint32_t kSubscribers = 500;
constexpr int kThreads = 16, kTransactions = 250;  // by each thread

// Records are plain structs: bytes of the value.
struct Subscriber {
    std::array<uint8_t, 10> bits, hexes, bytes;
    uint32_t msc_location, vlr_location;
};
struct AccessInfo {
    uint8_t data1, data2;
    char data3[3], data4[5];
};
struct Facility {
    uint8_t active, error_control, data_a;
    char data_b[5];
};
struct Forwarding {
    uint8_t end_time;
    char number[15];
};

template <class T>
Slice bytes_of(const T& record) {
    return {reinterpret_cast<const char*>(&record), sizeof record};
}
template <class T>
Result<bool> fetch(const Index& table, Txn& txn, const Key& key, T& record,
                   Access access = Access::read) {
    const auto bytes = std::as_writable_bytes(std::span(&record, 1));
    const auto found = LOCKSTEP_TRY(table.get(txn, key, bytes, access));
    expect(!found || *found == sizeof record, "the length of a record");
    return found.has_value();
}

std::string number_of(uint32_t s_id) {
    char text[16];
    std::snprintf(text, sizeof text, "%015u", s_id);
    return text;
}

enum Kind {
    kGetSubscriber,
    kGetDestination,
    kGetAccess,
    kUpdateSubscriber,
    kUpdateLocation,
    kInsertForwarding,
    kDeleteForwarding,
    kKinds
};
constexpr const char* kNames[kKinds] = {"GET_SUBSCRIBER_DATA",   "GET_NEW_DESTINATION",
                                        "GET_ACCESS_DATA",       "UPDATE_SUBSCRIBER_DATA",
                                        "UPDATE_LOCATION",       "INSERT_CALL_FORWARDING",
                                        "DELETE_CALL_FORWARDING"};
constexpr unsigned kShares[kKinds] = {35, 10, 35, 2, 14, 2, 2};  // percent
// The share of the transactions that find their row, by the population's rules.
constexpr double kSuccess[kKinds] = {1, 0.239, 0.625, 0.625, 1, 0.3125, 0.3125};

struct Counts {
    std::array<uint64_t, kKinds> tried{}, done{};
};

class Tatp {
public:
    explicit Tatp(const std::string& path) : store_(expect_value(Store::open(path), "open")) {
        Random random(1);
        expect_value(store_.run([&](Txn& txn) { return create(txn); }), "create");
        for (uint32_t s_id = 1; s_id <= kSubscribers; ++s_id)
            expect_value(store_.run([&](Txn& txn) { return populate(txn, s_id, random); }, kLazy),
                         "load");
    }
    void run() {
        const uint64_t loaded = count(forwarding_);
        std::vector<Handle<Counts>> threads;
        for (uint64_t n = 0; n < kThreads; ++n)
            threads.push_back(store_.start([&, n] { return work(n + 1); }));
        Counts sum;
        for (auto& thread : threads) {
            const Counts one = expect_value(thread.join(), "transactions");
            for (int k = 0; k < kKinds; ++k)
                sum.tried[k] += one.tried[k], sum.done[k] += one.done[k];
        }
        expect(count(forwarding_) ==
                   loaded + sum.done[kInsertForwarding] - sum.done[kDeleteForwarding],
               "the number of call forwardings");
        for (int k = 0; k < kKinds; ++k) {
            const auto tried = static_cast<double>(sum.tried[k]);
            const double share = static_cast<double>(sum.done[k]) / tried;
            // Four standard deviations, and what inserts and deletes change.
            expect(std::abs(share - kSuccess[k]) < 4 * 0.5 / std::sqrt(tried) + 0.03,
                   std::string("the share of successes of ") + kNames[k]);
            std::printf("%-22s %5llu, found its row: %.1f%%\n", kNames[k],
                        static_cast<unsigned long long>(sum.tried[k]), 100 * share);
        }
        expect(count(by_number_) == kSubscribers && count(subscriber_) == kSubscribers,
               "the number of subscribers");
        expect_value(store_.run([&](Txn& txn) { return check(txn); }), "check");
        expect(expect_value(store_.verify(), "verify").empty(), "the store is not sound");
    }

private:
    static constexpr TxnOptions kLazy = {.durability = Durability::lazy};

    Result<void> create(Txn& txn) {
        subscriber_ = LOCKSTEP_TRY(store_.create_index(txn, "subscriber"));
        by_number_ = LOCKSTEP_TRY(store_.create_index(txn, "subscriber by sub_nbr"));
        access_ = LOCKSTEP_TRY(store_.create_index(txn, "access_info"));
        facility_ = LOCKSTEP_TRY(store_.create_index(txn, "special_facility"));
        forwarding_ = LOCKSTEP_TRY(store_.create_index(txn, "call_forwarding"));
        return {};
    }
    Result<void> populate(Txn& txn, uint32_t s_id, Random& random) {
        Subscriber s{};
        for (auto& bit : s.bits) bit = static_cast<uint8_t>(random.below(2));
        s.vlr_location = static_cast<uint32_t>(random.next());
        LOCKSTEP_TRY(subscriber_.insert(txn, Key().u32(s_id), bytes_of(s)));
        LOCKSTEP_TRY(by_number_.insert(txn, number_of(s_id), Slice(Key().u32(s_id))));
        // 1 to 4 of the four types, each equally likely.
        for (const uint8_t type : some_types(random))
            LOCKSTEP_TRY(access_.insert(txn, Key().u32(s_id).u8(type), bytes_of(AccessInfo{})));
        for (const uint8_t type : some_types(random)) {
            const Facility f{
                .active = random.below(100) < 85, .error_control = 0, .data_a = 0, .data_b = {}};
            LOCKSTEP_TRY(facility_.insert(txn, Key().u32(s_id).u8(type), bytes_of(f)));
            // 0 to 3 of the three start times.
            uint64_t left = random.below(4);
            for (uint64_t i = 0; i < 3; ++i) {
                if (random.below(3 - i) >= left) continue;
                --left;
                const auto start = static_cast<uint8_t>(8 * i);
                LOCKSTEP_TRY(put_forwarding(txn, s_id, type, start, random));
            }
        }
        return {};
    }
    static std::vector<uint8_t> some_types(Random& random) {
        std::vector<uint8_t> types;
        uint64_t left = 1 + random.below(4);
        for (uint64_t i = 0; i < 4; ++i)
            if (random.below(4 - i) < left) types.push_back(static_cast<uint8_t>(i + 1)), --left;
        return types;
    }
    Result<void> put_forwarding(Txn& txn, uint32_t s_id, uint8_t type, uint8_t start,
                                Random& random) {
        const Forwarding f{.end_time = static_cast<uint8_t>(start + 1 + random.below(8)),
                           .number = {}};
        return forwarding_.insert(txn, Key().u32(s_id).u8(type).u8(start), bytes_of(f));
    }

    Result<Counts> work(uint64_t seed) {
        Random random(seed);
        Counts counts;
        for (int i = 0; i < kTransactions; ++i) {
            uint64_t dice = random.below(100);
            int kind = 0;
            while (dice >= kShares[kind]) dice -= kShares[kind++];
            const Random begin = random;
            bool found = false;
            LOCKSTEP_TRY(store_.run(
                [&](Txn& txn) -> Result<void> {
                    random = begin;  // a repeated transaction has the same input
                    found = LOCKSTEP_TRY(transaction(txn, static_cast<Kind>(kind), random));
                    return {};
                },
                kLazy));
            ++counts.tried[static_cast<size_t>(kind)];
            counts.done[static_cast<size_t>(kind)] += found;
        }
        return counts;
    }
    // True if the rows that the transaction asks for exist.
    Result<bool> transaction(Txn& txn, Kind kind, Random& random) {
        const auto s_id = static_cast<uint32_t>(1 + random.below(kSubscribers));
        const auto type = static_cast<uint8_t>(1 + random.below(4));
        const auto start = static_cast<uint8_t>(8 * random.below(3));
        Subscriber s;
        AccessInfo a;
        switch (kind) {
            case kGetSubscriber: return fetch(subscriber_, txn, Key().u32(s_id), s);
            case kGetDestination: return get_destination(txn, s_id, type, start, random);
            case kGetAccess: return fetch(access_, txn, Key().u32(s_id).u8(type), a);
            case kUpdateSubscriber: return update_subscriber(txn, s_id, type, random);
            case kUpdateLocation: return update_location(txn, s_id, random);
            case kInsertForwarding: return insert_forwarding(txn, s_id, type, start, random);
            default: {
                const uint32_t found = LOCKSTEP_TRY(find(txn, number_of(s_id)));
                return forwarding_.erase(txn, Key().u32(found).u8(type).u8(start));
            }
        }
    }
    Result<uint32_t> find(Txn& txn, const std::string& number) {
        std::string key;
        expect(LOCKSTEP_TRY(by_number_.get(txn, number, key)), "a subscriber number is missing");
        uint32_t s_id = 0;
        for (const char byte : key) s_id = s_id << 8 | static_cast<uint8_t>(byte);
        return s_id;
    }
    Result<bool> get_destination(Txn& txn, uint32_t s_id, uint8_t type, uint8_t start,
                                 Random& random) {
        const auto end = static_cast<uint8_t>(1 + random.below(24));
        Facility f;
        if (!LOCKSTEP_TRY(fetch(facility_, txn, Key().u32(s_id).u8(type), f)) || !f.active)
            return false;
        bool found = false;
        const auto next = static_cast<uint8_t>(start + 1);
        Cursor cursor =
            forwarding_.scan(txn, Key().u32(s_id).u8(type), Key().u32(s_id).u8(type).u8(next));
        while (LOCKSTEP_TRY(cursor.next())) found |= static_cast<uint8_t>(cursor.value()[0]) > end;
        return found;
    }
    Result<bool> update_subscriber(Txn& txn, uint32_t s_id, uint8_t type, Random& random) {
        const auto bit = static_cast<char>(random.below(2));
        const auto data = static_cast<char>(random.below(256));
        expect(LOCKSTEP_TRY(subscriber_.patch(txn, Key().u32(s_id), 0, Slice(&bit, 1))), "missing");
        return facility_.patch(txn, Key().u32(s_id).u8(type), offsetof(Facility, data_a),
                               Slice(&data, 1));
    }
    Result<bool> update_location(Txn& txn, uint32_t s_id, Random& random) {
        const uint32_t found = LOCKSTEP_TRY(find(txn, number_of(s_id)));
        const auto location = static_cast<uint32_t>(random.next());
        return subscriber_.patch(txn, Key().u32(found), offsetof(Subscriber, vlr_location),
                                 bytes_of(location));
    }
    Result<bool> insert_forwarding(Txn& txn, uint32_t s_id, uint8_t type, uint8_t start,
                                   Random& random) {
        const uint32_t found = LOCKSTEP_TRY(find(txn, number_of(s_id)));
        Facility f;
        if (!LOCKSTEP_TRY(fetch(facility_, txn, Key().u32(found).u8(type), f))) return false;
        const Result<void> put = put_forwarding(txn, found, type, start, random);
        if (!put && put.error().code == ErrorCode::duplicate_key) return false;
        if (!put) return Unexpected(put.error());
        return true;
    }

    uint64_t count(const Index& table) {
        return expect_value(store_.run([&](Txn& txn) -> Result<uint64_t> {
            uint64_t n = 0;
            Cursor cursor = table.scan(txn);
            while (LOCKSTEP_TRY(cursor.next())) ++n;
            return n;
        }),
                            "count");
    }
    // Every number leads to its subscriber, and every row belongs to another that exists.
    Result<void> check(Txn& txn) {
        std::string value;
        Cursor numbers = by_number_.scan(txn);
        while (LOCKSTEP_TRY(numbers.next())) {
            expect(number_of(LOCKSTEP_TRY(find(txn, std::string(numbers.key())))) == numbers.key(),
                   "a number leads to another subscriber");
            expect(LOCKSTEP_TRY(subscriber_.get(txn, numbers.value(), value)), "no subscriber");
        }
        for (const auto& [rows, owners, bytes] : {std::tuple(access_, subscriber_, size_t{4}),
                                                  std::tuple(facility_, subscriber_, size_t{4}),
                                                  std::tuple(forwarding_, facility_, size_t{5})}) {
            Cursor cursor = rows.scan(txn);
            while (LOCKSTEP_TRY(cursor.next()))
                expect(LOCKSTEP_TRY(owners.get(txn, cursor.key().substr(0, bytes), value)),
                       "a row without its owner");
        }
        return {};
    }

    Store store_;
    Index subscriber_, by_number_, access_, facility_, forwarding_;
};

}  // namespace

int main(int argc, char** argv) {
    Tatp(embed::directory(argc, argv) + "/tatp.db").run();
    return 0;
}
