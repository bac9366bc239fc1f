// fuzz_input.h - reads values from a fuzzer's bytes; after the end it reads zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "threads/base/check.h"

namespace lockstep::fuzz {

class Input {
public:
    Input(const uint8_t* data, size_t size) : at_(data), left_(size) {}
    bool empty() const { return left_ == 0; }
    size_t left() const { return left_; }
    template <class T>
    T get() {
        T value{};
        const size_t n = std::min(sizeof(T), left_);
        if (n > 0) std::memcpy(&value, at_, n);
        at_ += n;
        left_ -= n;
        return value;
    }
    uint8_t byte() { return get<uint8_t>(); }
    // 0 .. n-1.
    uint32_t below(uint32_t n) { return n <= 256 ? byte() % n : get<uint32_t>() % n; }
    std::string bytes(size_t n) {
        n = std::min(n, left_);
        std::string text(reinterpret_cast<const char*>(at_), n);
        at_ += n;
        left_ -= n;
        return text;
    }

private:
    const uint8_t* at_;
    size_t left_;
};

// Prevents the compiler from removing a read.
template <class T>
void use(const T& value) {
    asm volatile("" : : "r"(&value) : "memory");
}

// The entry point of each target; returns 0. A broken promise stops the process.
int fuzz_page(const uint8_t* data, size_t size);
int fuzz_log(const uint8_t* data, size_t size);
int fuzz_superblock(const uint8_t* data, size_t size);
int fuzz_image(const uint8_t* data, size_t size);
int fuzz_api(const uint8_t* data, size_t size);
int fuzz_c(const uint8_t* data, size_t size);
int fuzz_columns(const uint8_t* data, size_t size);

}  // namespace lockstep::fuzz
