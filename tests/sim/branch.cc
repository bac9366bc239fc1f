// branch.cc - what becomes of an image: recovery in a second engine, judgement, more work, further
// crashes.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "sm/space/space_map_impl.h"
#include "tests/sim/faults.h"
#include "tests/sim/run.h"

namespace lockstep::sim {

namespace {

constexpr uint64_t kBranchStepsMax = 10'000'000;

// Clears what two recoveries need not have in common: LSNs, and the bytes of pages that are free.
void clear_chance(std::span<sm::Page> pages) {
    const auto in_use = [&](uint32_t page) {
        const sm::Page& map = pages[sm::space::map_page(page / sm::kPagesPerMap).value];
        const uint32_t bit = page % sm::kPagesPerMap;
        return (sm::space::words(map)[bit / 64] >> bit % 64 & 1) != 0;
    };
    for (uint32_t page = 0; page < pages.size(); ++page) {
        if (!in_use(page)) std::memset(static_cast<void*>(&pages[page]), 0, kPageBytes);
        std::memset(static_cast<void*>(&pages[page]), 0, offsetof(sm::PageHeader, page_id));
    }
}

// Of all pages but the superblocks, which count the recoveries. With an archive, each flush of the
// log writes the time. Where the log is flushed is a matter of schedules, so the records of undo
// that come later have other LSNs, and a page that they free was written before or was not.
uint64_t pages_digest(threads::SimDisk& disk, bool with_archive) {
    auto file = disk.open("/store/data", 0);
    if (!file) return 0;
    const uint64_t size = disk.size(*file).value_or(0);
    std::vector<sm::Page> pages(size / kPageBytes);
    const bool read = disk.read_now(*file, 0, pages.data(), size).has_value();
    disk.close(*file);
    if (!read || pages.size() <= 2) return 0;
    if (with_archive) clear_chance(pages);
    const auto content = std::as_bytes(std::span(pages).subspan(2));
    return hash_of({reinterpret_cast<const char*>(content.data()), content.size()});
}

class Branch {
public:
    Branch(Image& image, Work& work, Shared& shared, const Arguments& arguments, Rng& crash,
           uint32_t depth, const PageDigests* pages)
        : image_(image),
          work_(&work),
          shared_(shared),
          report_(shared.report),
          arguments_(arguments),
          crash_(crash),
          depth_(depth),
          pages_(pages) {}

    void run() {
        count_kind();
        std::unique_ptr<threads::SimDisk> twin;
        if (depth_ == 1 && crash_.chance(0.1))
            twin = image_.disk->image(crash_.next(), threads::SimCrash::keep_all);
        moment_ = image_.at;
        judge_ = work_;
        const double odds = depth_ == 1 ? 0.006 : 0.012;
        if (depth_ < arguments_.depth)
            image_.disk->observe([this, odds](const threads::SimEvent&) {
                if (deeper_.size() < 2 && crash_.chance(odds)) take_deeper();
            });
        const bool disturbed = !twin && crash_.chance(0.3);
        if (disturbed) disturb(*image_.disk, crash_);
        const uint64_t digest = open_and_judge(twin != nullptr, !disturbed);
        image_.disk->observe(nullptr);
        if (disturbed) count_disturbances(*image_.disk, report_);
        if (twin && !report_.failed()) compare_twin(*twin, digest);
        for (auto& [image, judge] : deeper_) {
            if (report_.failed()) return;
            report_.add(Count::deeper_recoveries);
            recover_and_judge(std::move(image), *judge, shared_, arguments_, crash_, depth_ + 1);
        }
    }

private:
    void count_kind() {
        report_.add(image_.mode == threads::SimCrash::keep_all ? Count::killed : Count::power_cut);
    }

    // While it recovers the old work says what must be there, afterwards the one that went on.
    void take_deeper() {
        const threads::SimCrash mode =
            threads::kSimCrashes[crash_.below(std::size(threads::kSimCrashes))];
        const uint64_t at = judge_ == work_ ? moment_ : judge_->moment();
        deeper_.emplace_back(
            Image{image_.disk->image(crash_.next(), mode), image_.event, mode, at, {}}, judge_);
    }

    void fail(const std::string& text) {
        report_.fail(fmt::format("crash at event {}, outcome {}, depth {}: {}", image_.event,
                                 static_cast<int>(image_.mode), depth_, text));
    }

    // With `digested`, returns the digest of the pages after recovery. `calm`: no faults strike.
    uint64_t open_and_judge(bool digested, bool calm) {
        Config config = shared_.config;
        config.workers = 1 + static_cast<uint32_t>(crash_.below(2));
        if (digested) hold_all_pages(config);
        Host host(*image_.disk, config, 1000 + depth_);
        if (pages_) host.redone([this](sm::Engine& engine) { pages_->compare(engine, report_); });
        if (auto opened = host.open(); !opened) {
            fail("open: " + opened.error().text());
            return 0;
        }
        const uint64_t digest = digested ? pages_digest(*image_.disk, has_archive()) : 0;
        Report& report = report_;
        const bool before = report.failed();
        going_on_ = work_->judge(host, moment_, crash_.next(), shared_);
        if (!before && report.failed())
            report.failure =
                fmt::format("crash at event {}, outcome {}, depth {}: {}", image_.event,
                            static_cast<int>(image_.mode), depth_, report.failure);
        if (!report.failed()) verify(host);
        if (!report.failed() && going_on_ && crash_.chance(0.15)) go_on(host, calm);
        if (!report.failed() && crash_.chance(0.2)) close(host);
        if (!report.failed() && !host.errors().empty())
            fail("the store complained: " + host.errors());
        return digest;
    }

    void verify(Host& host) {
        auto faults = host->verify();
        if (!faults) return fail("verify: " + faults.error().text());
        for (const std::string& fault : *faults) fail("verify: " + fault);
    }

    void go_on(Host& host, bool calm) {
        Liveness& liveness = shared_.liveness;
        if (calm) liveness.faults_stopped(host.clock().now());
        judge_ = going_on_.get();
        report_.add(Count::run_on);
        going_on_->start(host);
        for (uint64_t n = 0; !going_on_->done() && !report_.failed(); ++n) {
            if (n > kBranchStepsMax)
                return fail("liveness: transactions after recovery do not end");
            host.step();
            if (const auto thread = liveness.late(host.clock().now()))
                return fail(
                    fmt::format("liveness: a transaction of thread {} after recovery has "
                                "not ended after {} s",
                                *thread, Liveness::kLongest / kSecond));
        }
        if (!report_.failed()) (void)going_on_->judge(host, going_on_->moment(), 0, shared_);
        if (!report_.failed()) verify(host);
        if (!report_.failed()) going_on_->judge_copies(*image_.disk);
    }

    void close(Host& host) {
        const Result<void> closed = host.close();
        if (!closed) fail("close after recovery: " + closed.error().text());
    }

    // RC-4. A small pool writes pages in the middle: what a page held before it was freed, and what
    // has changed since the recovery, may lie in the file or not.
    bool has_archive() const { return shared_.config.variety.archive; }
    static void hold_all_pages(Config& config) { config.pool_bytes = Config().pool_bytes; }

    void compare_twin(threads::SimDisk& twin, uint64_t digest) {
        Config config = shared_.config;
        hold_all_pages(config);
        Host host(twin, config, 2000);
        if (auto opened = host.open(); !opened)
            return fail("opening the twin: " + opened.error().text());
        report_.add(Count::twins);
        if (pages_digest(twin, has_archive()) != digest)
            fail("two recoveries of one image give different bytes");
    }

    Image& image_;
    Work* work_;
    Shared& shared_;
    Report& report_;
    const Arguments& arguments_;
    Rng& crash_;
    const uint32_t depth_;
    const PageDigests* const pages_;
    uint64_t moment_ = 0;
    Work* judge_ = nullptr;
    std::unique_ptr<Work> going_on_;
    std::vector<std::pair<Image, Work*>> deeper_;
};

}  // namespace

void recover_and_judge(Image image, Work& work, Shared& shared, const Arguments& arguments,
                       Rng& crash, uint32_t depth, const PageDigests* pages) {
    // What happens in a branch leaves no trace in the main run's digest.
    Digest digest;
    Shared own{shared.config, shared.report, digest};
    own.crashes = depth;
    Branch(image, work, own, arguments, crash, depth, pages).run();
}

}  // namespace lockstep::sim
