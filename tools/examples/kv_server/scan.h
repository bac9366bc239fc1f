// scan.h - what SCAN needs: the server's memory of cursors, and patterns of keys.
#pragma once

#include <lockstep/sync.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

// Redis's cursors are numbers, but a place in an ordered index is a key. The server keeps the key
// behind each of the last kCursors numbers that it gave out. So memory is bounded, and an iteration
// may change its connection. A cursor of an earlier life of the server is unknown.
class ScanCursors {
public:
    static constexpr size_t kCursors = 1024;

    ScanCursors();
    // A number, never 0, for an iteration that continues at `key`.
    uint64_t keep(std::string_view key);
    // The key of that number; nothing if it is unknown or too old.
    std::optional<std::string> find(uint64_t number);

private:
    struct Place {
        uint64_t number = 0;
        std::string key;
    };
    lockstep::Mutex mutex_;
    uint64_t last_;              // under mutex_
    std::vector<Place> places_;  // under mutex_: number n lies at n % kCursors
};

// Whether the whole of `text` matches the glob `pattern`: * ? [a-z] [^a-z] and \ before a literal.
// Takes at most the product of both lengths.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace kv
