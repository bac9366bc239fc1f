// caches.cc - what an access does to the lines that it touches.
#include "tools/coherence/caches.h"

#include <sys/mman.h>

#include <bit>
#include <cstdlib>

namespace lockstep::coherence {

namespace {

constexpr uint64_t kLineLog2 = 6, kChunkLog2 = 21, kChunksLog2 = 26;
constexpr uint64_t kChunkLines = uint64_t{1} << (kChunkLog2 - kLineLog2);

void* reserve(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

bool is_write(Access kind) { return kind == Access::write || kind == Access::prefetch_to_write; }
bool is_prefetch(Access kind) {
    return kind == Access::prefetch || kind == Access::prefetch_to_write;
}

}  // namespace

Caches::Caches()
    : chunks_(static_cast<Line**>(reserve(sizeof(Line*) * (uint64_t{1} << kChunksLog2)))) {}

Caches::Line& Caches::line_of(uint64_t number) {
    Line*& chunk = chunks_[number / kChunkLines & ((uint64_t{1} << kChunksLog2) - 1)];
    if (chunk == nullptr) [[unlikely]]
        chunk = static_cast<Line*>(reserve(kChunkLines * sizeof(Line)));
    return chunk[number % kChunkLines];
}

void Caches::begin() {
    counts_.clear();
    lines_.clear();
    counting_ = true;
}

void Caches::access(unsigned cache, uint64_t address, size_t bytes, Access kind, uint64_t pc) {
    if (bytes == 0) return;
    const uint64_t bit = uint64_t{1} << cache, end = address + bytes - 1;
    for (uint64_t n = address >> kLineLog2; n <= end >> kLineLog2; ++n) {
        const uint64_t from = n == address >> kLineLog2 ? address : n << kLineLog2;
        const Words words{static_cast<unsigned>(from & 63) / 8,
                          n == end >> kLineLog2 ? static_cast<unsigned>(end & 63) / 8 : 7};
        access_line(line_of(n), bit, from, words, kind, pc);
    }
}

void Caches::access_line(Line& line, uint64_t bit, uint64_t address, Words words, Access kind,
                         uint64_t pc) {
    const bool write = is_write(kind);
    bool stale = false;
    for (unsigned w = words.first; w <= words.last; ++w) stale |= (line.stale[w] & bit) != 0;
    if ((line.holders & bit) != 0 && (!write || line.holders == bit)) [[likely]] {
        if (kind == Access::write) line.dirty = 1;
    } else {
        move(line, bit, address, stale, kind, pc);
    }
    if (is_prefetch(kind)) return;
    for (unsigned w = words.first; w <= words.last; ++w) {
        if (write) line.stale[w] = ~bit;
        else if (stale) line.stale[w] &= ~bit;
    }
}

// The cache does not have the line as it needs it.
void Caches::move(Line& line, uint64_t bit, uint64_t address, bool stale, Access kind,
                  uint64_t pc) {
    const bool write = is_write(kind), has = (line.holders & bit) != 0;
    const bool was_here = (line.ever & bit) != 0;
    if (counting_ && (has || was_here || line.dirty != 0)) {
        Count& count = counts_[{names_.place_of(address), pc}];
        count.read_misses += !has && !write;
        count.write_misses += !has && write;
        count.upgrades += has;
        count.false_misses += !has && was_here && !stale;
        count.prefetches += is_prefetch(kind);
        ++lines_[address >> kLineLog2];
    }
    line.ever |= bit;
    line.holders = write ? bit : line.holders | bit;
    if (kind == Access::write) line.dirty = 1;
    else if (!write) line.dirty = 0;
}

}  // namespace lockstep::coherence
