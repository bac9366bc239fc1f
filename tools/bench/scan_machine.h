// scan_machine.h - streams of scans on a disk and some cores, in virtual time, under one policy.
//
// Concepts   The machine does for the policies of sm/scan/policy.h what a store does, with numbers
//            in place of pages. A table has chunks, and a chunk has columns of so many pages. The
//            disk makes one load at a time into a pool of pages. A core has one scan at a time, and
//            a scan one chunk. Each stream begins its next query when the last one has ended.
//            Time is virtual and a run repeats exactly. Only the cost of the policy's own choices
//            is real: it is measured, if the caller gives a clock.
// Invariants A scan has each of its chunks once, and only while the chunk is loaded with all of
//            its columns. A chunk in use is not evicted. The pool is never exceeded. While scans
//            are there, the disk or a core is busy. [checked: all by CHECK]
// Source     M. Zukowski et al., "Cooperative Scans", VLDB 2007: the active buffer manager.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include <lockstep/clock.h>
#include "sm/scan/batching.h"
#include "threads/base/rng.h"

namespace lockstep::bench {

// A query: it scans `count` chunks from `first` on and needs `cost` of a core's time for each.
struct ScanQuery {
    std::string kind;
    size_t first = 0, count = 0;
    double cost = 1;
    uint32_t columns = 1;  // bits
    uint64_t cache_bytes = 0;
};

struct ScanModel {
    size_t chunks = 256;
    std::vector<uint32_t> column_pages = {1};  // of a chunk
    double page_time = 1;
    uint64_t pool_pages = 64;
    uint32_t cores = 2;
    double stream_delay = 3;  // between the begins of two streams
    sm::scan::Admission admission = {};
    uint64_t seed = 1;
    const Clock* clock = nullptr;  // to measure the policy's choices

    double time_of(uint32_t columns) const {
        uint32_t pages = 0;
        for (size_t c = 0; c < column_pages.size(); ++c)
            if ((columns >> c & 1) != 0) pages += column_pages[c];
        return page_time * pages;
    }
};

struct ScanResult {
    double stream = 0;               // mean time of a stream
    double latency = 0;              // mean of a query's time to its time on an idle machine
    double total = 0, computed = 0;  // time; of all cores
    double busy = 0;                 // share of the cores' time
    uint64_t loads = 0, pages = 0, uses = 0;
    uint64_t longest_wait = 0;    // of a scan for its next chunk, in loads
    std::vector<Nanos> choosing;  // real time of each choice
    std::map<std::string, std::pair<double, uint64_t>> kinds;  // sum of times, queries
};

class ScanMachine {
public:
    using Streams = std::vector<std::vector<ScanQuery>>;

    ScanMachine(const sm::scan::Policy& policy, ScanModel model, Streams streams)
        : policy_(policy),
          model_(std::move(model)),
          streams_(std::move(streams)),
          next_(streams_.size()),
          rng_(model_.seed),
          there_(model_.column_pages.size(), sm::scan::ChunkSet(model_.chunks)),
          pinned_(model_.chunks),
          pins_(model_.chunks),
          used_(model_.chunks) {
        CHECK(model_.chunks > 0 && model_.cores > 0);
    }

    ScanResult run() {
        for (size_t i = 0; i < streams_.size(); ++i)
            at(model_.stream_delay * static_cast<double>(i), Event::stream, i);
        while (!events_.empty()) {
            const Event event = events_.top();
            events_.pop();
            now_ = event.time;
            if (event.kind == Event::stream) arrive(event.who);
            else if (event.kind == Event::load) loaded();
            else finish(*running_[event.who]);
            admit();
            feed();
            load();
            CHECK(scans_.empty() || loading_ || pinned_count_ > 0);  // nobody waits for ever
        }
        CHECK(scans_.empty() && waiting_.empty());
        result_.total = now_;
        result_.busy = result_.computed / std::max(now_, 1e-9) / model_.cores;
        result_.latency /= static_cast<double>(std::max<uint64_t>(queries_, 1));
        result_.stream /= static_cast<double>(std::max<size_t>(streams_.size(), 1));
        return std::move(result_);
    }

private:
    static constexpr size_t kIdle = ~size_t{0};
    struct Event {
        enum Kind : uint8_t { stream, load, use } kind;
        double time;
        uint64_t number;
        size_t who;
        bool operator>(const Event& other) const {
            return std::pair(time, number) > std::pair(other.time, other.number);
        }
    };
    struct Running {
        ScanQuery query;
        size_t stream = 0, place = 0;  // in running_
        double arrived = 0, idle_since = 0;
        uint64_t loads_then = 0;  // made when it became idle
        size_t chunk = kIdle;     // in use
        sm::scan::ChunkSet needs{}, there{}, had{};
        sm::scan::ScanView view{};
    };

    void at(double delay, Event::Kind kind, size_t who) {
        events_.push({kind, now_ + delay, ++event_, who});
    }
    // A choice of the policy, timed.
    template <class Choose>
    auto choice(Choose choose) {
        const Nanos begin = model_.clock != nullptr ? model_.clock->now() : 0;
        const auto made = choose();
        if (model_.clock != nullptr) result_.choosing.push_back(model_.clock->now() - begin);
        return made;
    }

    void arrive(size_t stream) {
        if (next_[stream] == streams_[stream].size()) {
            result_.stream += now_ - model_.stream_delay * static_cast<double>(stream);
            return;
        }
        auto scan = std::make_unique<Running>();
        scan->query = streams_[stream][next_[stream]++];
        scan->stream = stream;
        scan->arrived = now_;
        scan->needs = scan->there = scan->had = sm::scan::ChunkSet(model_.chunks);
        for (size_t i = 0; i < scan->query.count; ++i) scan->needs.add(scan->query.first + i);
        waiting_.push_back(std::move(scan));
    }

    void admit() {
        if (waiting_.empty()) return;
        std::vector<sm::scan::Waiting> waiting;
        for (const auto& scan : waiting_)
            waiting.push_back(
                {.needs = &scan->needs,
                 .columns = scan->query.columns,
                 .cache_bytes = scan->query.cache_bytes,
                 .run_time = static_cast<uint64_t>(1000 * scan->query.cost *
                                                   static_cast<double>(scan->query.count)),
                 .waited = static_cast<uint64_t>(now_ - scan->arrived)});
        sm::scan::Admission by = model_.admission;
        by.next_batch = next_batch_;
        by.random = rng_.next();
        const sm::scan::PassView pass = look();
        policy_.admit(pass, by, waiting);
        for (size_t i = 0; i < waiting.size(); ++i)
            if (waiting[i].batch != sm::scan::kNoBatch) begin(std::move(waiting_[i]), waiting[i]);
        std::erase(waiting_, nullptr);
    }

    void begin(std::unique_ptr<Running> scan, const sm::scan::Waiting& as) {
        next_batch_ = std::max(next_batch_, as.batch + 1);
        scan->idle_since = now_;
        scan->loads_then = result_.loads;
        scan->view = {.needs = &scan->needs,
                      .there = &scan->there,
                      .columns = scan->query.columns,
                      .batch = as.batch,
                      .begin = as.begin,
                      .served = ++sequence_};
        for (size_t chunk = 0; chunk < model_.chunks; ++chunk)
            if (scan->needs.has(chunk) && complete(chunk, scan->query.columns))
                scan->there.add(chunk);
        scan->place = free_place();
        running_[scan->place] = scan.get();
        scans_.push_back(std::move(scan));
    }
    size_t free_place() {
        const auto free = std::ranges::find(running_, nullptr);
        if (free != running_.end()) return static_cast<size_t>(free - running_.begin());
        running_.push_back(nullptr);
        return running_.size() - 1;
    }

    bool complete(size_t chunk, uint32_t columns) const {
        for (size_t c = 0; c < there_.size(); ++c)
            if ((columns >> c & 1) != 0 && !there_[c].has(chunk)) return false;
        return true;
    }

    // What the policy sees now.
    sm::scan::PassView look() {
        views_.clear();
        for (const auto& scan : scans_) {
            scan->view.left = scan->needs.count();
            scan->view.ready = scan->there.count();
            scan->view.waited =
                scan->chunk == kIdle
                    ? static_cast<uint64_t>((now_ - scan->idle_since) / model_.time_of(~0u))
                    : 0;
            views_.push_back(scan->view);
        }
        return {.chunks = model_.chunks,
                .cursor = cursor_,
                .scans = views_,
                .there = there_,
                .column_pages = model_.column_pages,
                .pinned = &pinned_,
                .used = used_};
    }
    Running& of(const sm::scan::ScanView& view) {
        return *scans_[static_cast<size_t>(&view - views_.data())];
    }

    // Idle cores take scans that have a chunk, who has waited longest first.
    void feed() {
        std::vector<Running*> order;
        for (const auto& scan : scans_)
            if (scan->chunk == kIdle) order.push_back(scan.get());
        std::ranges::stable_sort(order, {}, &Running::idle_since);
        for (Running* const scan : order) {
            if (pinned_count_ == model_.cores) return;
            if (scan->there.empty()) continue;
            const sm::scan::PassView pass = look();
            const size_t place = static_cast<size_t>(
                std::ranges::find(scans_, scan, &std::unique_ptr<Running>::get) - scans_.begin());
            const auto chunk = choice([&] { return policy_.use(pass, views_[place]); });
            if (!chunk) continue;
            CHECK(scan->needs.has(*chunk) && !scan->had.has(*chunk));
            CHECK(complete(*chunk, scan->query.columns));
            scan->chunk = *chunk;
            ++pins_[*chunk];
            ++pinned_count_;
            pinned_.add(*chunk);
            used_[*chunk] = ++sequence_;
            ++result_.uses;
            result_.longest_wait = std::max(result_.longest_wait, result_.loads - scan->loads_then);
            at(scan->query.cost, Event::use, scan->place);
        }
    }

    void finish(Running& scan) {
        const size_t chunk = std::exchange(scan.chunk, kIdle);
        result_.computed += scan.query.cost;
        scan.had.add(chunk);
        scan.needs.remove(chunk);
        scan.there.remove(chunk);
        scan.idle_since = now_;
        scan.loads_then = result_.loads;
        CHECK(pins_[chunk] > 0 && pinned_count_ > 0);
        --pinned_count_;
        if (--pins_[chunk] == 0) pinned_.remove(chunk);
        if (!scan.needs.empty()) return;
        CHECK(scan.had.count() == scan.query.count && scan.there.empty());
        const double load = model_.time_of(scan.query.columns), cost = scan.query.cost;
        const double idle =
            static_cast<double>(scan.query.count) * std::max(load, cost) + std::min(load, cost);
        result_.latency += (now_ - scan.arrived) / idle;
        auto& kind = result_.kinds[scan.query.kind];
        kind.first += now_ - scan.arrived;
        ++kind.second;
        ++queries_;
        running_[scan.place] = nullptr;
        const size_t stream = scan.stream;
        std::erase_if(scans_, [&](const auto& one) { return one.get() == &scan; });
        arrive(stream);
    }

    // Begins the next load, if the policy wants one and makes room for it.
    void load() {
        if (loading_) return;
        const sm::scan::PassView pass = look();
        const auto* const whom = choice([&] { return policy_.whom(pass); });
        if (whom == nullptr) return;
        const sm::scan::Place place = choice([&] { return policy_.load(pass, *whom); });
        const uint64_t pages = pages_of(place.columns);
        CHECK(pages > 0 && pages <= model_.pool_pages);
        while (pool_ + pages > model_.pool_pages) {
            const auto victim = choice([&] { return policy_.evict(pass, place); });
            if (!victim) return;
            evict(*victim);
            for (size_t i = 0; i < scans_.size(); ++i) views_[i].ready = scans_[i]->there.count();
        }
        of(*whom).view.served = ++sequence_;
        loading_ = place;
        pool_ += pages;
        cursor_ = (place.chunk + 1) % model_.chunks;
        ++result_.loads;
        result_.pages += pages;
        at(static_cast<double>(pages) * model_.page_time, Event::load, 0);
    }

    void loaded() {
        used_[loading_->chunk] = ++sequence_;
        change(*loading_, [&](sm::scan::ChunkSet& set) {
            CHECK(!set.has(loading_->chunk));
            set.add(loading_->chunk);
        });
        for (const auto& scan : scans_)
            if (scan->needs.has(loading_->chunk) && complete(loading_->chunk, scan->query.columns))
                scan->there.add(loading_->chunk);
        loading_.reset();
    }

    void evict(const sm::scan::Place& victim) {
        CHECK(pins_[victim.chunk] == 0 && victim.columns != 0);
        pool_ -= pages_of(victim.columns);
        change(victim, [&](sm::scan::ChunkSet& set) {
            CHECK(set.has(victim.chunk));
            set.remove(victim.chunk);
        });
        for (const auto& scan : scans_)
            if ((scan->query.columns & victim.columns) != 0) scan->there.remove(victim.chunk);
    }

    template <class Fn>
    void change(const sm::scan::Place& place, Fn fn) {
        for (size_t c = 0; c < there_.size(); ++c)
            if ((place.columns >> c & 1) != 0) fn(there_[c]);
    }
    uint64_t pages_of(uint32_t columns) const {
        uint64_t pages = 0;
        for (size_t c = 0; c < model_.column_pages.size(); ++c)
            if ((columns >> c & 1) != 0) pages += model_.column_pages[c];
        return pages;
    }

    const sm::scan::Policy& policy_;
    const ScanModel model_;
    const Streams streams_;
    std::vector<size_t> next_;  // query of each stream
    Rng rng_;
    double now_ = 0;
    uint64_t event_ = 0, sequence_ = 0, queries_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<std::unique_ptr<Running>> scans_, waiting_;  // in the order of their begins
    std::vector<Running*> running_;                          // by place; null: free
    std::vector<sm::scan::ScanView> views_;                  // of scans_
    std::vector<sm::scan::ChunkSet> there_;                  // by column
    sm::scan::ChunkSet pinned_;
    std::vector<uint32_t> pins_;
    std::vector<uint64_t> used_;
    size_t cursor_ = 0;
    uint32_t pinned_count_ = 0, next_batch_ = 0;
    uint64_t pool_ = 0;
    std::optional<sm::scan::Place> loading_;
    ScanResult result_;
};

// The streams of the paper's experiment: queries over 1, 10, 50 or 100% of the chunks at a random
// place, half of them fast and half slow. `column_sets`: each query draws one.
inline ScanMachine::Streams paper_streams(const ScanModel& model, double fast, double slow,
                                          std::span<const uint32_t> column_sets, uint64_t seed) {
    constexpr size_t kStreams = 16, kQueries = 4;
    Rng rng(seed);
    ScanMachine::Streams out(kStreams);
    for (auto& stream : out)
        for (size_t i = 0; i < kQueries; ++i) {
            constexpr std::array<size_t, 4> kPercent = {1, 10, 50, 100};
            const size_t percent = kPercent[rng.below(kPercent.size())];
            const size_t count = std::max<size_t>(1, model.chunks * percent / 100);
            const bool is_slow = rng.chance(0.5);
            stream.push_back({.kind = (is_slow ? "S-" : "F-") + std::to_string(percent) + "%",
                              .first = rng.below(model.chunks - count + 1),
                              .count = count,
                              .cost = is_slow ? slow : fast,
                              .columns = column_sets[rng.below(column_sets.size())]});
        }
    return out;
}

}  // namespace lockstep::bench
