// sim_content.cc - copy-on-write and sparse storage of simulated bytes.
#include "threads/io/sim_content.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "threads/base/zero_bytes.h"

namespace lockstep::threads {
namespace {

// Multiplications of a long input that run side by side.
constexpr size_t kHashLanes = 8;

// Calls f(page, offset in page, bytes done before, bytes) for each page that a range touches.
template <class F>
void for_pages(uint64_t offset, size_t bytes, F f) {
    for (size_t done = 0; done < bytes;) {
        const size_t at = (offset + done) % SimContent::kPage;
        const size_t n = std::min(bytes - done, SimContent::kPage - at);
        f((offset + done) / SimContent::kPage, at, done, n);
        done += n;
    }
}

}  // namespace

const SimContent::Page* SimContent::find(uint64_t page) const {
    const auto it = chunks_.find(page / kChunkPages);
    return it == chunks_.end() ? nullptr : it->second->pages[page % kChunkPages].get();
}

std::shared_ptr<SimContent::Page>& SimContent::slot(uint64_t page) {
    std::shared_ptr<Chunk>& chunk = chunks_[page / kChunkPages];
    if (chunk == nullptr) chunk = std::make_shared<Chunk>();
    else if (chunk.use_count() > 1) chunk = std::make_shared<Chunk>(*chunk);
    DCHECK(chunk.use_count() == 1);  // no other image sees the change
    return chunk->pages[page % kChunkPages];
}

void SimContent::read(uint64_t offset, std::byte* data, size_t bytes) const {
    for_pages(offset, bytes, [&](uint64_t page, size_t at, size_t done, size_t n) {
        if (const Page* found = find(page)) std::memcpy(data + done, found->data() + at, n);
        else std::memset(data + done, 0, n);
    });
}

void SimContent::write(uint64_t offset, const std::byte* data, size_t bytes) {
    for_pages(offset, bytes, [&](uint64_t page, size_t at, size_t done, size_t n) {
        write_piece(page, at, data == nullptr ? nullptr : data + done, n);
    });
}

void SimContent::write_piece(uint64_t page, size_t at, const std::byte* data, size_t bytes) {
    DCHECK(bytes > 0 && at + bytes <= kPage);
    const bool zero = data == nullptr || all_zero(data, bytes);
    if (zero && find(page) == nullptr) return;
    std::shared_ptr<Page>& target = slot(page);
    if (zero && bytes == kPage) return target.reset();
    if (target == nullptr) target = std::make_shared<Page>();
    else if (target.use_count() > 1) target = std::make_shared<Page>(*target);
    if (data == nullptr) std::memset(target->data() + at, 0, bytes);
    else std::memcpy(target->data() + at, data, bytes);
}

void SimContent::zero_from(uint64_t offset) {
    const uint64_t first = (offset + kPage - 1) / kPage;
    if (offset % kPage != 0) write(offset, nullptr, first * kPage - offset);
    chunks_.erase(chunks_.lower_bound((first + kChunkPages - 1) / kChunkPages), chunks_.end());
    for (uint64_t page = first; page % kChunkPages != 0; ++page) {
        if (find(page) != nullptr) slot(page).reset();
    }
}

uint64_t SimContent::pages() const {
    uint64_t count = 0;
    for (const auto& [number, chunk] : chunks_) {
        count += static_cast<uint64_t>(std::count_if(chunk->pages.begin(), chunk->pages.end(),
                                                     [](auto& p) { return p != nullptr; }));
    }
    return count;
}

uint64_t SimContent::digest(uint64_t hash) const {
    for (const auto& [number, chunk] : chunks_) {
        for (size_t i = 0; i < kChunkPages; ++i) {
            const Page* page = chunk->pages[i].get();
            if (page == nullptr || all_zero(page->data(), kPage)) continue;
            const uint64_t where = number * kChunkPages + i;
            hash = sim_hash(sim_hash(hash, &where, sizeof(where)), page->data(), kPage);
        }
    }
    return hash;
}

// In plain FNV, high bits of a word affect high bits only.
static uint64_t sim_hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3;
    return hash ^ hash >> 29;
}

uint64_t sim_hash(uint64_t hash, const void* data, size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    size_t i = 0;
    if (bytes >= 8 * kHashLanes) {
        uint64_t lanes[kHashLanes];
        for (uint64_t lane = 0; lane < kHashLanes; ++lane) lanes[lane] = hash + lane;
        for (; i + 8 * kHashLanes <= bytes; i += 8 * kHashLanes) {
            uint64_t words[kHashLanes];
            std::memcpy(words, from + i, sizeof words);
            for (size_t lane = 0; lane < kHashLanes; ++lane)
                lanes[lane] = sim_hash_word(lanes[lane], words[lane]);
        }
        for (const uint64_t lane : lanes) hash = sim_hash_word(hash, lane);
    }
    for (; i < bytes; i += 8) {
        uint64_t word = 0;
        std::memcpy(&word, from + i, std::min<size_t>(8, bytes - i));
        hash = sim_hash_word(hash, word);
    }
    return hash;
}

}  // namespace lockstep::threads
