// pool_test_util.h - engine parts up to the space map, assembled by hand, without trees.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/recovery/recovery.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/io/sim_disk.h"

namespace lockstep::sm {

struct RigOptions {
    uint32_t workers = 1;
    uint64_t pool_bytes = 2 << 20;
    // SimDisk, ManualClock, caller-driven; else a directory and kernel threads.
    bool simulated = false;
    bool cleaner = true;
    bool huge_pages = false;
    uint64_t log_bytes = 64 << 20;
    threads::SimOptions sim = {};
};

class PoolRig {
public:
    explicit PoolRig(const RigOptions& options = {}) : options_(options) {
        if (options.simulated) {
            sim = std::make_unique<threads::SimDisk>(options.sim);
            engine.disk = sim.get();
            directory_ = "store";
        } else {
            directory_ = make_own_directory("pool");
            own_disk_ = threads::make_disk();
            engine.disk = own_disk_.get();
        }
        build();
    }
    ~PoolRig() {
        run([&] {
            engine.pool->stop_cleaner();
            engine.log->stop_flusher();
        });
        engine.runtime->stop();
        engine.disk->close(engine.data_file);
        own_space_.reset();
        own_pool_.reset();
        own_txns_.reset();
        own_locks_.reset();
        own_log_.reset();
        own_runtime_.reset();
        if (!options_.simulated) std::filesystem::remove_all(directory_);
    }

    // Runs the functions on user threads, spread over the workers, and waits for all.
    void run_all(std::vector<std::function<void()>> fns) {
        std::vector<std::unique_ptr<threads::Completion>> done;
        for (size_t i = 0; i < fns.size(); ++i) {
            done.push_back(std::make_unique<threads::Completion>());
            auto spawned = engine.runtime->spawn(static_cast<uint32_t>(i), "test",
                                                 [&fn = fns[i], d = done.back().get()] {
                                                     fn();
                                                     d->set();
                                                 });
            if (!spawned) return fail_test(spawned.error());
        }
        for (auto& d : done) wait(*d);
    }
    void run(std::function<void()> fn) { run_all({std::move(fn)}); }
    void wait(threads::Completion& done) {
        if (!options_.simulated) return done.wait();
        while (!done.is_set()) {
            if (engine.runtime->step() || sim->advance(clock)) continue;
            const Nanos next = engine.runtime->next_deadline();
            ASSERT_NE(next, kNever) << "nothing can ever happen any more";
            if (next > clock.now()) clock.advance(next - clock.now());
        }
    }

    // Stops the cleaner and runs the pool's full check.
    std::string verify() {
        run([&] { engine.pool->stop_cleaner(); });
        return engine.pool->verify();
    }
    std::string data_path() const { return directory_ + "/data"; }
    std::string read_raw(PageId id) {
        std::string bytes(kPageBytes, 0);
        alignas(4096) static thread_local std::byte buffer[kPageBytes];
        auto n = engine.disk->read_now(engine.data_file, uint64_t{id.value} * kPageBytes, buffer,
                                       kPageBytes);
        EXPECT_TRUE(n);
        std::memcpy(bytes.data(), buffer, kPageBytes);
        return bytes;
    }
    void write_raw(PageId id, const std::string& bytes) {
        alignas(4096) static thread_local std::byte buffer[kPageBytes];
        std::memcpy(buffer, bytes.data(), kPageBytes);
        EXPECT_TRUE(engine.disk->write_now(engine.data_file, uint64_t{id.value} * kPageBytes,
                                           buffer, kPageBytes));
    }
    // Drops the pages of [from, to) from memory.
    void forget(uint32_t from, uint32_t to) {
        auto written = engine.pool->write_dirty(0);
        ASSERT_TRUE(written) << written.error().text();
        for (uint32_t p = from; p < to; ++p) {
            ExclusivePage page;
            if (engine.pool->try_fix_exclusive(PageId{p}, page)) engine.pool->drop(std::move(page));
            ASSERT_EQ(engine.pool->resident(PageId{p}), nullptr);
        }
    }

    std::unique_ptr<threads::SimDisk> sim;
    ManualClock clock;
    RestartEnv engine;

private:
    static void fail_test(const Error& error) { FAIL() << error.text(); }
    void build() { ASSERT_NO_FATAL_FAILURE(build_parts()); }
    template <class T>
    static T must(Result<T> r) {
        if (!r) ADD_FAILURE() << r.error().text();
        return std::move(*r);
    }
    void build_parts() {
        ASSERT_TRUE(engine.disk->make_directory(directory_));
        engine.data_file =
            must(engine.disk->open(data_path(), threads::Disk::kCreate | threads::Disk::kDirect));
        threads::RuntimeOptions ro;
        ro.workers = options_.workers;
        ro.disk = engine.disk;
        if (options_.simulated) {
            ro.caller_driven = true;
            ro.clock = &clock;
            ro.seed = options_.sim.seed;
        }
        own_runtime_ = must(threads::Runtime::start(ro));
        engine.runtime = own_runtime_.get();
        engine.log_options = {.directory = directory_,
                              .segment_bytes = options_.log_bytes / 16,
                              .capacity_bytes = options_.log_bytes,
                              .ring_bytes = 4 << 20,
                              .sync = options_.simulated};
        own_log_ = must(txn::Log::create(*engine.runtime, engine.log_options));
        engine.log = own_log_.get();
        own_locks_ = std::make_unique<txn::LockManager>(txn::LockOptions{.buckets_log2 = 8});
        engine.locks = own_locks_.get();
        own_txns_ = std::make_unique<txn::TransactionTable>(*engine.log, *engine.locks, 64);
        engine.txns = own_txns_.get();
        own_pool_ = must(BufferPool::create(*engine.runtime, *engine.log, engine.data_file,
                                            {.bytes = options_.pool_bytes,
                                             .huge_pages = options_.huge_pages,
                                             .directory = directory_}));
        engine.pool = own_pool_.get();
        own_space_ = std::make_unique<SpaceMap>(engine);
        engine.space = own_space_.get();
        run([&] {
            ASSERT_TRUE(engine.log->start_flusher());
            if (options_.cleaner) {
                ASSERT_TRUE(engine.pool->start_cleaner());
            }
            auto made = engine.space->format_new_volume();
            ASSERT_TRUE(made) << made.error().text();
        });
    }

    const RigOptions options_;
    std::string directory_;
    std::unique_ptr<threads::Disk> own_disk_;
    std::unique_ptr<threads::Runtime> own_runtime_;
    std::unique_ptr<txn::Log> own_log_;
    std::unique_ptr<txn::LockManager> own_locks_;
    std::unique_ptr<txn::TransactionTable> own_txns_;
    std::unique_ptr<BufferPool> own_pool_;
    std::unique_ptr<SpaceMap> own_space_;
};

// Test pages of kind overflow: a counter and its complement, then only a hole.
struct CounterPage {
    static constexpr size_t kAt = sizeof(PageHeader);
    static uint64_t get(const Page& page) {
        uint64_t v[2];
        std::memcpy(v, page.bytes() + kAt, sizeof v);
        EXPECT_EQ(v[0], ~v[1]);
        return v[0];
    }
    // A logged change: an image of the whole page.
    static Result<Lsn> set(RestartEnv& engine, ExclusivePage& page, uint64_t value) {
        alignas(8) std::byte bytes[64];
        Page next;
        const PageId id = page->id();
        format_page(next, id, ObjectId{7}, PageKind::overflow);
        const uint64_t v[2] = {value, ~value};
        std::memcpy(next.bytes() + kAt, v, sizeof v);
        next.header.hole_begin = kAt + sizeof v;
        write_image(next, bytes);
        ChangePart part{
            .page = &page,
            .action = PageAction::page_image,
            .flags = kPartFresh,
            .pieces = {Slice(reinterpret_cast<const char*>(bytes), image_bytes(next)), {}, {}, {}}};
        return change_pages(engine, nullptr, ChangeRole::system, LogKind::overflow_write,
                            ObjectId{7}, {&part, 1});
    }
};

// Fills `out` up to n pages: counter pages with value 0, marked as used.
inline void make_pages(RestartEnv& engine, uint32_t n, std::vector<PageId>& out) {
    while (out.size() < n) {
        auto r = engine.space->prepare(1);
        ASSERT_TRUE(r) << r.error().text();
        auto page = engine.pool->fix_new(r->pages[0]);
        ASSERT_TRUE(page) << page.error().text();
        ChangePart part = r->part();
        ASSERT_TRUE(change_pages(engine, nullptr, ChangeRole::system, LogKind::space_grow,
                                 ObjectId{0}, {&part, 1}));
        ASSERT_TRUE(CounterPage::set(engine, *page, 0));
        out.push_back(r->pages[0]);
    }
}

// A rig with n counter pages.
struct PagesRig : PoolRig {
    PagesRig(uint32_t n, const RigOptions& options) : PoolRig(options) {
        run([&] { make_pages(engine, n, pages); });
    }
    BufferPool& pool() { return *engine.pool; }
    // Writes the pages and drops them from memory. Call it on a user thread.
    void forget_pages() { forget(pages.front().value, pages.back().value + 1); }

    std::vector<PageId> pages;
};

}  // namespace lockstep::sm
