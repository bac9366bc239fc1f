// routes.h - the stages of the server, and the ways that requests take through them.
//
// Concepts   A connection passes the stage `connect` once. What has arrived of its requests passes
//            `parse` and `plan`. Plan decides the route: requests that need no data are answered
//            there, and skip `execute`. Each route is counted, and so is a request that has visited
//            other stages than its route says.
#pragma once

#include <lockstep/stages.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace kv {

enum class StageId : uint8_t { connect, parse, plan, execute, reply, none };
inline constexpr const char* kStageNames[] = {"connect", "parse", "plan", "execute", "reply"};
inline constexpr size_t kStages = 5;

// The stages that a request visits, as lockstep::StagedRequest::visited() tells them.
struct Route {
    size_t number;  // in kRoutes
    const char* name;
    uint64_t stages;
};
inline constexpr Route kConnectRoute{0, "connect", 0x1};
inline constexpr Route kParseRoute{1, "parse", 0x2};  // no whole request has arrived
inline constexpr Route kAnswerRoute{2, "parse,plan,reply", 0x235};
inline constexpr Route kDataRoute{3, "parse,plan,execute,reply", 0x2345};
inline constexpr const Route* kRoutes[] = {&kConnectRoute, &kParseRoute, &kAnswerRoute,
                                           &kDataRoute};
inline constexpr size_t kRouteCount = 4;

// How many requests have taken each route. Any thread.
struct RouteCounters {
    std::atomic<uint64_t> taken[kRouteCount] = {};
    std::atomic<uint64_t> strayed{0};  // the stages were not those of the route

    void note(const Route& route, uint64_t visited) {
        ++taken[route.number];
        if (visited != route.stages) ++strayed;
    }
};

// Counts the work of a request, and pauses from time to time.
struct Pacer {
    static constexpr uint32_t kPauseEach = 64;  // records or commands

    lockstep::Stages& stages;
    lockstep::StagedRequest& request;
    uint32_t done = 0;

    void count() {
        if (++done % kPauseEach == 0) stages.pause(request);
    }
};

}  // namespace kv
