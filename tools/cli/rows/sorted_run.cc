// sorted_run.cc - sorting, run files, merging.
#include "tools/cli/rows/sorted_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <tbb/parallel_sort.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sm/btree/btree_node.h"
#include "tools/cli/rows/row_format.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {
namespace {

constexpr size_t kChunkBytes = 1u << 20;
constexpr const char* kTwiceRemedy = " (with --replace the last one counts)";

struct ChunkHeader {
    uint32_t bytes, pairs;
    uint64_t hash;
};
struct PairHeader {
    uint32_t key_bytes, value_bytes;
};

class Stored final : public PairSource {
public:
    explicit Stored(const std::vector<Pair>& pairs) : pairs_(pairs) {}
    bool next(Slice& key, Slice& value) override {
        if (at_ == pairs_.size()) return false;
        key = pairs_[at_].key();
        value = pairs_[at_++].value();
        return true;
    }

private:
    const std::vector<Pair>& pairs_;
    size_t at_ = 0;
};

class RunReader final : public PairSource {
public:
    explicit RunReader(const RunFile& run)
        : run_(run), fd_(::open(run.path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    ~RunReader() override {
        if (fd_ >= 0) ::close(fd_);
    }
    bool next(Slice& key, Slice& value) override {
        if (left_ == 0 && !read_chunk()) return false;
        PairHeader head;
        if (chunk_.size() - at_ < sizeof head) return damaged();
        std::memcpy(&head, &chunk_[at_], sizeof head);
        at_ += sizeof head;
        if (chunk_.size() - at_ < size_t{head.key_bytes} + head.value_bytes) return damaged();
        key = {&chunk_[at_], head.key_bytes};
        value = {&chunk_[at_] + head.key_bytes, head.value_bytes};
        at_ += size_t{head.key_bytes} + head.value_bytes;
        --left_;
        return true;
    }

private:
    bool damaged() {
        error_ = run_.path + " is damaged (--forget and load again)";
        return false;
    }
    bool read(void* to, size_t bytes) {
        for (size_t done = 0; done < bytes;) {
            const ssize_t n = ::read(fd_, static_cast<char*>(to) + done, bytes - done);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            done += static_cast<size_t>(n);
        }
        offset_ += bytes;
        return true;
    }
    bool read_chunk() {
        ChunkHeader head;
        if (offset_ == run_.bytes) return false;
        if (!read(&head, sizeof head)) return damaged();
        chunk_.resize(head.bytes);
        if (!read(chunk_.data(), chunk_.size()) ||
            head.hash != XXH3_64bits(chunk_.data(), chunk_.size()))
            return damaged();
        at_ = 0;
        left_ = head.pairs;
        return left_ > 0;
    }

    const RunFile run_;
    const int fd_;
    std::string chunk_;
    size_t at_ = 0;
    uint32_t left_ = 0;
    uint64_t offset_ = 0;
};

class Merge final : public PairSource {
public:
    Merge(std::vector<std::unique_ptr<PairSource>> sources, std::string object, Twice twice)
        : object_(std::move(object)), twice_(twice) {
        for (auto& source : sources) heap_.push_back({std::move(source), heap_.size(), {}, {}});
    }
    bool next(Slice& key, Slice& value) override {
        if (!begun_) {
            begun_ = true;
            std::erase_if(heap_, [&](Head& head) { return !advance(head); });
            std::ranges::make_heap(heap_, after);
        } else if (error_.empty() && !heap_.empty()) {
            last_.assign(heap_.front().key);
            do {
                step();
            } while (twice_ == Twice::last && repeats());
            if (repeats())
                error_ = object_ + ": the key " + readable(last_) + " occurs twice in the input" +
                         kTwiceRemedy;
        }
        if (!error_.empty() || heap_.empty()) return false;
        key = heap_.front().key;
        value = heap_.front().value;
        return true;
    }

private:
    struct Head {
        std::unique_ptr<PairSource> source;
        size_t order;
        Slice key, value;
    };
    // Of equal keys the last one of the input comes first.
    static bool after(const Head& a, const Head& b) {
        return b.key != a.key ? b.key < a.key : a.order < b.order;
    }
    bool repeats() const { return error_.empty() && !heap_.empty() && heap_.front().key == last_; }
    void step() {
        std::ranges::pop_heap(heap_, after);
        if (advance(heap_.back())) std::ranges::push_heap(heap_, after);
        else heap_.pop_back();
    }
    bool advance(Head& head) {
        if (head.source->next(head.key, head.value)) return true;
        if (error_.empty()) error_ = head.source->error();
        return false;
    }

    const std::string object_;
    const Twice twice_;
    std::vector<Head> heap_;  // the smallest key first
    std::string last_;
    bool begun_ = false;
};

}  // namespace

Pair Pair::of(Slice key, Slice value, uint64_t line) {
    return {sm::node::key_head8(key.data(), key.size()), key.data(),
            static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size()), line};
}

void sort_pairs(std::vector<Pair>& pairs, const std::string& object, Twice twice) {
    if (!std::ranges::is_sorted(pairs, std::less<>{})) tbb::parallel_sort(pairs);
    const auto same = [](const Pair& a, const Pair& b) { return a.key() == b.key(); };
    const auto found = std::ranges::adjacent_find(pairs, same);
    if (found == pairs.end()) return;
    if (twice == Twice::error)
        throw Failed(fmt::format("{}: the key {} occurs twice, on lines {} and {}{}", object,
                                 readable(found->key()), std::min(found[0].line, found[1].line),
                                 std::max(found[0].line, found[1].line), kTwiceRemedy));
    size_t kept = 0;
    for (const Pair& pair : pairs) {
        if (kept > 0 && same(pairs[kept - 1], pair)) {
            if (pair.line > pairs[kept - 1].line) pairs[kept - 1] = pair;
        } else {
            pairs[kept++] = pair;
        }
    }
    pairs.resize(kept);
}

RunWriter::RunWriter(std::string path)
    : run_{.path = std::move(path)},
      fd_(::open(run_.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
    if (fd_ < 0) throw Failed(run_.path + ": " + std::strerror(errno));
}
RunWriter::~RunWriter() {
    if (fd_ >= 0) ::close(fd_);
}

void RunWriter::add(Slice key, Slice value) {
    const PairHeader head{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
    chunk_.append(reinterpret_cast<const char*>(&head), sizeof head).append(key).append(value);
    ++pairs_;
    if (chunk_.size() >= kChunkBytes) write_chunk();
}

void RunWriter::write_chunk() {
    if (pairs_ == 0) return;
    const ChunkHeader head{static_cast<uint32_t>(chunk_.size()), pairs_,
                           XXH3_64bits(chunk_.data(), chunk_.size())};
    chunk_.insert(0, reinterpret_cast<const char*>(&head), sizeof head);
    for (size_t done = 0; done < chunk_.size();) {
        const ssize_t n = ::write(fd_, chunk_.data() + done, chunk_.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) throw Failed(run_.path + ": " + std::strerror(n < 0 ? errno : ENOSPC));
        done += static_cast<size_t>(n);
    }
    run_.bytes += chunk_.size();
    run_.pairs += pairs_;
    chunk_.clear();
    pairs_ = 0;
}

RunFile RunWriter::finish() {
    write_chunk();
    if (::fdatasync(fd_) != 0) throw Failed(run_.path + ": " + std::strerror(errno));
    return run_;
}

std::unique_ptr<PairSource> read_pairs(const std::vector<Pair>& pairs) {
    return std::make_unique<Stored>(pairs);
}
std::unique_ptr<PairSource> read_run(const RunFile& run) {
    return std::make_unique<RunReader>(run);
}
std::unique_ptr<PairSource> merge(std::vector<std::unique_ptr<PairSource>> sources,
                                  std::string object, Twice twice) {
    return std::make_unique<Merge>(std::move(sources), std::move(object), twice);
}

void reduce_runs(std::vector<RunFile>& runs, size_t most, const std::string& prefix,
                 const std::string& object, Twice twice) {
    size_t at = 0;
    for (uint32_t number = 0; runs.size() > most; ++number, ++at) {
        const size_t n = std::min(most, runs.size() - most + 1);
        if (at + n > runs.size()) at = 0;
        std::vector<std::unique_ptr<PairSource>> sources;
        for (size_t i = 0; i < n; ++i) sources.push_back(read_run(runs[at + i]));
        RunWriter writer(prefix + std::to_string(number));
        const auto merged = merge(std::move(sources), object, twice);
        for (Slice key, value; merged->next(key, value);) writer.add(key, value);
        if (!merged->error().empty()) throw Failed(merged->error());
        const RunFile made = writer.finish();
        // The old files stay until the load has ended: a resumed load begins with them.
        const auto first = runs.begin() + static_cast<ptrdiff_t>(at);
        *first = made;
        runs.erase(first + 1, first + static_cast<ptrdiff_t>(n));
    }
}

}  // namespace lockstep::cli
