// policy.cc - the rows of the table of policies, and the few functions that they consist of.
#include "sm/scan/policy.h"

#include <algorithm>

#include "sm/scan/batching.h"
#include "sm/scan/tally.h"

namespace lockstep::sm::scan {

namespace {

using Chosen = std::optional<size_t>;

uint32_t missing_columns(const PassView& pass, size_t chunk, uint32_t columns) {
    uint32_t out = 0;
    for (size_t c = 0; c < pass.there.size(); ++c)
        if ((columns >> c & 1) != 0 && !pass.there[c].has(chunk)) out |= uint32_t{1} << c;
    DCHECK((out & ~columns) == 0);
    return out;
}

uint64_t pages_of(const PassView& pass, uint32_t columns) {
    uint64_t sum = 0;
    for (size_t c = 0; c < pass.column_pages.size(); ++c)
        if ((columns >> c & 1) != 0) sum += pass.column_pages[c];
    DCHECK(sum > 0);
    return sum;
}

bool lacks_some(const ScanView& scan) {
    DCHECK(scan.there->chunks() == scan.needs->chunks());
    return scan.takes && scan.needs->next_not_in(*scan.there, 0) < scan.needs->chunks();
}

// Its own order: from where it began to the end of the index, then from the first chunk on.
size_t own_next(const ScanView& scan) {
    DCHECK(scan.left > 0);
    // Behind the end it goes on with what lies before its begin.
    return scan.needs->next(scan.begin);
}

// The chunk that it needs next, or the one behind it while that one is there; chunks() if it has
// both.
size_t own_missing(const ScanView& scan) {
    const size_t first = own_next(scan);
    if (!scan.there->has(first)) return first;
    const size_t second = scan.needs->next(first + 1);
    return scan.there->has(second) ? scan.needs->chunks() : second;
}

void begin_all(std::span<Waiting> waiting, uint32_t batch) {
    for (Waiting& scan : waiting) {
        DCHECK(scan.batch == kNoBatch);
        scan.batch = batch;
    }
}

// Each begins at once and alone. [CS] "normal"; [BL] NaiveSharing: what it shares, it shares by
// accident.
void admit_alone(const PassView&, const Admission& by, std::span<Waiting> waiting) {
    uint32_t batch = by.next_batch;
    for (Waiting& scan : waiting) scan.batch = batch++;
}

// Each begins where the scan stands with which it has most chunks in common. [CS] "attach".
void admit_attached(const PassView& pass, const Admission& by, std::span<Waiting> waiting) {
    admit_alone(pass, by, waiting);
    for (Waiting& scan : waiting) {
        size_t most = 0;
        for (const ScanView& other : pass.scans) {
            if (other.left == 0 || (other.columns & scan.columns) == 0) continue;
            const size_t at = own_next(other);
            const size_t common = scan.needs->common(*other.needs);
            if (!scan.needs->has(at) || common <= most) continue;
            most = common;
            scan.begin = at;
        }
    }
}

// All begin at once and share what they can. [CS] elevator, relevance; [QP] 4.4 circular scan;
// [BL] FullSharing.
void admit_all(const PassView&, const Admission&, std::span<Waiting> waiting) {
    begin_all(waiting, 0);
}

// At most so many at a time. [BL] FullSharing-n.
void admit_some(const PassView& pass, const Admission& by, std::span<Waiting> waiting) {
    const size_t running = pass.scans.size();
    const size_t room = by.scans_max > running ? by.scans_max - running : 0;
    DCHECK(by.scans_max > 0);
    begin_all(waiting.first(std::min(room, waiting.size())), 0);
}

// Those that have come begin together when the former ones have ended. [SD] 3.2.
void admit_cycle(const PassView& pass, const Admission&, std::span<Waiting> waiting) {
    if (pass.scans.empty()) begin_all(waiting, 0);
}

// [BL] 5.3: a staging area, out of which come whole batches.
void admit_batches(const PassView& pass, const Admission& by, std::span<Waiting> waiting) {
    form_batches(by, pass.scans.empty(), waiting);
}

// First come, first served. A chunk that a scan cannot go on without comes before one that is read
// ahead. [CS] "normal".
const ScanView* whom_in_turn(const PassView& pass) {
    const ScanView* best = nullptr;
    bool best_waits = false;
    for (const ScanView& scan : pass.scans) {
        if (!scan.takes || scan.left == 0 || own_missing(scan) >= pass.chunks) continue;
        const bool waits = !scan.there->has(own_next(scan));
        if (best != nullptr &&
            std::pair(!waits, scan.served) >= std::pair(!best_waits, best->served))
            continue;
        best = &scan;
        best_waits = waits;
    }
    return best;
}

// The one that came first, to its end. [BL] NaiveSharing: a thread runs one query.
const ScanView* whom_first(const PassView& pass) {
    for (const ScanView& scan : pass.scans)
        if (lacks_some(scan) && own_missing(scan) < pass.chunks) return &scan;
    return nullptr;
}

// The scan whose next chunk is nearest to the cursor of the pass. [CS] "elevator"; [QP] 4.4.
const ScanView* whom_at_cursor(const PassView& pass) {
    const ScanView* best = nullptr;
    size_t least = pass.chunks;
    for (const ScanView& scan : pass.scans) {
        if (!lacks_some(scan)) continue;
        const size_t chunk = scan.needs->next_not_in(*scan.there, pass.cursor);
        const size_t distance = (chunk + pass.chunks - pass.cursor) % pass.chunks;
        if (distance >= least) continue;
        best = &scan;
        least = distance;
    }
    return best;
}

// [CS] queryRelevance: only starved scans, short ones first, and who has waited long before them:
// the most of waited / scans - left.
const ScanView* whom_most_relevant(const PassView& pass) {
    const ScanView* best = nullptr;
    int64_t most = 0;
    const auto scans = static_cast<int64_t>(pass.scans.size());
    for (const ScanView& scan : pass.scans) {
        if (scan.ready >= kStarved || !lacks_some(scan)) continue;
        const int64_t score =
            static_cast<int64_t>(scan.waited) - static_cast<int64_t>(scan.left) * scans;
        if (best != nullptr && score <= most) continue;
        best = &scan;
        most = score;
    }
    return best;
}

Place load_own(const PassView& pass, const ScanView& scan) {
    // A caller that serves a scan out of turn asks also for one that has its next two.
    size_t chunk = own_missing(scan);
    if (chunk >= pass.chunks) chunk = scan.needs->next_not_in(*scan.there, scan.begin);
    DCHECK(chunk < pass.chunks);
    return {.chunk = chunk, .columns = missing_columns(pass, chunk, scan.columns)};
}

// For all that need it, so with the columns of all.
Place load_at_cursor(const PassView& pass, const ScanView& scan) {
    const size_t chunk = scan.needs->next_not_in(*scan.there, pass.cursor);
    DCHECK(chunk < pass.chunks);
    uint32_t columns = 0;
    for (const ScanView& other : pass.scans)
        if (other.batch == scan.batch && other.needs->has(chunk)) columns |= other.columns;
    return {.chunk = chunk, .columns = missing_columns(pass, chunk, columns)};
}

// How many scans want these columns of each chunk of a word: of them the starved ones, and all.
struct Interest {
    Tally starved, all;
    uint64_t most(uint64_t among) const { return all.most(starved.most(among)); }
    uint64_t least(uint64_t among) const { return all.least(starved.least(among)); }
    // One starved scan counts more than all others together.
    uint64_t score(const PassView& pass, unsigned bit) const {
        return starved.at(bit) * (pass.scans.size() + 1) + all.at(bit);
    }
};

Interest interest_in(const PassView& pass, size_t word, uint32_t columns) {
    Interest out;
    for (const ScanView& scan : pass.scans) {
        if ((scan.columns & columns) == 0) continue;
        out.all.add(scan.needs->word(word));
        if (scan.ready < kStarved) out.starved.add(scan.needs->word(word));
    }
    return out;
}

// The starved are here those that would lose a chunk which they could use now. So if no scan can
// use any, every chunk gives way to a load for a starved scan.
Interest interest_in_keeping(const PassView& pass, size_t word, uint32_t column) {
    Interest out;
    for (const ScanView& scan : pass.scans) {
        if ((scan.columns & column) == 0) continue;
        out.all.add(scan.needs->word(word));
        if (scan.ready <= kStarved) out.starved.add(scan.there->word(word));
    }
    return out;
}

// [CS] loadRelevance: the chunk that most starved scans want, by the pages that it costs.
Place load_most_relevant(const PassView& pass, const ScanView& scan) {
    Place best;
    uint64_t best_pages = 1;
    for (size_t word = 0; word < scan.needs->words(); ++word) {
        const uint64_t lacks = scan.needs->word(word) & ~scan.there->word(word);
        if (lacks == 0) continue;
        const Interest interest = interest_in(pass, word, scan.columns);
        // Each set of columns that some of these chunks still lack.
        for (uint32_t columns = scan.columns; columns != 0;
             columns = (columns - 1) & scan.columns) {
            uint64_t among = lacks;
            for (size_t c = 0; c < pass.there.size(); ++c)
                if ((scan.columns >> c & 1) != 0)
                    among &=
                        pass.there[c].word(word) ^ ((columns >> c & 1) != 0 ? ~uint64_t{0} : 0);
            if (among == 0) continue;
            const auto bit = static_cast<unsigned>(std::countr_zero(interest.most(among)));
            const uint64_t score = interest.score(pass, bit), pages = pages_of(pass, columns);
            if (score * best_pages <= best.score * pages) continue;
            best = {.chunk = word * ChunkSet::kWordBits + bit, .columns = columns, .score = score};
            best_pages = pages;
        }
    }
    DCHECK(best.score > 0 && scan.needs->has(best.chunk));
    return best;
}

Chosen use_own(const PassView&, const ScanView& scan) {
    if (scan.left == 0 || !scan.there->has(own_next(scan))) return {};
    return own_next(scan);
}

// The first behind the cursor: the one that was loaded before the others.
Chosen use_oldest(const PassView& pass, const ScanView& scan) {
    const size_t chunk = scan.there->next(pass.cursor);
    if (chunk == pass.chunks) return {};
    DCHECK(scan.needs->has(chunk));
    return chunk;
}

// [CS] useRelevance: the one that fewest scans want, because it can leave soonest.
Chosen use_rarest(const PassView& pass, const ScanView& scan) {
    Chosen best;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (size_t word = 0; word < scan.there->words(); ++word) {
        if (scan.there->word(word) == 0) continue;
        Tally interested;
        for (const ScanView& other : pass.scans)
            if ((other.columns & scan.columns) != 0) interested.add(other.needs->word(word));
        const uint64_t few = interested.least(scan.there->word(word));
        const auto bit = static_cast<unsigned>(std::countr_zero(few));
        if (interested.at(bit) >= least) continue;
        least = interested.at(bit);
        best = word * ChunkSet::kWordBits + bit;
    }
    return best;
}

// The one that was not used for longest, with all its columns.
std::optional<Place> evict_oldest(const PassView& pass, const Place& load) {
    std::optional<Place> best;
    for (size_t chunk = 0; chunk < pass.chunks; ++chunk) {
        if (pass.pinned->has(chunk) || chunk == load.chunk) continue;
        if (best && pass.used[chunk] >= pass.used[best->chunk]) continue;
        uint32_t columns = 0;
        for (size_t c = 0; c < pass.there.size(); ++c)
            if (pass.there[c].has(chunk)) columns |= uint32_t{1} << c;
        if (columns != 0) best = Place{.chunk = chunk, .columns = columns};
    }
    return best;
}

// Calls fn(word, column, those loaded there that are not in use nor to be loaded).
template <class Fn>
void each_evictable(const PassView& pass, const Place& load, Fn fn) {
    for (size_t word = 0; word < pass.pinned->words(); ++word) {
        uint64_t stays = pass.pinned->word(word);
        if (word == load.chunk / ChunkSet::kWordBits)
            stays |= uint64_t{1} << load.chunk % ChunkSet::kWordBits;
        for (uint32_t c = 0; c < pass.there.size(); ++c)
            if (const uint64_t among = pass.there[c].word(word) & ~stays)
                fn(word, uint32_t{1} << c, among);
    }
}

// Only what no scan needs any more, as it is there. [CS] "elevator": fast scans wait for slow ones.
// A scan that needs further columns of the chunk gets them when the cursor comes round.
std::optional<Place> evict_unneeded(const PassView& pass, const Place& load) {
    std::optional<Place> best;
    each_evictable(pass, load, [&](size_t word, uint32_t column, uint64_t among) {
        if (best) return;
        for (const ScanView& scan : pass.scans)
            if ((scan.columns & column) != 0) among &= ~scan.there->word(word);
        if (among == 0) return;
        const auto bit = static_cast<size_t>(std::countr_zero(among));
        best = Place{.chunk = word * ChunkSet::kWordBits + bit, .columns = column};
    });
    return best;
}

// [CS] keepRelevance: what the fewest almost starved scans want, and only if the load brings more.
std::optional<Place> evict_least_relevant(const PassView& pass, const Place& load) {
    std::optional<Place> best;
    uint64_t least = load.score;
    each_evictable(pass, load, [&](size_t word, uint32_t column, uint64_t among) {
        const Interest interest = interest_in_keeping(pass, word, column);
        const auto bit = static_cast<unsigned>(std::countr_zero(interest.least(among)));
        const uint64_t score = interest.score(pass, bit);
        if (score >= least) return;
        least = score;
        best = Place{.chunk = word * ChunkSet::kWordBits + bit, .columns = column, .score = score};
    });
    return best;
}

}  // namespace

constexpr std::array<Policy, 9> kPolicies = {{
    {"normal", admit_alone, whom_in_turn, load_own, use_own, evict_oldest},
    {"attach", admit_attached, whom_in_turn, load_own, use_own, evict_oldest},
    {"elevator", admit_all, whom_at_cursor, load_at_cursor, use_oldest, evict_unneeded},
    {"relevance", admit_all, whom_most_relevant, load_most_relevant, use_rarest,
     evict_least_relevant},
    // The others are made for data in memory, where a load is a decoding.
    {"full", admit_all, whom_at_cursor, load_at_cursor, use_oldest, evict_oldest},
    {"full-n", admit_some, whom_at_cursor, load_at_cursor, use_oldest, evict_oldest},
    {"cycle", admit_cycle, whom_at_cursor, load_at_cursor, use_oldest, evict_oldest},
    {"naive", admit_alone, whom_first, load_own, use_own, evict_oldest},
    {"batch", admit_batches, whom_at_cursor, load_at_cursor, use_oldest, evict_oldest},
}};

const Policy* find_policy(std::string_view name) {
    const auto row = std::ranges::find(kPolicies, name, &Policy::name);
    return row != kPolicies.end() ? &*row : nullptr;
}

}  // namespace lockstep::sm::scan
