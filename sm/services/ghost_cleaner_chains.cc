// ghost_cleaner_chains.cc - frees overflow chains that committed transactions have released.
#include <algorithm>

#include "sm/btree/btree.h"
#include "sm/btree/overflow.h"
#include "sm/core/cleanup.h"
#include "sm/core/env.h"
#include "sm/services/ghost_cleaner_impl.h"
#include "sm/space/space_map.h"
#include "sm/version/version_table.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

namespace {

constexpr unsigned kTriesMax = 8;
constexpr Nanos kTryAgain = 500 * kMillisecond;

uint64_t pages_of(const ReleasedChain& chain) {
    const uint64_t bytes = overflow_ref(chain.ref).bytes;
    DCHECK(bytes > 0);
    return (bytes + kOverflowCapacity - 1) / kOverflowCapacity;
}

DropEntry entry_of(const ReleasedChain& chain) {
    const OverflowRef ref = overflow_ref(chain.ref);
    return {DropKind::chain, chain.object, PageId{ref.first}, ref.chain};
}

}  // namespace

// What versions may take in memory, or as much as all other pages.
uint64_t GhostCleaner::pages_waiting_max() const {
    return std::max(engine_.versions->limit() / kPageBytes, engine_.space->pages_total() / 2);
}

// GC-1. Pairs with hold(): one of us sees the other.
bool GhostCleaner::begin_release() {
    state_->releasing.fetch_add(1);
    if (state_->held.load() == 0) return true;
    end_release();
    return false;
}

void GhostCleaner::end_release() {
    [[maybe_unused]] const uint32_t before = state_->releasing.fetch_sub(1);
    DCHECK(before > 0);
}

void GhostCleaner::release(std::vector<ReleasedChain> released, Lsn committed) {
    DCHECK(!released.empty() && committed != kLsnNone && threads::current()->latch_depth == 0);
    const size_t n = released.size();
    std::vector<Chain> chains;
    chains.reserve(n);
    for (ReleasedChain& chain : released)
        chains.push_back({.released = std::move(chain), .committed = committed});
    // A snapshot that is opened from now on sees the commit.
    const bool seen = engine_.versions->snapshots().oldest() < committed;
    if (!begin_release()) return keep(std::move(chains));
    Result<void> done;
    if (seen) keep(std::move(chains));
    else done = free_chains(std::move(chains));
    if (const auto others = free_waiting(2 * n, kNever); !others) done = others;
    end_release();
    if (!done && !engine_.failed())
        engine_.report(1, "space of large values is freed later: " + done.error().text());
}

void GhostCleaner::keep(std::vector<Chain> chains) {
    uint64_t pages = 0;
    DCHECK(!chains.empty());
    for (const Chain& chain : chains) {
        DCHECK(chain.committed != kLsnNone && chain.tries <= kTriesMax);
        pages += pages_of(chain.released);
    }
    pages_.fetch_add(pages, std::memory_order_relaxed);
    chains_.fetch_add(chains.size(), std::memory_order_relaxed);
    {
        const SpinGuard guard(state_->lock);
        for (Chain& chain : chains) state_->chains.push_back(std::move(chain));
    }
    wake_thread();
    if (pages_waiting() <= pages_waiting_max() || !engine_.versions->expel_oldest()) return;
    engine_.report(1,
                   "the oldest snapshot has become too old: large values that were replaced or "
                   "erased since it began take " +
                       std::to_string(pages_waiting() * kPageBytes) + " bytes of file data");
}

// Of the queue's first chains, those that no snapshot may read.
Result<void> GhostCleaner::free_waiting(size_t most, Nanos until) {
    Result<void> result;
    while (most > 0 && chains_.load(std::memory_order_relaxed) != 0 && threads::now() < until) {
        const Lsn oldest = engine_.versions->snapshots().oldest();
        const Nanos now = threads::now();
        std::vector<Chain> ready;
        ready.reserve(limits::chains_freed());
        {
            const SpinGuard guard(state_->lock);
            std::deque<Chain>& all = state_->chains;
            while (!all.empty() && ready.size() < std::min<size_t>(most, limits::chains_freed()) &&
                   all.front().committed <= oldest && all.front().due <= now) {
                ready.push_back(std::move(all.front()));
                all.pop_front();
            }
        }
        if (ready.empty()) break;
        DCHECK(ready.size() <= most && ready.size() <= chains_.load());
        most -= ready.size();
        progress_.fetch_add(ready.size(), std::memory_order_relaxed);
        chains_.fetch_sub(ready.size(), std::memory_order_relaxed);
        for (const Chain& chain : ready)
            pages_.fetch_sub(pages_of(chain.released), std::memory_order_relaxed);
        if (const auto freed = free_chains(std::move(ready)); !freed) result = freed;
    }
    return result;
}

Result<void> GhostCleaner::free_chains(std::vector<Chain> chains) {
    Result<void> result;
    for (size_t at = 0; at < chains.size(); at += limits::chains_freed()) {
        const auto begin = chains.begin() + static_cast<std::ptrdiff_t>(at);
        std::vector<Chain> batch(
            std::make_move_iterator(begin),
            std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(std::min<size_t>(
                                                limits::chains_freed(), chains.size() - at))));
        std::vector<DropEntry> gone;
        Result<void> freed = free_batch(batch, gone);
        if (!gone.empty() && engine_.drops != nullptr)
            if (const auto removed = engine_.drops->remove_now(gone); !removed && freed)
                freed = removed;
        if (at + limits::chains_freed() < chains.size()) threads::yield();
        if (freed) continue;
        result = freed;
        // Some of them may be free already.
        std::vector<Chain> again;
        for (Chain& chain : batch)
            if (std::ranges::none_of(gone,
                                     [&](const DropEntry& entry) {
                                         return entry.number == entry_of(chain.released).number &&
                                                entry.page == entry_of(chain.released).page;
                                     }) &&
                ++chain.tries <= kTriesMax) {
                chain.due = threads::now() + kTryAgain;
                again.push_back(std::move(chain));
            }
        if (!again.empty()) keep(std::move(again));
    }
    return result;
}

// Frees the chains and notes them in `gone`. A chain whose object is not known any more stays on
// the drop list.
Result<void> GhostCleaner::free_batch(std::vector<Chain>& chains, std::vector<DropEntry>& gone) {
    std::vector<PageId> pages;
    std::vector<DropEntry> listed;
    Result<void> result;
    DCHECK(gone.empty() && chains.size() <= limits::chains_freed() &&
           threads::current()->latch_depth == 0);
    for (Chain& chain : chains) {
        const ReleasedChain& released = chain.released;
        const BTree* const tree = tree_of(released.object);
        const DropEntry entry = entry_of(released);
        DCHECK(entry.page != kPageNone && entry.number != 0 && chain.committed > released.removed);
        if (tree == nullptr) {
            chain.tries = kTriesMax;
            continue;
        }
        if (tree->destroyed() || chain.tries != 0) {
            TRY(free_overflow(engine_, entry.object, entry.page, entry.number));
            gone.push_back(entry);
            continue;
        }
        auto own = listed_pages(engine_, released.object, released.ref);
        if (!own) {
            result = std::unexpected(own.error());
            continue;
        }
        pages.insert(pages.begin(), own->begin(), own->end());
        listed.push_back(entry);
    }
    TRY(free_from_end(engine_, std::move(pages)));
    gone.insert(gone.end(), listed.begin(), listed.end());
    return result;
}

}  // namespace lockstep::sm
