// injury.cc - damaging images.
#include "tests/sim/injury.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "sm/buffer/page.h"
#include "sm/buffer/superblock.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log.h"
#include "txn/log/log_files.h"

namespace lockstep::sim {

namespace {

class Patient {
public:
    Patient(threads::SimDisk& disk, Rng& rng) : disk_(disk), rng_(rng) {}

    // The LSN that was damaged; 0: no place for it.
    uint64_t injure_log() {
        const auto place = durable_place();
        return place && flip(place->path, place->offset) ? place->lsn : 0;
    }

    // A write that was acknowledged and never arrived: a block is as it was before, empty.
    // Its records may be zeros in part, or lie outside of the durable log. The LSN is that of the
    // first durable byte that changes.
    uint64_t lose_log_block() {
        const auto place = durable_place();
        if (!place) return 0;
        const uint64_t begin = place->lsn - place->lsn % txn::kLogBlock;
        const std::string was =
            blank(place->path, place->offset - (place->lsn - begin), txn::kLogBlock);
        for (uint64_t at = 0; at < was.size(); ++at)
            if (was[at] != 0 && begin + at >= place->from && begin + at < place->end)
                return begin + at;
        return 0;
    }

    // The same with an old mark, where only the log itself can tell.
    uint64_t injure_log_tail() {
        const auto superblock = read_superblock();
        if (!superblock) return 0;
        const uint64_t from = std::max(superblock->checkpoint_lsn, txn::kLogFirst);
        txn::LogOptions options;
        options.directory = "/store";
        options.segment_bytes = superblock->log_segment_bytes;
        txn::LogReader reader(disk_, options);
        reader.seek(Lsn{from});
        uint64_t stamped = 0;
        for (txn::LogRecordView record; reader.next(record).value_or(false);)
            stamped = std::max(stamped, txn::stamped_durable_end(*record.header, record.lsn).value);
        if (stamped <= from || !put_mark_back(from)) return 0;
        const Place place = place_in(from, stamped, *superblock);
        return flip(place.path, place.offset) ? place.lsn : 0;
    }

    // A bit.
    bool injure_page() {
        const uint64_t page = used_page();
        return page != 0 && flip("/store/data", page * kPageBytes + rng_.below(kPageBytes));
    }

    // How many sectors were spoilt.
    uint64_t spoil_sectors() {
        uint64_t spoilt = 0;
        for (uint64_t n = 1 + rng_.below(4); n > 0; --n) {
            const uint64_t page = used_page();
            if (page == 0) continue;
            disk_.spoil_sector("/store/data", page * kPageBytes + rng_.below(kPageBytes));
            ++spoilt;
        }
        return spoilt;
    }

private:
    struct Place {
        uint64_t lsn, from, end;  // from the checkpoint to the recorded durable end
        std::string path;
        uint64_t offset;
    };
    Result<sm::Superblock> read_superblock() {
        auto data = TRY(disk_.open("/store/data", 0));
        auto superblock = sm::read_superblock(disk_, data);
        disk_.close(data);
        return superblock;
    }
    Place place_in(uint64_t from, uint64_t end, const sm::Superblock& superblock) {
        const uint64_t lsn = from + rng_.below(end - from);
        const txn::LogFiles files(disk_, "/store", superblock.log_segment_bytes);
        return {lsn, from, end, files.segment_path(files.number_of(lsn)),
                lsn % superblock.log_segment_bytes};
    }
    // Somewhere between the checkpoint and the recorded durable end.
    std::optional<Place> durable_place() {
        const auto superblock = read_superblock();
        const auto end = txn::recorded_durable_end(disk_, "/store");
        if (!superblock || !end) return std::nullopt;
        const uint64_t from = std::max(superblock->checkpoint_lsn, txn::kLogFirst);
        if (end->value <= from) return std::nullopt;
        return place_in(from, end->value, *superblock);
    }
    // A page that is not empty; 0: none found.
    uint64_t used_page() {
        auto data = disk_.open("/store/data", 0);
        if (!data) return false;
        const uint64_t pages = disk_.size(*data).value_or(0) / kPageBytes;
        uint64_t page = 0;
        for (int tries = 0; tries < 20 && page == 0 && pages > 3; ++tries) {
            const uint64_t candidate = 2 + rng_.below(pages - 2);
            std::array<char, kPageBytes> bytes{};
            if (disk_.read_now(*data, candidate * kPageBytes, bytes.data(), kPageBytes) &&
                bytes != std::array<char, kPageBytes>{})
                page = candidate;
        }
        disk_.close(*data);
        return page;
    }
    bool put_mark_back(uint64_t durable_end) {
        auto mark = txn::DurableEnd::load(disk_, "/store/log.mark");
        auto file = disk_.open("/store/log.mark", 0);
        if (!mark || !*mark || !file) return false;
        bool done = true;
        for (int slot = 0; slot < 2; ++slot) {
            ++(**mark).sequence;
            (**mark).durable_end = durable_end;
            done = done && (**mark).store(disk_, *file);
        }
        disk_.close(*file);
        return done;
    }
    bool flip(const std::string& path, uint64_t offset) {
        auto file = disk_.open(path, 0);
        if (!file) return false;
        char byte = 0;
        bool done = disk_.read_now(*file, offset, &byte, 1).value_or(0) == 1;
        byte = static_cast<char>(byte ^ (1 << rng_.below(8)));
        done = done && disk_.write_now(*file, offset, &byte, 1).has_value();
        disk_.close(*file);
        return done;
    }

    // What was there; empty: nothing has been done.
    std::string blank(const std::string& path, uint64_t offset, uint64_t bytes) {
        auto file = disk_.open(path, 0);
        if (!file) return {};
        std::string was(bytes, '\0');
        const std::string empty(bytes, '\0');
        const bool done = disk_.read_now(*file, offset, was.data(), bytes).has_value() &&
                          disk_.write_now(*file, offset, empty.data(), bytes).has_value();
        disk_.close(*file);
        return done ? was : std::string();
    }

    threads::SimDisk& disk_;
    Rng& rng_;
};

// A restart that could not read something has spoilt nothing: once everything can be read, nothing
// is missing.
void judge_mended(threads::SimDisk& image, Work& work, uint64_t at, Shared& shared) {
    image.mend_sectors();
    Host host(image, shared.config, 3001);
    if (auto opened = host.open(); !opened)
        return shared.report.fail("opening after a refused restart: " + opened.error().text());
    (void)work.judge(host, at, 0, shared);
}

}  // namespace

void injure_and_judge(threads::SimDisk& image, Injury injury, Work& work, uint64_t at,
                      Shared& shared, Rng& rng) {
    if (image.exists("/store/creating")) return;  // whatever lies there is made anew
    Patient patient(image, rng);
    uint64_t lsn = 0;
    if (injury == Injury::log && (lsn = patient.injure_log()) == 0) return;
    if (injury == Injury::log_lost && (lsn = patient.lose_log_block()) == 0) return;
    if (injury == Injury::log_tail && (lsn = patient.injure_log_tail()) == 0) return;
    const uint64_t spoilt = injury == Injury::unreadable ? patient.spoil_sectors() : 0;
    if (injury == Injury::unreadable && spoilt == 0) return;
    if (injury == Injury::page && !patient.injure_page()) return;
    Host host(image, shared.config, 3000);
    auto opened = host.open();
    if (lsn != 0) {
        shared.report.add(injury == Injury::log        ? Count::log_damage
                          : injury == Injury::log_lost ? Count::lost_write_log
                                                       : Count::log_tail_damage);
        if (opened)
            return shared.report.fail(
                fmt::format("damage at LSN {} below the durable end was not noticed", lsn));
        if (opened.error().code != ErrorCode::corrupt_log || opened.error().a > lsn ||
            lsn - opened.error().a > txn::kLogRecordMax + txn::kLogBlock)
            shared.report.fail(
                fmt::format("damage at LSN {} was reported as: {}", lsn, opened.error().text()));
        return;
    }
    shared.report.add(injury == Injury::page ? Count::page_damage : Count::unreadable,
                      injury == Injury::page ? 1 : spoilt);
    if (!opened) {
        if (!sm::is_bad_page(opened.error().code) || opened.error().a == 0)
            return shared.report.fail("opening with a damaged page: " + opened.error().text());
        shared.report.add(injury == Injury::page ? Count::page_refused : Count::unreadable_refused);
        if (injury == Injury::unreadable) judge_mended(image, work, at, shared);
        return;
    }
    work.judge_injured(host, at);
    if (host.is_open() && host.engine().pool->stats().repairs > 0)
        shared.report.add(Count::page_repaired);
}

}  // namespace lockstep::sim
