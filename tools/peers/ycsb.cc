// ycsb.cc - the Yahoo! Cloud Serving Benchmark: workloads A, B, C, E and F on one table.
//
// Concepts   A record has ten fields of 100 bytes. A read reads all of them; an update reads the
//            record and stores it with one field changed, because the small interface stores whole
//            values. Each operation is a transaction. Keys are "user" and the digits of a hash.
//            Records are chosen by a zipfian distribution with the parameter 0.99, whose ranks are
//            scattered over the keys. Workload E scans 1 to 100 records.
// Source     B. Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", 2010; J. Gray et
//            al., "Quickly Generating Billion-Record Synthetic Databases", 1994.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/clock.h>
#include "tools/peers/workload.h"

namespace lockstep::peers {

namespace {

constexpr size_t kFields = 10, kFieldBytes = 100, kRecordBytes = kFields * kFieldBytes;
constexpr uint32_t kScanMax = 100;
constexpr double kTheta = 0.99;
constexpr Table kUsers = 0;

enum Type : uint8_t { t_read, t_update, t_insert, t_scan, t_read_modify_write };

uint64_t scattered(uint64_t number) {
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned i = 0; i < sizeof(number); ++i, number >>= 8)
        hash = (hash ^ (number & 0xff)) * 0x100000001b3;
    return hash;
}

std::string user_key(uint64_t number) { return fmt::format("user{:020}", scattered(number)); }

// Ranks 0 .. count - 1, the low ones most often.
class Zipfian {
public:
    explicit Zipfian(uint64_t count) : count_(count) {
        for (uint64_t i = 1; i <= count; ++i) zeta_ += 1 / std::pow(static_cast<double>(i), kTheta);
        const double zeta2 = 1 + std::pow(0.5, kTheta);
        eta_ = (1 - std::pow(2 / static_cast<double>(count), 1 - kTheta)) / (1 - zeta2 / zeta_);
    }
    uint64_t draw(Rng& rng) const {
        const double u = static_cast<double>(rng.next() >> 11) * 0x1.0p-53;
        const double uz = u * zeta_;
        if (uz < 1) return 0;
        if (uz < 1 + std::pow(0.5, kTheta)) return 1;
        const double rank =
            static_cast<double>(count_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta));
        return std::min(count_ - 1, static_cast<uint64_t>(rank));
    }

private:
    const uint64_t count_;
    double zeta_ = 0, eta_ = 0;
};

class YcsbClient final : public Client {
public:
    YcsbClient(char letter, const Zipfian& zipfian, uint64_t records, unsigned number,
               unsigned clients, Rng rng)
        : letter_(letter),
          zipfian_(zipfian),
          records_(records),
          next_(records + number),
          step_(clients),
          rng_(rng) {}

    Result<size_t> step(Session& session, Tally& tally) override {
        const Type type = choose();
        TRY(transact(session, type == t_update || type == t_insert || type == t_read_modify_write,
                     tally, [&] { return run(session, type); }));
        if (type == t_insert) {
            next_ += step_;
            ++tally.rows_added;
        }
        return type;
    }

private:
    Type choose() {
        const uint64_t percent = rng_.below(100);
        switch (letter_) {
            case 'A': return percent < 50 ? t_update : t_read;
            case 'B': return percent < 5 ? t_update : t_read;
            case 'E': return percent < 5 ? t_insert : t_scan;
            case 'F': return percent < 50 ? t_read_modify_write : t_read;
            default: return t_read;
        }
    }

    Result<bool> run(Session& session, Type type) {
        if (type == t_insert) {
            TRY(session.insert(kUsers, user_key(next_), {record_, kRecordBytes}));
            return true;
        }
        const std::string key = user_key(scattered(zipfian_.draw(rng_)) % records_);
        if (type == t_scan) return scan(session, key);
        const Access access = type == t_read ? Access::read : Access::write;
        const auto bytes =
            TRY(session.get(kUsers, key, std::as_writable_bytes(std::span(record_)), access));
        if (bytes != kRecordBytes)
            return fail(ErrorCode::no_such_record, "ycsb: a loaded record is missing");
        if (type == t_read) return true;
        char* const field = record_ + rng_.below(kFields) * kFieldBytes;
        std::fill_n(field, kFieldBytes, static_cast<char>('a' + rng_.below(26)));
        TRY(session.put(kUsers, key, {record_, kRecordBytes}));
        return true;
    }
    Result<bool> scan(Session& session, Slice key) {
        uint64_t left = 1 + rng_.below(kScanMax);
        TRY(session.scan(
            kUsers, key, kKeyEnd, Order::ascending, Access::read, [&](Slice, Slice value) {
                std::copy_n(value.data(), std::min(value.size(), kRecordBytes), record_);
                return --left > 0;
            }));
        return true;
    }

    const char letter_;
    const Zipfian& zipfian_;
    const uint64_t records_;
    uint64_t next_;  // the number of the next record to insert
    const unsigned step_;
    Rng rng_;
    char record_[kRecordBytes] = {};
};

class Ycsb final : public Workload {
public:
    Ycsb(char letter, uint64_t records) : letter_(letter), records_(records), zipfian_(records) {}

    std::vector<std::string> tables() const override { return {"usertable"}; }
    std::vector<std::string> types() const override {
        return {"read", "update", "insert", "scan", "read-modify-write"};
    }
    Result<void> load(Session& session) override {
        std::vector<std::string> keys;
        for (uint64_t n = 0; n < records_; ++n) keys.push_back(user_key(n));
        std::sort(keys.begin(), keys.end());
        const std::string record(kRecordBytes, 'r');
        return load_table(session, kUsers, [&, next = size_t{0}](Slice& key, Slice& value) mutable {
            if (next == keys.size()) return false;
            key = keys[next++];
            value = record;
            return true;
        });
    }
    std::unique_ptr<Client> client(unsigned number, unsigned clients, uint64_t seed) override {
        return std::make_unique<YcsbClient>(letter_, zipfian_, records_, number, clients,
                                            Rng(seed).fork(number));
    }
    Result<std::vector<std::string>> check(Session& session, int64_t rows_added) override {
        TRY(session.begin(false));
        const auto rows = static_cast<int64_t>(TRY(count_rows(session, kUsers)));
        TRY(session.commit());
        const int64_t expected = static_cast<int64_t>(records_) + rows_added;
        if (rows == expected) return std::vector<std::string>();
        return std::vector{fmt::format("usertable has {} records, expected {}", rows, expected)};
    }

private:
    const char letter_;
    const uint64_t records_;
    const Zipfian zipfian_;
};

}  // namespace

std::unique_ptr<Workload> make_ycsb(const Sizes& sizes, char letter) {
    return std::make_unique<Ycsb>(letter, sizes.ycsb_records);
}

}  // namespace lockstep::peers
