// tatp.cc - the Telecom Application Transaction Processing benchmark: four tables and an index,
// seven short transactions, 80% of them read only.
//
// Concepts   A transaction that finds no row, or a row that exists already, is committed and
//            counts, as the description demands. Subscribers are chosen non-uniformly, A = 65535.
// Source     "TATP Benchmark Description", version 1.0, IBM, 2009.
#include <fmt/format.h>

#include <cstring>

#include "tools/peers/workload.h"
#include "tpcc/random.h"

namespace lockstep::peers {

namespace {

enum TatpTable : Table { subscriber, sub_nbr, access_info, special_facility, call_forwarding };
enum Type : uint8_t {
    get_subscriber_data,
    get_new_destination,
    get_access_data,
    update_subscriber_data,
    update_location,
    insert_call_forwarding,
    delete_call_forwarding
};
constexpr uint8_t kPercent[] = {35, 10, 35, 2, 14, 2, 2};
constexpr uint32_t kSkew = 65535;  // A of the non-uniform choice
constexpr uint8_t kKinds = 4;      // of access info and special facilities
constexpr uint8_t kHours[] = {0, 8, 16};

struct [[gnu::packed]] SubscriberRow {
    char sub_nbr[15];
    uint8_t bits[10], hex[10], bytes[10];
    uint32_t msc_location, vlr_location;
};
struct [[gnu::packed]] AccessRow {
    uint8_t data_1, data_2;
    char data_3[3], data_4[5];
};
struct [[gnu::packed]] FacilityRow {
    uint8_t is_active, error_cntrl, data_a;
    char data_b[5];
};
struct [[gnu::packed]] ForwardingRow {
    uint8_t end_time;
    char number[15];
};

template <class R>
Slice bytes_of(const R& row) {
    return {reinterpret_cast<const char*>(&row), sizeof(R)};
}

// Big-endian parts, so that memcmp orders them.
class RowKey {
public:
    explicit RowKey(uint32_t s_id) {
        s_id = __builtin_bswap32(s_id);
        std::memcpy(bytes_, &s_id, sizeof(s_id));
    }
    RowKey& part(uint8_t value) {
        bytes_[size_++] = static_cast<char>(value);
        return *this;
    }
    // NOLINTNEXTLINE(google-explicit-constructor)
    operator Slice() const { return {bytes_, size_}; }

private:
    char bytes_[8];
    size_t size_ = 4;
};
RowKey key_of(uint32_t s_id) { return RowKey(s_id); }
RowKey key_of(uint32_t s_id, uint8_t kind) { return RowKey(s_id).part(kind); }
RowKey key_of(uint32_t s_id, uint8_t kind, uint8_t hour) {
    return RowKey(s_id).part(kind).part(hour);
}
std::string number_of(uint32_t s_id) { return fmt::format("{:015}", s_id); }

// False: there is no such row.
template <class R>
Result<bool> read(Session& s, TatpTable table, Slice key, R& row, Access access = Access::read) {
    const auto bytes =
        TRY(s.get(table, key, std::span(reinterpret_cast<std::byte*>(&row), sizeof(R)), access));
    return bytes.has_value();
}

class TatpClient final : public Client {
public:
    TatpClient(uint32_t subscribers, Rng rng) : subscribers_(subscribers), rng_(rng) {}

    Result<size_t> step(Session& session, Tally& tally) override {
        const Type type = choose();
        draw_input();
        int64_t added = 0;
        const bool writes = type >= update_subscriber_data;
        TRY(transact(session, writes, tally, [&]() -> Result<bool> {
            added = 0;
            TRY(run(session, type, added));
            return true;
        }));
        tally.rows_added += added;
        return type;
    }

private:
    struct Input {
        uint32_t s_id, location;
        uint8_t kind, start, end, bit, data;
    };

    Type choose() {
        auto at = static_cast<uint32_t>(rng_.below(100));
        uint8_t type = 0;
        while (at >= kPercent[type]) at -= kPercent[type++];
        return static_cast<Type>(type);
    }
    uint8_t below(uint32_t n) { return static_cast<uint8_t>(rng_.below(n)); }
    void draw_input() {
        const auto high = static_cast<uint32_t>(rng_.below(kSkew + 1));
        const auto low = static_cast<uint32_t>(rng_.between(1, subscribers_));
        in_ = {.s_id = (high | low) % subscribers_ + 1,
               .location = static_cast<uint32_t>(rng_.next()),
               .kind = static_cast<uint8_t>(1 + below(kKinds)),
               .start = kHours[below(std::size(kHours))],
               .end = static_cast<uint8_t>(1 + below(24)),
               .bit = below(2),
               .data = below(255)};
    }

    Result<void> run(Session& s, Type type, int64_t& added) {
        switch (type) {
            case get_subscriber_data: {
                SubscriberRow row;
                TRY(read(s, subscriber, key_of(in_.s_id), row));
                return {};
            }
            case get_new_destination: return new_destination(s);
            case get_access_data: {
                AccessRow row;
                TRY(read(s, access_info, key_of(in_.s_id, in_.kind), row));
                return {};
            }
            case update_subscriber_data: return update_subscriber(s);
            case update_location: return update_place(s);
            case insert_call_forwarding: return insert_forwarding(s, added);
            case delete_call_forwarding: break;
        }
        const uint32_t s_id = TRY(find_subscriber(s));
        added -= TRY(s.erase(call_forwarding, key_of(s_id, in_.kind, in_.start)));
        return {};
    }

    Result<void> new_destination(Session& s) {
        FacilityRow facility;
        if (!TRY(read(s, special_facility, key_of(in_.s_id, in_.kind), facility)) ||
            facility.is_active == 0)
            return {};
        return s.scan(call_forwarding, key_of(in_.s_id, in_.kind),
                      key_of(in_.s_id, in_.kind, static_cast<uint8_t>(in_.start + 1)),
                      Order::ascending, Access::read, [&](Slice, Slice value) {
                          ForwardingRow row;
                          std::memcpy(&row, value.data(), std::min(sizeof(row), value.size()));
                          found_ += in_.end < row.end_time;
                          return true;
                      });
    }
    Result<void> update_subscriber(Session& s) {
        SubscriberRow row;
        TRY(read(s, subscriber, key_of(in_.s_id), row, Access::write));
        row.bits[0] = in_.bit;
        TRY(s.put(subscriber, key_of(in_.s_id), bytes_of(row)));
        FacilityRow facility;
        const RowKey key = key_of(in_.s_id, in_.kind);
        if (!TRY(read(s, special_facility, key, facility, Access::write))) return {};
        facility.data_a = in_.data;
        return s.put(special_facility, key, bytes_of(facility));
    }
    Result<void> update_place(Session& s) {
        const uint32_t s_id = TRY(find_subscriber(s));
        SubscriberRow row;
        TRY(read(s, subscriber, key_of(s_id), row, Access::write));
        row.vlr_location = in_.location;
        return s.put(subscriber, key_of(s_id), bytes_of(row));
    }
    Result<void> insert_forwarding(Session& s, int64_t& added) {
        const uint32_t s_id = TRY(find_subscriber(s));
        TRY(s.scan(special_facility, key_of(s_id), key_of(s_id + 1), Order::ascending, Access::read,
                   [&](Slice, Slice) {
                       ++found_;
                       return true;
                   }));
        FacilityRow facility;
        if (!TRY(read(s, special_facility, key_of(s_id, in_.kind), facility))) return {};
        ForwardingRow row{.end_time = in_.end, .number = {}};
        const RowKey key = key_of(s_id, in_.kind, in_.start);
        ForwardingRow old;
        if (TRY(read(s, call_forwarding, key, old, Access::write))) return {};
        tpcc::random_digits(rng_, row.number);
        TRY(s.insert(call_forwarding, key, bytes_of(row)));
        ++added;
        return {};
    }
    // By number, as the description wants it.
    Result<uint32_t> find_subscriber(Session& s) const {
        uint32_t s_id = 0;
        if (!TRY(read(s, sub_nbr, number_of(in_.s_id), s_id)))
            return fail(ErrorCode::no_such_record, "tatp: sub_nbr", in_.s_id);
        return s_id;
    }

    const uint32_t subscribers_;
    Rng rng_;
    Input in_{};
    uint64_t found_ = 0;
};

class Tatp final : public Workload {
public:
    Tatp(uint32_t subscribers, uint64_t seed) : subscribers_(subscribers), seed_(seed) {}

    std::vector<std::string> tables() const override {
        return {"subscriber", "sub_nbr", "access_info", "special_facility", "call_forwarding"};
    }
    std::vector<std::string> types() const override {
        return {"GetSubscriberData",    "GetNewDestination", "GetAccessData",
                "UpdateSubscriberData", "UpdateLocation",    "InsertCallForwarding",
                "DeleteCallForwarding"};
    }

    Result<void> load(Session& session) override {
        Rng rng(seed_);
        constexpr uint32_t kBatch = 200;
        for (uint32_t s_id = 1; s_id <= subscribers_;) {
            TRY(session.begin(true));
            for (uint32_t n = 0; n < kBatch && s_id <= subscribers_; ++n, ++s_id)
                TRY(load_subscriber(session, s_id, rng));
            TRY(session.commit());
        }
        return {};
    }

    std::unique_ptr<Client> client(unsigned number, unsigned, uint64_t seed) override {
        return std::make_unique<TatpClient>(subscribers_, Rng(seed).fork(number));
    }

    // The number of rows of CALL_FORWARDING, and that each belongs to a facility.
    Result<std::vector<std::string>> check(Session& session, int64_t rows_added) override {
        std::vector<std::string> faults;
        TRY(session.begin(false));
        Rows rows(session, call_forwarding);
        int64_t found = 0;
        while (TRY(rows.next())) {
            ++found;
            FacilityRow facility;
            if (!TRY(read(session, special_facility, rows.key().substr(0, 5), facility)))
                faults.push_back(fmt::format("row {} of call_forwarding has no facility", found));
        }
        TRY(session.commit());
        const int64_t expected = forwardings_loaded() + rows_added;
        if (found != expected)
            faults.push_back(
                fmt::format("call_forwarding has {} rows, expected {}", found, expected));
        return faults;
    }

private:
    // What a subscriber has depends on its number alone, so that the check can count it.
    struct Share {
        uint8_t kinds;                // of access info
        uint8_t facilities;           // 1..4
        uint8_t forwardings[kKinds];  // of each facility, 0..3
    };
    Share share_of(uint32_t s_id) const {
        Rng rng(seed_ ^ (uint64_t{s_id} << 20));
        Share share{};
        share.kinds = static_cast<uint8_t>(rng.between(1, kKinds));
        share.facilities = static_cast<uint8_t>(rng.between(1, kKinds));
        for (uint8_t& n : share.forwardings) n = static_cast<uint8_t>(rng.below(4));
        return share;
    }
    int64_t forwardings_loaded() const {
        int64_t rows = 0;
        for (uint32_t s_id = 1; s_id <= subscribers_; ++s_id) {
            const Share share = share_of(s_id);
            for (uint8_t f = 0; f < share.facilities; ++f) rows += share.forwardings[f];
        }
        return rows;
    }

    Result<void> load_subscriber(Session& s, uint32_t s_id, Rng& rng) const {
        SubscriberRow row{};
        const std::string number = number_of(s_id);
        std::memcpy(row.sub_nbr, number.data(), sizeof(row.sub_nbr));
        for (size_t i = 0; i < std::size(row.bits); ++i) {
            row.bits[i] = static_cast<uint8_t>(rng.below(2));
            row.hex[i] = static_cast<uint8_t>(rng.below(16));
            row.bytes[i] = static_cast<uint8_t>(rng.below(256));
        }
        row.msc_location = static_cast<uint32_t>(rng.next());
        row.vlr_location = static_cast<uint32_t>(rng.next());
        TRY(s.insert(subscriber, key_of(s_id), bytes_of(row)));
        TRY(s.insert(sub_nbr, number, bytes_of(s_id)));
        const Share share = share_of(s_id);
        for (uint8_t kind = 1; kind <= share.kinds; ++kind) {
            AccessRow access{.data_1 = static_cast<uint8_t>(rng.below(256)),
                             .data_2 = static_cast<uint8_t>(rng.below(256)),
                             .data_3 = {},
                             .data_4 = {}};
            tpcc::random_letters(rng, access.data_3);
            tpcc::random_letters(rng, access.data_4);
            TRY(s.insert(access_info, key_of(s_id, kind), bytes_of(access)));
        }
        for (uint8_t f = 0; f < share.facilities; ++f) TRY(load_facility(s, s_id, f, share, rng));
        return {};
    }
    static Result<void> load_facility(Session& s, uint32_t s_id, uint8_t f, const Share& share,
                                      Rng& rng) {
        const auto kind = static_cast<uint8_t>(f + 1);
        FacilityRow facility{.is_active = rng.chance(0.85),
                             .error_cntrl = static_cast<uint8_t>(rng.below(256)),
                             .data_a = static_cast<uint8_t>(rng.below(256)),
                             .data_b = {}};
        tpcc::random_letters(rng, facility.data_b);
        TRY(s.insert(special_facility, key_of(s_id, kind), bytes_of(facility)));
        for (uint8_t n = 0; n < share.forwardings[f]; ++n) {
            ForwardingRow row{.end_time = static_cast<uint8_t>(kHours[n] + rng.between(1, 8)),
                              .number = {}};
            tpcc::random_digits(rng, row.number);
            TRY(s.insert(call_forwarding, key_of(s_id, kind, kHours[n]), bytes_of(row)));
        }
        return {};
    }

    const uint32_t subscribers_;
    const uint64_t seed_;
};

}  // namespace

std::unique_ptr<Workload> make_tatp(const Sizes& sizes) {
    return std::make_unique<Tatp>(sizes.subscribers, sizes.seed);
}

}  // namespace lockstep::peers
