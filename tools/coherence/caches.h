// caches.h - the model: W private caches of unbounded size, and the lines that move between them.
//
// Concepts   A line has the set of caches that hold it, the set that ever held it, and for each of
//            its 8-byte words the set of caches that have not seen the word's newest value.
//            *read miss*: the line was written by another cache. *write miss*: the same for a
//            write or a locked operation. *upgrade*: the writer has a copy, and others have one.
//            The first touch of a line that no cache has dirty is not counted. A miss is of *false
//            sharing* if the words accessed are not stale: an essential word may be read later
//            while the line stays, so this count is an upper bound.
// Blocking   Not thread-safe: one worker has the turn (turns.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "tools/coherence/names.h"

namespace lockstep::coherence {

enum class Access : uint8_t { read, write, prefetch, prefetch_to_write };

struct Count {
    uint64_t read_misses = 0, write_misses = 0, upgrades = 0;
    uint64_t false_misses = 0;  // of the misses
    uint64_t prefetches = 0;    // of all
};

class Caches {
public:
    static constexpr unsigned kMax = 62;

    Caches();
    // `pc`: where in the program.
    void access(unsigned cache, uint64_t address, size_t bytes, Access kind, uint64_t pc);

    // Between them transfers are counted. begin() forgets earlier counts, not the lines' states.
    void begin();
    void end() { counting_ = false; }

    using Key = std::pair<Place, uint64_t>;  // with `pc`
    const std::map<Key, Count>& counts() const { return counts_; }
    // Transfers by line: its address divided by 64.
    const std::unordered_map<uint64_t, uint64_t>& lines() const { return lines_; }
    Names& names() { return names_; }
    const Names& names() const { return names_; }

private:
    struct Line {
        uint64_t holders, ever;
        uint64_t stale[8];
        uint64_t dirty;  // modified by its one holder
    };
    struct Words {
        unsigned first, last;
    };
    Line& line_of(uint64_t number);
    void access_line(Line& line, uint64_t bit, uint64_t address, Words words, Access kind,
                     uint64_t pc);
    void move(Line& line, uint64_t bit, uint64_t address, bool stale, Access kind, uint64_t pc);

    Line** chunks_;  // addresses are reserved; the system gives memory where it is touched
    bool counting_ = false;
    std::map<Key, Count> counts_;
    std::unordered_map<uint64_t, uint64_t> lines_;
    Names names_;
};

}  // namespace lockstep::coherence
