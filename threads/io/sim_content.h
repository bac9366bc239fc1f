// sim_content.h - bytes of a simulated file: sparse, and copied by sharing.
//
// Concepts   Pages of 4 KB are grouped in chunks of 64. Copies share pages and chunks, and the
//            first writer clones them. A snapshot of a large file therefore costs one pointer per
//            256 KB. An absent page reads as zeros and takes no memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace lockstep::threads {

class SimContent {
public:
    static constexpr size_t kPage = 4096;
    static constexpr size_t kChunkPages = 64;

    void read(uint64_t offset, std::byte* data, size_t bytes) const;
    void write(uint64_t offset, const std::byte* data, size_t bytes);  // null data: zeros
    void zero_from(uint64_t offset);                                   // up to the end
    // Pages that take memory, including shared ones.
    uint64_t pages() const;
    uint64_t digest(uint64_t hash) const;  // equal bytes give equal digests

private:
    using Page = std::array<std::byte, kPage>;
    struct Chunk {
        std::array<std::shared_ptr<Page>, kChunkPages> pages;
    };

    const Page* find(uint64_t page) const;
    std::shared_ptr<Page>& slot(uint64_t page);
    void write_piece(uint64_t page, size_t at, const std::byte* data, size_t bytes);

    std::map<uint64_t, std::shared_ptr<Chunk>> chunks_;  // by page number / kChunkPages
};

// FNV-1a over 64-bit words, of a long input in eight lanes. Depends on order and position.
uint64_t sim_hash(uint64_t hash, const void* data, size_t bytes);

}  // namespace lockstep::threads
