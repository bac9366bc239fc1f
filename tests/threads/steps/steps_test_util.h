// steps_test_util.h - a runtime whose threads are members of teams.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "threads/runtime/runtime.h"
#include "threads/steps/ctx.h"

namespace lockstep::threads {

struct Team {
    explicit Team(StepsOptions steps = {.mode = StepsMode::on}, uint32_t workers = 1) {
        auto started = Runtime::start({.workers = workers, .steps = steps});
        EXPECT_TRUE(started) << started.error().text();
        runtime = std::move(*started);
    }
    void spawn(ThreadFn fn, uint32_t worker = 0) {
        ASSERT_TRUE(runtime->spawn(worker, "member", std::move(fn)));
    }
    // All threads are started by one, so that none runs before all are ready.
    void run(std::vector<ThreadFn> fns) {
        Completion all_started;
        spawn([&] {
            for (auto& fn : fns) EXPECT_TRUE(runtime->spawn(0, "member", std::move(fn)));
            all_started.set();
        });
        all_started.wait();
        runtime->stop();
    }
    TeamStats stats(OpKind op, uint32_t object = 0) {
        for (auto& s : runtime->team_stats())
            if (s.op == op && s.object == object) return s;
        return {};
    }
    std::unique_ptr<Runtime> runtime;
};

inline void boundary(OpKind op, uint32_t object = 0) {
    worker_local.steps->boundary(*current(), op, object);
}

}  // namespace lockstep::threads
