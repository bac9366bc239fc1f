// sim_file.cc - changes, syncs, and what a crash leaves of both.
#include "threads/io/sim_file.h"

#include <algorithm>
#include <cstring>

#include "threads/base/check.h"
#include "threads/io/transfer.h"

namespace lockstep::threads {
namespace {

// The part of a change that lies in [from, to).
void apply(SimContent& content, const SimChange& change, uint64_t from, uint64_t to) {
    from = std::max(from, change.offset);
    to = std::min(to, change.offset + change.bytes);
    if (from >= to) return;
    content.write(from,
                  change.data == nullptr ? nullptr : change.data.get() + (from - change.offset),
                  to - from);
}

void apply(SimContent& content, const SimChange& change) { apply(content, change, 0, UINT64_MAX); }

uint64_t sector_count(const SimChange& change) {
    return (change.offset + change.bytes + kSectorBytes - 1) / kSectorBytes -
           change.offset / kSectorBytes;
}

}  // namespace

size_t SimFile::read(uint64_t offset, std::byte* data, size_t bytes) const {
    if (offset >= length_) return 0;
    bytes = static_cast<size_t>(std::min<uint64_t>(bytes, length_ - offset));
    current_.read(offset, data, bytes);
    return bytes;
}

bool SimFile::is_written(uint64_t offset, uint64_t bytes) const {
    return std::ranges::any_of(in_flight_, [&](const SimChange& change) {
        return change.offset < offset + bytes && offset < change.offset + change.bytes;
    });
}

void SimFile::tear(uint64_t offset, std::byte* data, size_t bytes, Rng& rng) const {
    DCHECK(is_written(offset, bytes));
    for (const SimChange& change : in_flight_) {
        DCHECK(change.data != nullptr && change.number == 0);
        const uint64_t end = std::min(change.offset + change.bytes, offset + bytes);
        for (uint64_t at = std::max(change.offset, offset); at < end;) {
            const uint64_t next = std::min(end, (at / kSectorBytes + 1) * kSectorBytes);
            if (rng.chance(0.5))
                std::memcpy(data + (at - offset), change.data.get() + (at - change.offset),
                            next - at);
            at = next;
        }
    }
}

bool SimFile::has_bad_sector(uint64_t offset, uint64_t bytes) const {
    const auto it = bad_sectors_.lower_bound(offset / kSectorBytes);
    return it != bad_sectors_.end() && *it * kSectorBytes < offset + bytes;
}

SimFile::WriteHandle SimFile::begin_write(uint64_t offset, std::shared_ptr<const std::byte[]> data,
                                          uint64_t bytes) {
    for (const SimChange& other : in_flight_) {
        const bool writes_in_flight_overlap =
            offset < other.offset + other.bytes && other.offset < offset + bytes;
        CHECK(!writes_in_flight_overlap);  // SF-1
    }
    in_flight_.push_back({.offset = offset, .bytes = bytes, .data = std::move(data)});
    return std::prev(in_flight_.end());
}

void SimFile::end_write(WriteHandle write, uint64_t bytes, uint64_t offset) {
    SimChange change = std::move(*write);
    DCHECK(bytes <= change.bytes && change.number == 0);
    in_flight_.erase(write);
    if (bytes == 0) return;
    change.bytes = bytes;
    change.offset = offset;
    change.length_after = std::max(length_, offset + bytes);
    cover_lost(change, changes_made_ + 1);
    bad_sectors_.erase(bad_sectors_.lower_bound(offset / kSectorBytes),
                       bad_sectors_.lower_bound((offset + bytes) / kSectorBytes));
    record(std::move(change));
}

// In sectors, so that a later write removes exactly what it covers.
void SimFile::lose_write(WriteHandle write) {
    const SimChange change = std::move(*write);
    in_flight_.erase(write);
    cover_lost(change, 0);
    for (uint64_t at = 0; at < change.bytes; at += kSectorBytes)
        lost_.push_back({change.offset + at, std::min<uint64_t>(kSectorBytes, change.bytes - at),
                         std::shared_ptr<const std::byte[]>(change.data, change.data.get() + at)});
}

// `number`: of the change; 0 if it is lost itself.
void SimFile::cover_lost(const SimChange& change, uint64_t number) {
    DCHECK(number == 0 || number > changes_made_);
    const auto covers = [&](const Lost& l) {
        return l.offset < change.offset + change.bytes && change.offset < l.offset + l.bytes;
    };
    for (const Lost& l : lost_)
        if (covers(l) && number != 0) covered_.push_back({l.offset, l.bytes, l.data, number});
    std::erase_if(lost_, covers);
}

void SimFile::set_length(uint64_t bytes) {
    SimChange change;
    change.offset = change.length_after = bytes;
    change.bytes = bytes < length_ ? length_ - bytes : 0;
    record(std::move(change));
}

void SimFile::record(SimChange change) {
    assert_state();
    DCHECK(change.number == 0 && !change.in_doubt);
    apply(current_, change);
    length_ = change.length_after;
    change.number = ++changes_made_;
    unsynced_.push_back(std::move(change));
}

// In the usual case everything becomes durable, and the durable bytes are the current ones.
void SimFile::synced(uint64_t point, Rng& rng) {
    assert_state();
    DCHECK(point <= changes_made_);
    const auto end = std::find_if(unsynced_.begin(), unsynced_.end(),
                                  [&](const SimChange& c) { return c.number > point; });
    const bool certain =
        std::none_of(unsynced_.begin(), end, [](const SimChange& c) { return c.in_doubt; });
    if (end == unsynced_.begin()) return;
    durable_length_ = std::prev(end)->length_after;
    if (end == unsynced_.end() && certain && !diverged_) {
        durable_ = current_;
    } else {
        for (auto it = unsynced_.begin(); it != end; ++it) {
            if (!it->in_doubt || rng.chance(0.5)) apply(durable_, *it);
            else diverged_ = true;
        }
    }
    unsynced_.erase(unsynced_.begin(), end);
    std::erase_if(covered_, [&](const Lost& l) { return l.covered_by <= point; });
}

void SimFile::newest_synced() {
    DCHECK(!unsynced_.empty() && unsynced_.back().number == changes_made_);
    std::erase_if(covered_, [&](const Lost& l) { return l.covered_by == changes_made_; });
    const SimChange change = std::move(unsynced_.back());
    unsynced_.pop_back();
    forget_beneath(change.offset, change.offset + change.bytes);
    apply(durable_, change);
    durable_length_ = std::max(durable_length_, change.offset + change.bytes);
}

// A crash can no longer expose unsynced changes to [from, to), because newer bytes there are
// durable.
void SimFile::forget_beneath(uint64_t from, uint64_t to) {
    DCHECK(from <= to);
    std::vector<SimChange> left;
    for (SimChange& change : unsynced_) {
        const uint64_t end = change.offset + change.bytes;
        if (change.offset >= to || end <= from) {
            left.push_back(std::move(change));
            continue;
        }
        SimChange head = change, tail = change;
        // A change without bytes still sets the length.
        head.bytes = from > change.offset ? from - change.offset : 0;
        left.push_back(std::move(head));
        if (end <= to) continue;
        tail.offset = to;
        tail.bytes = end - to;
        if (tail.data != nullptr)
            tail.data = {change.data, change.data.get() + (to - change.offset)};
        left.push_back(std::move(tail));
    }
    unsynced_ = std::move(left);
}

void SimFile::sync_failed(uint64_t point) {
    DCHECK(point <= changes_made_);
    for (SimChange& change : unsynced_) {
        if (change.number <= point) change.in_doubt = true;
    }
}

std::shared_ptr<SimFile> SimFile::after_crash(Rng& rng, SimCrash mode) const {
    auto image = std::make_shared<SimFile>(path);
    image->durable_ = durable_;
    image->durable_length_ = durable_length_;
    // May or may not have reached the device.
    std::list<SimChange> begun = in_flight_;
    uint64_t length = length_;
    for (SimChange& change : begun)
        change.length_after = length = std::max(length, change.offset + change.bytes);
    Changes changes;
    for (const SimChange& change : unsynced_) changes.push_back(&change);
    for (const SimChange& change : begun) changes.push_back(&change);
    if (!changes.empty()) {
        switch (mode) {
            case SimCrash::drop_unsynced: break;
            case SimCrash::keep_all:
                for (const SimChange* change : changes) apply(image->durable_, *change);
                image->durable_length_ = changes.back()->length_after;
                break;
            case SimCrash::random_sectors: keep_sectors(*image, changes, rng); break;
            case SimCrash::torn_requests: keep_torn(*image, changes, rng); break;
            case SimCrash::ordered_prefix: keep_prefix(*image, changes, rng); break;
        }
    }
    image->durable_.zero_from(image->durable_length_);
    image->current_ = image->durable_;
    image->length_ = image->durable_length_;
    image->bad_sectors_ = bad_sectors_;
    image->lost_ = lost_;
    for (const Lost& l : covered_) image->lost_.push_back({l.offset, l.bytes, l.data});
    return image;
}

// Each sector independently: version 0 is the durable one, version i the result of the first i
// changes to it.
void SimFile::keep_sectors(SimFile& image, const Changes& changes, Rng& rng) const {
    std::map<uint64_t, Changes> by_sector;
    for (const SimChange* change : changes) {
        const uint64_t first = change->offset / kSectorBytes;
        const uint64_t count = change->bytes == 0 ? 0 : sector_count(*change);
        for (uint64_t s = first; s < first + count; ++s) by_sector[s].push_back(change);
    }
    for (const auto& [sector, versions] : by_sector) {
        const uint64_t chosen = rng.below(versions.size() + 1);
        for (uint64_t i = 0; i < chosen; ++i) {
            apply(image.durable_, *versions[i], sector * kSectorBytes, (sector + 1) * kSectorBytes);
        }
    }
    const uint64_t length = rng.below(changes.size() + 1);
    if (length > 0) image.durable_length_ = changes[length - 1]->length_after;
}

// Each request whole, lost, or cut at a sector with only its head or only its tail written.
void SimFile::keep_torn(SimFile& image, const Changes& changes, Rng& rng) const {
    for (const SimChange* change : changes) {
        const uint64_t fate = rng.below(4);
        if (fate == 0) continue;
        const uint64_t cut =
            (change->offset / kSectorBytes + rng.below(sector_count(*change) + 1)) * kSectorBytes;
        if (fate == 1) apply(image.durable_, *change);
        else if (fate == 2) apply(image.durable_, *change, 0, cut);
        else apply(image.durable_, *change, cut, UINT64_MAX);
    }
    const uint64_t length = rng.below(changes.size() + 1);
    if (length > 0) image.durable_length_ = changes[length - 1]->length_after;
}

// A device that keeps the order: all changes up to some sector of some request.
void SimFile::keep_prefix(SimFile& image, const Changes& changes, Rng& rng) const {
    const uint64_t whole = rng.below(changes.size() + 1);
    for (uint64_t i = 0; i < whole; ++i) apply(image.durable_, *changes[i]);
    if (whole > 0) image.durable_length_ = changes[whole - 1]->length_after;
    if (whole == changes.size()) return;
    const SimChange& torn = *changes[whole];
    const uint64_t cut =
        (torn.offset / kSectorBytes + rng.below(sector_count(torn) + 1)) * kSectorBytes;
    apply(image.durable_, torn, 0, cut);
    if (cut > torn.offset)
        image.durable_length_ = std::max(image.durable_length_, std::min(cut, torn.length_after));
}

}  // namespace lockstep::threads
