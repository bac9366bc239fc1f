// labels: unit perf
// production_line_test.cc - the gates of a stage reproduce the thesis's model of
// staged execution, in virtual time.
//
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.5 and chapter 8. Its
//            figures give curves; the numbers below are from an independent simulation of the same
//            model and agree with what its text says of the curves.
#include "tools/bench/production_line.h"
#include "tests/seed_of_run.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lockstep::bench::production_line_test {

struct Row {
    double loading, d_gated, t_gated_2, non_gated, c_gated;
};
constexpr Row kLoad80[] = {{0, 633, 520, 664, 605},    {0.02, 600, 508, 628, 576},
                           {0.08, 470, 428, 486, 457}, {0.20, 334, 332, 337, 331},
                           {0.40, 226, 237, 220, 226}, {0.60, 175, 186, 165, 175}};
constexpr Row kLoad95[] = {{0, 2709, 2015, 2887, 2560},    {0.02, 1957, 1684, 2074, 1865},
                           {0.08, 1067, 1112, 1112, 1033}, {0.20, 528, 606, 535, 522},
                           {0.40, 285, 331, 276, 285},     {0.60, 197, 223, 184, 197}};

// Mean response, and the books of every stage.
double response(ProductionLine line, const ProductionLine& fcfs, const LineModel& model) {
    line.run();
    EXPECT_EQ(line.verify(), "");
    return controlled(line, fcfs, fcfs_formula(model));
}

void check(LineModel model, const Row& row) {
    constexpr double kOff = 0.05;
    model.loading = row.loading;
    ProductionLine fcfs(model, StageGate::fcfs);
    fcfs.run();
    EXPECT_EQ(fcfs.verify(), "");
    const double d = response({model, StageGate::d_gated}, fcfs, model),
                 t = response({model, StageGate::t_gated, 2}, fcfs, model),
                 n = response({model, StageGate::non_gated}, fcfs, model),
                 c = response({model, StageGate::c_gated, 0, 100}, fcfs, model);
    std::printf(
        "load %.2f loading %2.0f%%: d_gated %.0f t_gated(2) %.0f non_gated %.0f c_gated %.0f ms\n",
        model.load, 100 * row.loading, d, t, n, c);
    EXPECT_NEAR(d / row.d_gated, 1, kOff);
    EXPECT_NEAR(t / row.t_gated_2, 1, kOff);
    EXPECT_NEAR(n / row.non_gated, 1, kOff);
    EXPECT_NEAR(c / row.c_gated, 1, kOff);
}

TEST(ProductionLine, GatesAtLoad80) {
    const uint64_t seed = seed_of_run(7);
    for (const Row& row : kLoad80) check({.load = 0.80, .queries = 600'000, .seed = seed}, row);
}

TEST(ProductionLine, GatesAtLoad95) {
    const uint64_t seed = seed_of_run(7);
    for (const Row& row : kLoad95) check({.load = 0.95, .queries = 1'500'000, .seed = seed}, row);
}

// T-gated with a threshold of one is first come, first served.
TEST(ProductionLine, AThresholdOfOneIsFcfs) {
    const LineModel model{.queries = 50'000, .seed = seed_of_run(3)};
    EXPECT_EQ(ProductionLine(model, StageGate::t_gated, 1).run(),
              ProductionLine(model, StageGate::fcfs).run());
}

TEST(ProductionLine, FormulasForFcfsAndSharing) {
    const uint64_t seed = seed_of_run(11);
    for (const double load : {0.5, 0.8})
        for (const double loading : {0.0, 0.2, 0.6}) {
            const LineModel model{
                .load = load, .loading = loading, .queries = 2'500'000, .seed = seed};
            EXPECT_NEAR(ProductionLine(model, StageGate::fcfs).run() / fcfs_formula(model), 1, 0.02)
                << load << " " << loading;
            EXPECT_NEAR(simulate_sharing(model) / sharing_formula(model), 1, 0.02)
                << load << " " << loading;
        }
}

TEST(ProductionLine, LocalityAwareQueue) {
    const uint64_t seed = seed_of_run(5);
    struct Known {
        LocalityQueue queue;
        double response, empty;
    };
    constexpr Known kKnown[] = {{{0.5, 1, 0.5}, 1.736, 0.540},
                                {{0.8, 1, 0.4}, 2.190, 0.349},
                                {{0.8, 1, 0.8}, 3.833, 0.266},
                                {{0.9, 1, 0.6}, 3.198, 0.251}};
    for (const Known& known : kKnown) {
        const LocalitySolution solution = solve(known.queue);
        const double simulated = simulate(known.queue, 2'000'000, seed);
        std::printf("lambda %.1f c %.1f: solved %.3f, simulated %.3f\n", known.queue.lambda,
                    known.queue.c, solution.response, simulated);
        EXPECT_NEAR(solution.response / known.response, 1, 0.01);
        EXPECT_NEAR(solution.empty, known.empty, 0.002);
        EXPECT_NEAR(simulated / solution.response, 1, 0.02);
    }
}

}  // namespace lockstep::bench::production_line_test
