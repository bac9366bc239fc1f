// labels: unit
// page_change_test.cc - the change recipe: what is in the record, what is on the page, and when an
// image goes along.
#include <map>

#include "sm/change/page_image.h"
#include "tests/sm/buffer/pool_test_util.h"

namespace lockstep::sm::page_change_test {

// All parts of the log from `from` on.
struct LoggedPart {
    Lsn begin, end;
    txn::LogRecordHeader header;
    PageId page;
    PageAction action;
    uint8_t flags;
    std::string image, payload;
};
std::vector<LoggedPart> read_parts(PoolRig& rig, Lsn from) {
    rig.engine.log->request_flush();
    EXPECT_TRUE(rig.engine.log->wait_durable(rig.engine.log->tail()));
    std::vector<LoggedPart> out;
    txn::LogReader reader(*rig.engine.disk, rig.engine.log_options);
    reader.seek(from);
    for (txn::LogRecordView record;;) {
        auto more = reader.next(record);
        EXPECT_TRUE(more.has_value());
        if (!more.has_value() || !*more) return out;
        if (record.header->kind < txn::kSmLogKindFirst) continue;
        uint32_t cursor = 0;
        for (PartView part;;) {
            auto next = next_part(record, cursor, part);
            EXPECT_TRUE(next.has_value()) << next.error().text();
            if (!next.has_value() || !*next) break;
            out.push_back({record.lsn, record.end(), *record.header, part.page, part.action,
                           part.flags, std::string(part.image), std::string(part.payload)});
        }
    }
}

class PageChange : public ::testing::Test {
protected:
    // One record for space_set of a page in the (one) map: an action that needs the old page.
    Lsn touch_map() {
        auto r = rig_.engine.space->prepare(1);
        EXPECT_TRUE(r);
        ChangePart part = r->part();
        auto lsn = change_pages(rig_.engine, nullptr, ChangeRole::system, LogKind::space_grow,
                                ObjectId{0}, {&part, 1});
        EXPECT_TRUE(lsn);
        EXPECT_EQ(r->map->lsn() > *lsn, true);
        return *lsn;
    }
    PoolRig rig_;
};

TEST_F(PageChange, RecordAndPageAgree) {
    rig_.run([&] {
        const Lsn from = rig_.engine.log->tail();
        const Lsn lsn = touch_map();
        EXPECT_EQ(lsn, from);
        const auto parts = read_parts(rig_, from);
        ASSERT_EQ(parts.size(), 1u);
        const LoggedPart& p = parts[0];
        EXPECT_EQ(p.header.kind, static_cast<uint16_t>(LogKind::space_grow));
        EXPECT_EQ(p.header.txn, 0u);
        EXPECT_EQ(p.header.flags, 0);
        EXPECT_EQ(p.header.parts, 1);
        EXPECT_EQ(p.page, kFirstMapPage);
        EXPECT_EQ(p.action, PageAction::space_set);
        EXPECT_TRUE(p.image.empty());
        EXPECT_EQ(p.payload.size(), 8u);
        EXPECT_EQ((*rig_.engine.pool->fix_shared(kFirstMapPage))->lsn(), p.end);
    });
}

// PC-3 in both directions: the first change after the image LSN has moved carries the state before
// it, later ones do not.
TEST_F(PageChange, ImageExactlyWhenNeeded) {
    rig_.run([&] {
        touch_map();
        const Lsn from = rig_.engine.log->tail();
        Page before;
        std::memcpy(static_cast<void*>(&before), &**rig_.engine.pool->fix_shared(kFirstMapPage),
                    kPageBytes);
        ASSERT_EQ(before.lsn(), from);
        // Equal to the page's lsn: its last record lies below.
        rig_.engine.image_lsn.store(from.value);
        touch_map();
        touch_map();
        rig_.engine.image_lsn.store(kLsnMax.value);  // a checkpoint begins: everything
        touch_map();
        touch_map();
        rig_.engine.image_lsn.store(from.value);
        touch_map();
        const auto parts = read_parts(rig_, from);
        ASSERT_EQ(parts.size(), 5u);
        const bool expected[] = {true, false, true, true, false};
        for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(!parts[i].image.empty(), expected[i]) << i;
            EXPECT_EQ((parts[i].flags & kPartImage) != 0, expected[i]) << i;
        }
        Page rebuilt;
        install_image(rebuilt, parts[0].image);
        before.header.checksum = rebuilt.header.checksum;
        EXPECT_EQ(0, std::memcmp(static_cast<void*>(&before), &rebuilt, kPageBytes));
        // A small volume's map is nearly all hole.
        EXPECT_EQ(parts[0].image.size(), 4u + 64 + 8);
    });
}

TEST_F(PageChange, FreshPartsNeedNoImage) {
    rig_.run([&] {
        std::vector<PageId> pages;
        make_pages(rig_.engine, 1, pages);
        const Lsn from = rig_.engine.log->tail();
        rig_.engine.image_lsn.store(kLsnMax.value);
        auto page = rig_.engine.pool->fix_exclusive(pages[0]);
        ASSERT_TRUE(CounterPage::set(rig_.engine, *page, 3));
        ChangePart part{.page = &*page, .action = PageAction::page_free, .flags = 0, .pieces = {}};
        ASSERT_TRUE(change_pages(rig_.engine, nullptr, ChangeRole::system, LogKind::space_free,
                                 ObjectId{0}, {&part, 1}));
        EXPECT_EQ((*page)->kind(), PageKind::free);
        EXPECT_EQ((*page)->id(), pages[0]);
        const auto parts = read_parts(rig_, from);
        ASSERT_EQ(parts.size(), 2u);
        for (const LoggedPart& p : parts) {
            EXPECT_TRUE(p.image.empty());
            EXPECT_EQ(p.flags, kPartFresh);
        }
    });
}

// Redo equality: the log applied to the pages as they were gives the pages as they are, outside
// their holes.
TEST(PageChangeRedo, LogRebuildsEveryPage) {
    const uint64_t seed = seed_of_run();
    PoolRig rig({.workers = 2, .pool_bytes = 1 << 20});
    std::vector<PageId> pages;
    std::map<uint32_t, Page> copies;
    Lsn from;
    rig.run([&] {
        make_pages(rig.engine, 300, pages);
        ASSERT_TRUE(rig.engine.pool->write_dirty(0));
        from = rig.engine.log->tail();
        rig.engine.image_lsn.store(from.value);
        std::vector<PageId> all = pages;
        all.push_back(kFirstMapPage);
        for (const PageId id : all) {
            auto page = rig.engine.pool->fix_shared(id);
            ASSERT_TRUE(page);
            std::memcpy(static_cast<void*>(&copies[id.value]), &**page, kPageBytes);
        }
    });
    std::vector<std::function<void()>> fns;
    for (int t = 0; t < 6; ++t)
        fns.push_back([&, t] {
            Rng rng(seed * 31 + t);
            for (int i = 0; i < 1500; ++i) {
                if (rng.chance(0.1)) {
                    auto r = rig.engine.space->prepare(1 + static_cast<uint32_t>(rng.below(8)));
                    ASSERT_TRUE(r);
                    ChangePart part = r->part();
                    ASSERT_TRUE(change_pages(rig.engine, nullptr, ChangeRole::system,
                                             LogKind::space_grow, ObjectId{0}, {&part, 1}));
                    continue;
                }
                auto page = rig.engine.pool->fix_exclusive(pages[rng.below(pages.size())]);
                ASSERT_TRUE(page) << page.error().text();
                ASSERT_TRUE(CounterPage::set(rig.engine, *page, rng.next()));
            }
        });
    rig.run_all(std::move(fns));
    rig.run([&] {
        for (const LoggedPart& p : read_parts(rig, from)) {
            Page& page = copies.at(p.page.value);
            if (page.lsn() >= p.end) continue;
            if (!p.image.empty()) {
                ASSERT_TRUE(bring_image(page, {p.page, p.action, p.flags, p.image, p.payload}));
            }
            apply_action(p.action, page, p.payload);
            page.header.lsn = p.end.value;
        }
        for (auto& [id, copy] : copies) {
            auto live = rig.engine.pool->fix_shared(PageId{id});
            ASSERT_TRUE(live);
            copy.header.checksum = (*live)->header.checksum;
            const PageHeader& h = copy.header;
            ASSERT_EQ(0, std::memcmp(copy.bytes(), (*live)->bytes(), h.hole_begin))
                << "page " << id << " seed " << seed;
            ASSERT_EQ(0, std::memcmp(copy.bytes() + h.hole_end, (*live)->bytes() + h.hole_end,
                                     kPageBytes - h.hole_end))
                << "page " << id;
        }
    });
}

// Payload pieces are written one behind the other, and may lie in pages that the same record
// changes.
TEST_F(PageChange, PiecesMayLieInThePages) {
    rig_.run([&] {
        std::vector<PageId> pages;
        make_pages(rig_.engine, 2, pages);
        auto a = rig_.engine.pool->fix_exclusive(pages[0]),
             b = rig_.engine.pool->fix_exclusive(pages[1]);
        ASSERT_TRUE(CounterPage::set(rig_.engine, *a, 42));
        // b becomes what a is (its id apart), while a is freed by an earlier part of the same
        // record.
        const PageHeader& h = (*a)->header;
        const uint16_t hole[2] = {h.hole_begin, h.hole_end};
        PageHeader head = h;
        head.page_id = pages[1].value;
        ChangePart parts[2] = {
            {.page = &*a, .action = PageAction::page_free, .flags = 0, .pieces = {}},
            {.page = &*b,
             .action = PageAction::page_image,
             .flags = kPartFresh,
             .pieces = {Slice(reinterpret_cast<const char*>(hole), 4),
                        Slice(reinterpret_cast<const char*>(&head), sizeof head),
                        {},
                        Slice(reinterpret_cast<const char*>((*a)->bytes() + sizeof head),
                              h.hole_begin - sizeof head)}}};
        ASSERT_TRUE(change_pages(rig_.engine, nullptr, ChangeRole::system, LogKind::overflow_write,
                                 ObjectId{7}, parts));
        EXPECT_EQ((*a)->kind(), PageKind::free);
        EXPECT_EQ(CounterPage::get(**b), 42u);
        EXPECT_EQ((*a)->lsn(), (*b)->lsn());
    });
}

// prev, txn and flags of a transaction's records; its undo promises.
TEST_F(PageChange, TransactionsChainTheirRecords) {
    rig_.run([&] {
        std::vector<PageId> pages;
        make_pages(rig_.engine, 6, pages);
        txn::Transaction& txn = **rig_.engine.txns->begin({.durability = txn::Durability::lazy});
        const Lsn from = rig_.engine.log->tail();
        const auto change = [&](PageId id, ChangeRole role, Lsn undo_next = kLsnNone) {
            auto page = rig_.engine.pool->fix_exclusive(id);
            alignas(8) std::byte image[kPageBytes];
            write_image(**page, image);
            ChangePart part{
                .page = &*page,
                .action = PageAction::page_image,
                .flags = kPartFresh,
                .pieces = {
                    Slice(reinterpret_cast<const char*>(image), image_bytes(**page)), {}, {}, {}}};
            auto lsn = change_pages(rig_.engine, &txn, role, LogKind::heap_update, ObjectId{3},
                                    {&part, 1}, undo_next);
            EXPECT_TRUE(lsn);
            return *lsn;
        };
        const Lsn first = change(pages[0], ChangeRole::forward);
        EXPECT_EQ(txn.first_lsn.load() != 0 && txn.first_lsn.load() <= first.value, true);
        const uint64_t after_first = txn.undo.bytes;
        // The page's image is promised once ...
        EXPECT_GE(after_first, kPageBytes);
        const Lsn second = change(pages[0], ChangeRole::forward);
        EXPECT_LT(txn.undo.bytes - after_first, 400u);  // ... and not again
        for (int i = 1; i < 5; ++i) change(pages[i], ChangeRole::forward);
        const uint64_t before = txn.undo.bytes;
        const Lsn last = change(pages[0], ChangeRole::forward);  // four others came between
        EXPECT_GE(txn.undo.bytes - before, kPageBytes);
        EXPECT_EQ(txn.last_lsn, last);
        const uint64_t before_clr = txn.undo.bytes;
        const Lsn clr = change(pages[0], ChangeRole::compensation, first);
        EXPECT_EQ(txn.last_lsn, clr);
        EXPECT_LT(txn.undo.bytes, before_clr);
        const uint64_t after_clr = txn.undo.bytes;
        // A rollback uses promises up: promised anew.
        change(pages[0], ChangeRole::forward);
        EXPECT_GE(txn.undo.bytes - after_clr, kPageBytes);
        const auto parts = read_parts(rig_, from);
        ASSERT_EQ(parts.size(), 9u);
        EXPECT_EQ(parts[0].header.prev, 0u);
        EXPECT_EQ(parts[1].begin, second);
        EXPECT_EQ(parts[1].header.prev, first.value);
        for (const LoggedPart& p : parts) EXPECT_EQ(p.header.txn, txn.id.value);
        EXPECT_EQ(parts[6].header.flags, txn::kLogUndoable);
        EXPECT_EQ(parts[7].header.flags, txn::kLogCompensation);
        EXPECT_EQ(parts[7].header.prev, first.value);
        EXPECT_EQ(parts[8].header.prev, clr.value);
        ASSERT_TRUE(rig_.engine.txns->commit(txn));
    });
}

// A full log refuses forward records before anything has changed, and never a compensation.
TEST(PageChangeLogFull, ForwardIsRefusedCompensationIsNot) {
    PoolRig rig({.workers = 1, .pool_bytes = 4 << 20, .log_bytes = 16 << 20});
    rig.run([&] {
        std::vector<PageId> pages;
        make_pages(rig.engine, 1, pages);
        txn::Transaction& txn = **rig.engine.txns->begin({.durability = txn::Durability::lazy});
        auto page = rig.engine.pool->fix_exclusive(pages[0]);
        std::string big(4 + kPageBytes, 0);
        const auto change = [&](ChangeRole role) {
            Page next;
            std::memcpy(static_cast<void*>(&next), &**page, kPageBytes);
            next.header.hole_begin = next.header.hole_end = kPageBytes;
            write_image(next, reinterpret_cast<std::byte*>(big.data()));
            ChangePart part{.page = &*page,
                            .action = PageAction::page_image,
                            .flags = kPartFresh,
                            .pieces = {big, {}, {}, {}}};
            return change_pages(rig.engine, &txn, role, LogKind::heap_update, ObjectId{3},
                                {&part, 1}, kLsnNone);
        };
        uint64_t records = 0;
        Result<Lsn> done = change(ChangeRole::forward);
        for (; done; done = change(ChangeRole::forward)) ASSERT_LT(++records, 4000u);
        EXPECT_EQ(done.error().code, ErrorCode::log_full) << done.error().text();
        EXPECT_GT(records, 300u);
        const Lsn lsn = (*page)->lsn(), tail = rig.engine.log->tail();
        EXPECT_FALSE(change(ChangeRole::forward));
        EXPECT_EQ((*page)->lsn(), lsn);
        EXPECT_EQ(rig.engine.log->tail(), tail);
        for (uint64_t i = 0; i < records; ++i) ASSERT_TRUE(change(ChangeRole::compensation)) << i;
        EXPECT_LE(rig.engine.log->used_bytes(), rig.engine.log->capacity_bytes());
        rig.engine.txns->finish_abort(txn, true);
    });
}

// Checkpoints begin at random while two workers change pages: every page that is changed at or
// above an image LSN has its image (or a fresh part) as its first part from there on.
TEST(PageChangeImageLsn, FirstPartAboveAnImageLsnBringsThePage) {
    PoolRig rig({.workers = 2, .pool_bytes = 4 << 20});
    const uint64_t seed = seed_of_run();
    constexpr uint64_t kImageLsns = 60;
    std::vector<uint64_t> image_lsns;
    Lsn from;
    std::atomic<uint64_t> changes{0};
    std::atomic<bool> all_taken{false};
    rig.run([&] { from = rig.engine.log->tail(); });
    std::vector<std::function<void()>> fns;
    for (int t = 0; t < 3; ++t)
        fns.push_back([&] {
            for (int i = 0; i < 1000 || !all_taken.load(); ++i) {
                auto r = rig.engine.space->prepare(1);
                ASSERT_TRUE(r);
                ChangePart part = r->part();
                ASSERT_TRUE(change_pages(rig.engine, nullptr, ChangeRole::system,
                                         LogKind::space_grow, ObjectId{0}, {&part, 1}));
                r->map.release();
                changes.fetch_add(1);
                if (i % 8 == 0) threads::yield();
            }
        });
    fns.push_back([&] {
        Rng rng(seed);
        for (uint64_t n = 0; n < kImageLsns; ++n) {
            rig.engine.image_lsn.store(kLsnMax.value);
            const uint64_t h = rig.engine.log->tail().value;
            rig.engine.image_lsn.store(h);
            image_lsns.push_back(h);
            // By changes rather than by time: on a busy machine nothing may change for long.
            const uint64_t until = changes.load() + 1 + rng.below(20);
            while (changes.load() < until) threads::yield();
        }
        all_taken.store(true);
    });
    rig.run_all(std::move(fns));
    rig.run([&] {
        const auto parts = read_parts(rig, from);
        uint64_t images = 0;
        for (const LoggedPart& p : parts) images += !p.image.empty();
        EXPECT_LT(images, parts.size());
        EXPECT_GT(images, 10u);
        for (const uint64_t h : image_lsns)
            for (const LoggedPart& p : parts)
                if (p.begin.value >= h) {
                    ASSERT_TRUE(!p.image.empty() || (p.flags & kPartFresh))
                        << "first record at " << p.begin.value << " above image LSN " << h;
                    break;
                }
    });
}

}  // namespace lockstep::sm::page_change_test
