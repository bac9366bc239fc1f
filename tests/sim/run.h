// run.h - one seed: the main run on a simulated disk, images of what a crash would leave at chosen
// I/O events, the recovery of each.
//
// Concepts   The run is done twice. The first pass counts the I/O events; the crash stream chooses
//            among their numbers; the second pass takes images (copies that share pages) at the
//            chosen ones and recovers each in a second engine between two steps of the run, which
//            never notices. Both passes must give the same digest. A recovered store is compared
//            with the oracle, checked by its own verifier, sometimes worked on, and loses power
//            again, also while it recovers, to the depth given.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/injury.h"
#include "tests/sim/page_digests.h"
#include "tests/sim/work.h"

namespace lockstep::sim {

// Where the parent process sees how far a child has got, should it die.
struct Progress {
    std::atomic<uint64_t> seed{0}, event{0};
};

// A crash that is still to be recovered from.
struct Image {
    std::unique_ptr<threads::SimDisk> disk;
    uint64_t event = 0;  // of the main run
    threads::SimCrash mode{};
    uint64_t at = 0;               // Work::moment()
    std::optional<Injury> injury;  // done to it before it is opened
};

class Run {
public:
    Run(const Config& config, const Arguments& arguments, Report& report, Progress& progress);
    // Both passes; the digest.
    uint64_t execute(const Plan& plan);

private:
    uint64_t pass(const Plan& plan, bool images);
    void steps(Host& host, Work& work);
    void observe(Host& host, const threads::SimEvent& event);
    void choose_events(uint64_t total);
    void take_images(threads::SimDisk& disk, uint64_t event, uint64_t at);
    void recover_images(Work& work);
    void finish(Host& host, Work& work);
    void finish_with_lost_writes(Host& host, Work& work);

    const Config& config_;
    const Arguments& arguments_;
    Report& report_;
    Progress& progress_;
    Digest digest_;
    Shared shared_;
    Rng crash_;
    std::vector<uint64_t> chosen_;  // event numbers, descending: the next one is last
    std::vector<Image> images_;
    Work* work_ = nullptr;
    threads::SimDisk* disk_ = nullptr;  // of the pass
    PageDigests digests_;
    bool taking_ = false, stopped_ = false;
};

// Recovers an image in an engine of its own and judges it by `work`; goes on and crashes again
// while depth allows. `pages`: what the pages were like in the run that the image is of; null:
// nobody knows.
void recover_and_judge(Image image, Work& work, Shared& shared, const Arguments& arguments,
                       Rng& crash, uint32_t depth, const PageDigests* pages = nullptr);

}  // namespace lockstep::sim
