// ycsb.cc - the workloads A to F of YCSB: zipfian requests from 16 user threads, and counts that
// must agree with the store.
//
// Source     B. Cooper and others, "Benchmarking Cloud Serving Systems with YCSB", 2010. The
//            zipfian generator: J. Gray and others, "Quickly Generating Billion-Record Synthetic
//            Databases", 1994.
#include <algorithm>
#include <cmath>
#include <vector>

#include <embed/expect.h>

using namespace lockstep;
using embed::expect, embed::expect_value, embed::Random;

namespace {

constexpr uint64_t kRecords = 2000;
constexpr int kThreads = 16, kOperations = 125;  // by each thread and workload
constexpr size_t kFieldBytes = 100, kFields = 10;

// Numbers below n: the most popular one is 0.
class Zipfian {
public:
    explicit Zipfian(uint64_t n) : n_(static_cast<double>(n)), zeta_(zeta(n)) {
        eta_ = (1 - std::pow(2 / n_, 1 - kTheta)) / (1 - zeta(2) / zeta_);
    }
    uint64_t next(Random& random) const {
        const double u = random.real(), uz = u * zeta_;
        if (uz < 1) return 0;
        if (uz < 1 + std::pow(0.5, kTheta)) return 1;
        return static_cast<uint64_t>(n_ * std::pow(eta_ * u - eta_ + 1, 1 / (1 - kTheta)));
    }
    double share_of_first() const { return 1 / zeta_; }

private:
    static constexpr double kTheta = 0.99;
    static double zeta(uint64_t n) {
        double sum = 0;
        for (uint64_t i = 1; i <= n; ++i) sum += 1 / std::pow(static_cast<double>(i), kTheta);
        return sum;
    }
    double n_, zeta_, eta_;
};

// A workload: percentages of its operations, and whether it asks for the newest records.
struct Mix {
    const char* name;
    unsigned read, update, insert, scan, read_modify_write;
    bool latest = false;
};
constexpr Mix kMixes[] = {{"A", 50, 50, 0, 0, 0}, {"B", 95, 5, 0, 0, 0},
                          {"C", 100, 0, 0, 0, 0}, {"D", 95, 0, 5, 0, 0, true},
                          {"E", 0, 0, 5, 95, 0},  {"F", 50, 0, 0, 0, 50}};

struct Counts {
    uint64_t reads = 0, updates = 0, inserts = 0, scans = 0, first = 0, requests = 0;
    Counts& operator+=(const Counts& o) {
        reads += o.reads, updates += o.updates, inserts += o.inserts, scans += o.scans;
        first += o.first, requests += o.requests;
        return *this;
    }
};

// A record counts its updates in the first eight bytes of its first field.
uint64_t updates_of(const std::string& value) { return std::stoull(value.substr(0, 8)); }
std::string with_updates(std::string value, uint64_t n) {
    char text[9];
    std::snprintf(text, sizeof text, "%08llu", static_cast<unsigned long long>(n));
    return value.replace(0, 8, text, 8);
}

class Benchmark {
public:
    explicit Benchmark(const std::string& path)
        : store_(expect_value(Store::open(path), "open")), zipfian_(kRecords) {
        table_ = expect_value(store_.run([&](Txn& txn) -> Result<Index> {
            return store_.open_or_create_index(txn, "usertable");
        }),
                              "create");
        uint64_t n = 0;
        Key key;
        const std::string empty = with_updates(std::string(kFieldBytes * kFields, 'x'), 0);
        expect_value(store_.run([&](Txn& txn) {
            return store_.bulk_load(txn, table_, [&](Slice& k, Slice& v) {
                key = key_of(n);
                k = key, v = empty;
                return n++ < kRecords;
            });
        }),
                     "load");
    }
    void run(const Mix& mix) {
        std::vector<Handle<Counts>> threads;
        for (int n = 0; n < kThreads; ++n)
            threads.push_back(store_.start([&, n] { return work(mix, n); }));
        Counts sum;
        for (auto& thread : threads) sum += expect_value(thread.join(), mix.name);
        updates_ += sum.updates, inserts_ += sum.inserts;
        check(mix, sum);
    }

private:
    static Key key_of(uint64_t n) { return Key().text("user").u64(n); }
    // A popular record is not beside the next popular one.
    uint64_t scrambled(uint64_t rank) const { return rank * 0x9e3779b1u % kRecords; }

    Result<Counts> work(const Mix& mix, int thread) {
        Random random(static_cast<uint64_t>(thread + 1) * 7919 + static_cast<uint64_t>(*mix.name));
        Counts counts;
        for (int i = 0; i < kOperations; ++i) {
            const uint64_t rank = zipfian_.next(random), dice = random.below(100);
            counts.first += rank == 0, ++counts.requests;
            const uint64_t n = mix.latest ? highest_ - 1 - rank : scrambled(rank);
            if (dice < mix.read) {
                LOCKSTEP_TRY(transaction([&](Txn& txn) { return read(txn, n); }));
                ++counts.reads;
            } else if (dice < mix.read + mix.update + mix.read_modify_write) {
                LOCKSTEP_TRY(transaction([&](Txn& txn) { return update(txn, n); }));
                ++counts.updates;
            } else if (dice < 100 - mix.scan) {
                LOCKSTEP_TRY(insert());
                ++counts.inserts;
            } else {
                const uint64_t length = 1 + random.below(100);
                LOCKSTEP_TRY(transaction([&](Txn& txn) { return scan(txn, n, length); }));
                ++counts.scans;
            }
        }
        return counts;
    }
    template <class Body>
    Result<void> transaction(Body body) {
        return store_.run(body, {.durability = Durability::lazy});
    }
    Result<void> read(Txn& txn, uint64_t n) {
        std::string value;
        expect(LOCKSTEP_TRY(table_.get(txn, key_of(n), value)), "a record is missing");
        return {};
    }
    Result<void> update(Txn& txn, uint64_t n) {
        std::string value;
        expect(LOCKSTEP_TRY(table_.get(txn, key_of(n), value, Access::update)), "missing");
        const std::string changed = with_updates(value, updates_of(value) + 1);
        expect(LOCKSTEP_TRY(table_.update(txn, key_of(n), changed)), "a locked record is gone");
        return {};
    }
    Result<void> insert() {
        const uint64_t n = next_++;  // also if the transaction is repeated
        const std::string row = with_updates(std::string(kFieldBytes * kFields, 'i'), 0);
        LOCKSTEP_TRY(transaction([&](Txn& txn) { return table_.insert(txn, key_of(n), row); }));
        there_.resize(next_);
        there_[n] = true;
        while (highest_ < there_.size() && there_[highest_]) ++highest_;
        return {};
    }
    Result<void> scan(Txn& txn, uint64_t from, uint64_t length) {
        const uint64_t at_least = std::min(length, highest_ - from);
        Cursor cursor = table_.scan(txn, key_of(from));
        std::string before;
        uint64_t seen = 0;
        while (seen < length && LOCKSTEP_TRY(cursor.next())) {
            expect(seen++ > 0 || cursor.key() == Slice(key_of(from)), "a scan begins elsewhere");
            expect(before < cursor.key(), "a scan does not ascend");
            before = cursor.key();
        }
        expect(seen >= at_least, "a scan ends early");
        return {};
    }
    void check(const Mix& mix, const Counts& sum) {
        uint64_t rows = 0, updates = 0;
        expect_value(store_.run([&](Txn& txn) -> Result<void> {
            rows = updates = 0;
            Cursor cursor = table_.scan(txn);
            while (LOCKSTEP_TRY(cursor.next())) {
                ++rows;
                updates += updates_of(std::string(cursor.value()));
            }
            return {};
        }),
                     "count");
        expect(rows == kRecords + inserts_, "the number of records");
        expect(updates == updates_, "the number of updates in the records");
        expect(highest_ == rows, "the records without a gap");
        const double share = static_cast<double>(sum.first) / static_cast<double>(sum.requests) /
                             zipfian_.share_of_first();
        expect(share > 0.6 && share < 1.5, "the share of the most popular record");
        std::printf("workload %s: %llu reads, %llu updates, %llu inserts, %llu scans\n", mix.name,
                    static_cast<unsigned long long>(sum.reads),
                    static_cast<unsigned long long>(sum.updates),
                    static_cast<unsigned long long>(sum.inserts),
                    static_cast<unsigned long long>(sum.scans));
    }

    Store store_;
    Index table_;
    Zipfian zipfian_;
    // One worker runs all threads, so these need no lock.
    uint64_t next_ = kRecords;     // the next number to insert
    uint64_t highest_ = kRecords;  // all smaller numbers have records
    std::vector<bool> there_ = std::vector<bool>(kRecords, true);  // committed, by number
    uint64_t updates_ = 0, inserts_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    Benchmark benchmark(embed::directory(argc, argv) + "/ycsb.db");
    for (const Mix& mix : kMixes) benchmark.run(mix);
    return 0;
}
