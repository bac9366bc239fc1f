// sorted_run.h - sorted pairs of key and value: in memory, in run files, and merged.
//
// Concepts   A run outlives the process: a load that was killed resumes from it. So its file has a
//            name and checksums, and a key that occurs twice is told with its lines in the input.
//            The runs of sm/secondary/entry_sort.h end with the process and have neither.
// Layout     A run file is a sequence of chunks: u32 bytes, u32 pairs, u64 XXH3 of the bytes; then
//            the pairs: u32 key bytes, u32 value bytes, key, value. Keys ascend strictly.
// Invariants SR-1 A merge gives each key once, in strictly ascending order. Of a key that occurs
//                 twice the last one counts, or it is an error that names it. [test:
//                 tests/tools/load_test.py]
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::cli {

// A pair that lies in a block: the value follows its key without a gap.
struct Pair {
    uint64_t head;  // the key's first eight bytes as a number that orders like them
    const char* at;
    uint32_t key_bytes, value_bytes;
    uint64_t line;  // of the input

    static Pair of(Slice key, Slice value, uint64_t line);
    Slice key() const { return {at, key_bytes}; }
    Slice value() const { return {at + key_bytes, value_bytes}; }
    bool operator<(const Pair& other) const {
        return head != other.head ? head < other.head : key() < other.key();
    }
};

// What a key means that occurs twice in the input: an error, or the last one counts.
enum class Twice : uint8_t { error, last };

// On all cores. Throws Failed with both lines if a key occurs twice and must not.
void sort_pairs(std::vector<Pair>& pairs, const std::string& object, Twice twice);

struct RunFile {
    std::string path = {};
    uint64_t bytes = 0, pairs = 0;
};

// Writes one run and syncs it. Throws Failed.
class RunWriter {
public:
    explicit RunWriter(std::string path);
    ~RunWriter();
    RunWriter(const RunWriter&) = delete;
    void add(Slice key, Slice value);
    RunFile finish();

private:
    void write_chunk();
    RunFile run_;
    int fd_;
    std::string chunk_;
    uint32_t pairs_ = 0;
};

// A source of pairs. The bytes stay until the next call. An error ends it: next() returns false and
// error() says why, because sources are read inside the engine, where nothing may throw.
class PairSource {
public:
    virtual ~PairSource() = default;
    virtual bool next(Slice& key, Slice& value) = 0;
    const std::string& error() const { return error_; }

protected:
    std::string error_;
};

std::unique_ptr<PairSource> read_pairs(const std::vector<Pair>& pairs);
std::unique_ptr<PairSource> read_run(const RunFile& run);
// Keeps to SR-1; `object` is for the message. Later sources are later in the input.
std::unique_ptr<PairSource> merge(std::vector<std::unique_ptr<PairSource>> sources,
                                  std::string object, Twice twice);

// Merges neighbours into one until at most `most` (2 or more) are left, in their order. The new
// files are called `prefix` and a number; the old ones stay. Throws Failed.
void reduce_runs(std::vector<RunFile>& runs, size_t most, const std::string& prefix,
                 const std::string& object, Twice twice);

}  // namespace lockstep::cli
