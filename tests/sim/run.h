// run.h - one seed: the main run on a simulated disk, and recovery of images at chosen I/O events.
//
// Concepts   The run happens twice. The first pass counts the I/O events, and the crash stream
//            chooses among their numbers. The second pass takes images (copies that share pages) at
//            the chosen events. It recovers each image in a second engine between two steps of the
//            run, which never notices. Both passes must give the same digest. A recovered store is
//            compared with the oracle and checked by its own verifier. Some stores are worked on
//            and lose power again, also during recovery, up to the given depth.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/injury.h"
#include "tests/sim/page_digests.h"
#include "tests/sim/work.h"

namespace lockstep::sim {

// Progress of a child process, in shared memory. The parent reads it if the child dies.
struct Progress {
    std::atomic<uint64_t> seed{0}, event{0};
};

// An image that waits for its recovery.
struct Image {
    std::unique_ptr<threads::SimDisk> disk;
    uint64_t event = 0;  // of the main run
    threads::SimCrash mode{};
    uint64_t at = 0;               // Work::moment()
    std::optional<Injury> injury;  // damage before it is opened
};

class Run {
public:
    Run(const Config& config, const Arguments& arguments, Report& report, Progress& progress);
    // Runs both passes. Returns the digest.
    uint64_t execute(const Plan& plan);

private:
    uint64_t pass(const Plan& plan, bool images);
    void steps(Host& host, Work& work);
    void observe(Host& host, const threads::SimEvent& event);
    void choose_events(uint64_t total);
    void take_images(threads::SimDisk& disk, uint64_t event, uint64_t at);
    void recover_images(Work& work);
    void switch_steps(Host& host);
    void count_at_end(Host& host);
    void finish(Host& host, Work& work);
    void finish_with_lost_writes(Host& host, Work& work);

    const Config& config_;
    const Arguments& arguments_;
    Report& report_;
    Progress& progress_;
    Digest digest_;
    Shared shared_;
    Rng crash_;
    Rng switches_;                  // of StepsOptions
    std::vector<uint64_t> chosen_;  // event numbers, descending: the next one is last
    std::vector<Image> images_;
    Work* work_ = nullptr;
    threads::SimDisk* disk_ = nullptr;  // of the pass
    PageDigests digests_;
    bool taking_ = false, stopped_ = false;
};

// Recovers an image in an engine of its own and judges it by `work`. Continues and crashes again
// while depth allows. `pages`: digests of the run that made the image; null: unknown.
void recover_and_judge(Image image, Work& work, Shared& shared, const Arguments& arguments,
                       Rng& crash, uint32_t depth, const PageDigests* pages = nullptr);

}  // namespace lockstep::sim
