// entry_sort.cc - blocks, runs and their merge.
#include "sm/secondary/entry_sort.h"

#include <tbb/parallel_sort.h>
#include <algorithm>

#include "sm/btree/btree_node.h"
#include "threads/base/hints.h"
#include "threads/base/try.h"
#include "threads/thread/worker_local.h"

namespace lockstep::sm {

using node::load;

namespace {

constexpr size_t kHead = 2 * sizeof(uint16_t);
constexpr size_t kWriteBytes = 1 << 20;
constexpr size_t kReadBytesMax = 1 << 20, kReadBytesMin = 64 << 10;
constexpr size_t kAhead = 16;                          // entries
constexpr size_t kRanges = 64, kRangesFrom = 100'000;  // entries
constexpr size_t kSample = 32;                         // entries for each range
static_assert(kRangesFrom > 2 * kSample * kRanges);
static_assert(kReadBytesMin > kHead + 2 * kKeyBytesMax && kReadBytesMin <= kReadBytesMax);
static_assert(kKeyBytesMax <= UINT16_MAX && sizeof(EntryRef) == 16);

bool before(const EntryRef& a, const EntryRef& b) {
    return a.head != b.head ? a.head < b.head : a.key() < b.key();
}
void put(std::vector<char>& to, Slice key, Slice value) {
    DCHECK(key.size() <= kKeyBytesMax && value.size() <= kKeyBytesMax);
    const uint16_t sizes[2] = {static_cast<uint16_t>(key.size()),
                               static_cast<uint16_t>(value.size())};
    const char* const head = reinterpret_cast<const char*>(sizes);
    to.insert(to.end(), head, head + kHead);
    to.insert(to.end(), key.begin(), key.end());
    to.insert(to.end(), value.begin(), value.end());
}
Slice key_at(const char* at) { return {at + kHead, load<uint16_t>(at)}; }
Slice value_at(const char* at) {
    return {at + kHead + load<uint16_t>(at), load<uint16_t>(at + sizeof(uint16_t))};
}

}  // namespace

Slice EntryRef::key() const {
    DCHECK(key_at(at).size() <= kKeyBytesMax);
    return key_at(at);
}
Slice EntryRef::value() const { return value_at(at); }

void EntryBlock::add(Slice key, Slice value) {
    DCHECK(!finished_);
    assert_state();
    // A place within the block until finish(): the bytes still move.
    const auto* const place = reinterpret_cast<const char*>(bytes_.size());
    refs_.push_back({node::key_head8(key.data(), key.size()), place});
    put(bytes_, key, value);
}

void EntryBlock::finish() {
    DCHECK(!finished_);
    for (EntryRef& ref : refs_) {
        DCHECK(reinterpret_cast<uintptr_t>(ref.at) + kHead <= bytes_.size());
        ref.at = bytes_.data() + reinterpret_cast<uintptr_t>(ref.at);
    }
    finished_ = true;
    assert_state();
}

class EntrySorter::Run {
public:
    explicit Run(threads::Disk& disk) : disk_(disk) {}
    ~Run() {
        if (file_.value >= 0) disk_.close(file_);
    }
    Result<void> open(const threads::Directory& directory) {
        DCHECK(file_.value < 0);
        DCHECK(threads::current() == nullptr);  // not on a worker
        file_ = TRY(disk_.open_unnamed(directory.here()));
        return {};
    }
    Result<void> append(const char* from, size_t bytes) {
        DCHECK(file_.value >= 0 && from != nullptr);
        TRY(disk_.write_now(file_, bytes_, from, bytes));
        bytes_ += bytes;
        return {};
    }
    // Bytes read; 0 at the end.
    Result<size_t> read(uint64_t at, char* to, size_t bytes) const {
        DCHECK(file_.value >= 0 && at <= bytes_ && bytes > 0);
        return disk_.read_now(file_, at, to, bytes);
    }

private:
    threads::Disk& disk_;
    threads::FileId file_{-1};  // without a name
    uint64_t bytes_ = 0;
};

// Sorted blocks: ranges that ascend, each sorted when it is wanted. The entries lie scattered in
// memory, so those to come are fetched ahead.
class EntrySorter::Memory final : public EntrySource {
public:
    Memory(std::vector<std::vector<EntryRef>> ranges, bool parallel)
        : ranges_(std::move(ranges)), parallel_(parallel) {}
    Result<bool> next(Slice& key, Slice& value) override {
        while (at_ == range_.size()) {
            if (next_ == ranges_.size()) return false;
            range_ = std::move(ranges_[next_++]);
            if (parallel_) tbb::parallel_sort(range_.begin(), range_.end(), before);
            else std::ranges::sort(range_, before);
            DCHECK(std::ranges::is_sorted(range_, before));
            at_ = 0;
        }
        DCHECK(at_ < range_.size());
        if (at_ + kAhead < range_.size()) prefetch_line(range_[at_ + kAhead].at);
        key = range_[at_].key();
        value = range_[at_].value();
        ++at_;
        return true;
    }

private:
    std::vector<std::vector<EntryRef>> ranges_;
    const bool parallel_;
    size_t next_ = 0;  // range
    std::vector<EntryRef> range_;
    size_t at_ = 0;
};

class EntrySorter::File final : public EntrySource {
public:
    File(const Run& run, size_t bytes) : run_(run), buffer_(bytes) {}
    Result<bool> next(Slice& key, Slice& value) override {
        for (;;) {
            assert_state();
            const size_t rest = end_ - at_;
            const char* const entry = buffer_.data() + at_;
            if (rest >= kHead) {
                const size_t bytes = kHead + key_at(entry).size() + value_at(entry).size();
                if (rest >= bytes) {
                    key = key_at(entry);
                    value = value_at(entry);
                    at_ += bytes;
                    return true;
                }
            }
            std::copy(entry, entry + rest, buffer_.data());
            at_ = 0;
            end_ = rest;
            const size_t n = TRY(run_.read(place_, buffer_.data() + end_, buffer_.size() - end_));
            if (n == 0 && rest != 0)
                return fail(ErrorCode::io_error, "end of a file for sorting", place_);
            if (n == 0) return false;
            place_ += n;
            end_ += n;
        }
    }

private:
    void assert_state() const {
        DCHECK(at_ <= end_ && end_ <= buffer_.size() && end_ <= place_);
        DCHECK(buffer_.size() >= kReadBytesMin);
    }
    const Run& run_;
    std::vector<char> buffer_;
    size_t at_ = 0, end_ = 0;
    uint64_t place_ = 0;
};

// A heap of sources, the one with the least entry first.
class EntrySorter::Merge final : public EntrySource {
public:
    Result<void> add(EntrySource& source) {
        Head head{&source, {}, {}};
        DCHECK(!begun_);
        if (!TRY(source.next(head.key, head.value))) return {};
        heap_.push_back(head);
        std::ranges::push_heap(heap_, later);
        return {};
    }
    Result<bool> next(Slice& key, Slice& value) override {
        DCHECK(!begun_ || !heap_.empty());
        if (begun_) {
            Head& last = heap_.back();
            last_.assign(last.key);
            if (!TRY(last.source->next(last.key, last.value))) {
                heap_.pop_back();
            } else {
                CHECK(Slice(last_) <= last.key);  // ES-1
                std::ranges::push_heap(heap_, later);
            }
        }
        DCHECK(std::ranges::is_heap(heap_, later));
        begun_ = !heap_.empty();
        if (!begun_) return false;
        std::ranges::pop_heap(heap_, later);
        key = heap_.back().key;
        value = heap_.back().value;
        return true;
    }

private:
    struct Head {
        EntrySource* source;
        Slice key, value;
    };
    static bool later(const Head& a, const Head& b) { return a.key > b.key; }
    std::vector<Head> heap_;  // the last one was given out, if begun_
    std::string last_;
    bool begun_ = false;
};

EntrySorter::EntrySorter(threads::Disk& disk, threads::Directory directory, size_t memory,
                         bool parallel)
    : disk_(disk), directory_(std::move(directory)), memory_max_(memory), parallel_(parallel) {}
EntrySorter::~EntrySorter() = default;

Result<void> EntrySorter::add(std::unique_ptr<EntryBlock> block) {
    assert_state();
    DCHECK(block != nullptr && sources_.empty());
    memory_ += block->memory() + block->refs().size() * sizeof(EntryRef);
    blocks_.push_back(std::move(block));
    return memory_ > memory_max_ ? write_run() : Result<void>{};
}

// A sample of all entries gives the borders of the ranges.
std::unique_ptr<EntrySource> EntrySorter::sort_blocks() const {
    size_t count = 0;
    for (const auto& block : blocks_) count += block->refs().size();
    const size_t wanted = parallel_ && count >= kRangesFrom ? kRanges : 1;
    std::vector<EntryRef> sample, borders;
    const size_t step = wanted > 1 ? count / (kSample * wanted) : SIZE_MAX;
    for (const auto& block : blocks_)
        for (size_t at = step / 2; at < block->refs().size(); at += step)
            sample.push_back(block->refs()[at]);
    std::ranges::sort(sample, before);
    for (size_t n = 1; n < wanted && !sample.empty(); ++n)
        borders.push_back(sample[n * sample.size() / wanted]);
    std::vector<std::vector<EntryRef>> ranges(borders.size() + 1);
    for (auto& range : ranges) range.reserve(count / ranges.size() * 5 / 4);
    for (const auto& block : blocks_)
        for (const EntryRef& ref : block->refs()) {
            const auto above = std::ranges::upper_bound(borders, ref, before);
            ranges[static_cast<size_t>(above - borders.begin())].push_back(ref);
        }
    DCHECK(std::ranges::is_sorted(borders, before) && ranges.size() <= kRanges);
    return std::make_unique<Memory>(std::move(ranges), parallel_);
}

Result<void> EntrySorter::write_run() {
    const auto sorted = sort_blocks();
    auto run = std::make_unique<Run>(disk_);
    TRY(run->open(directory_));
    std::vector<char> buffer;
    buffer.reserve(kWriteBytes + kHead + 2 * kKeyBytesMax);
    for (Slice key, value; TRY(sorted->next(key, value));) {
        put(buffer, key, value);
        if (buffer.size() < kWriteBytes) continue;
        TRY(run->append(buffer.data(), buffer.size()));
        buffer.clear();
    }
    TRY(run->append(buffer.data(), buffer.size()));
    runs_.push_back(std::move(run));
    blocks_.clear();
    memory_ = 0;
    assert_state();
    return {};
}

Result<EntrySource*> EntrySorter::sort() {
    DCHECK(sources_.empty());
    assert_state();
    sources_.push_back(sort_blocks());
    if (runs_.empty()) return sources_.back().get();
    const size_t share = memory_max_ / (2 * runs_.size());
    auto merge = std::make_unique<Merge>();
    for (const auto& run : runs_)
        sources_.push_back(
            std::make_unique<File>(*run, std::clamp(share, kReadBytesMin, kReadBytesMax)));
    for (const auto& source : sources_) TRY(merge->add(*source));
    sources_.push_back(std::move(merge));
    assert_state();
    return sources_.back().get();
}

}  // namespace lockstep::sm
