// input.h - the bytes that a connection has received and not used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace kv {

// Grows by doubling, up to a limit. An empty buffer that has grown shrinks, because thousands of
// connections may be idle.
class InputBuffer {
public:
    static constexpr size_t kFirstBytes = 4096;

    explicit InputBuffer(size_t bytes_max) : bytes_max_(std::max(bytes_max, kFirstBytes)) {}
    std::string_view bytes() const { return {memory_.get() + begin_, end_ - begin_}; }
    void drop(size_t bytes) { begin_ += bytes; }
    // Free memory for more bytes; moves the others. Empty: the limit is reached.
    std::span<std::byte> space() {
        const size_t used = end_ - begin_;
        if (used == 0 && capacity_ > kFirstBytes) capacity_ = 0;
        if (used == capacity_) {
            const size_t wanted =
                std::min(capacity_ == 0 ? kFirstBytes : 2 * capacity_, bytes_max_);
            if (wanted == capacity_) return {};
            std::unique_ptr<char[]> larger(new char[wanted]);
            if (used > 0) std::memcpy(larger.get(), memory_.get() + begin_, used);
            memory_ = std::move(larger);
            capacity_ = wanted;
        } else if (begin_ > 0) {
            std::memmove(memory_.get(), memory_.get() + begin_, used);
        }
        begin_ = 0;
        end_ = used;
        return std::as_writable_bytes(std::span(memory_.get() + end_, capacity_ - end_));
    }
    void filled(size_t bytes) { end_ += bytes; }

private:
    const size_t bytes_max_;
    std::unique_ptr<char[]> memory_;
    size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace kv
