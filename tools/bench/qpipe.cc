// qpipe.cc - a mix of CH-benCHmark's queries by what they share; what the search for it costs.
//
// Concepts   Twelve clients, each a user thread, ask all queries at once, each in an order of its
//            own and with constants of its own, of one state of the store. Costs are CPU time of
//            the process, and variants alternate. So a throughput is queries for each second of CPU
//            time.
// Source     Harizopoulos, "Staged Database Systems", figure 4-16 and section 4.5.
#include <fmt/core.h>

#include <algorithm>

#include "threads/base/try.h"
#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"
#include "tpcc/ch/queries.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

namespace ch = tpcc::ch;

constexpr size_t kClients = 12, kQueries = ch::kQueryNames.size();

struct Asked {
    ch::QueryId query;
    ch::Constants by;
};
using Client = std::vector<Asked>;
using Answers = std::vector<ch::Answer>;

std::vector<Client> draw_clients(const tpcc::Database& db, Rng& rng) {
    std::vector<Client> out(kClients);
    for (size_t client = 0; client < kClients; ++client)
        for (size_t i = 0; i < kQueries; ++i) {
            const auto query = static_cast<ch::QueryId>((client + i) % kQueries);
            out[client].push_back({query, ch::draw(query, db, rng)});
        }
    return out;
}

// CPU time of all clients in nanoseconds; what they were told into `out`.
Result<double> cost_of(Store& store, const std::vector<Client>& clients,
                       const AnswerOptions& options, std::vector<Answers>& out) {
    lockstep::Report report = TRY(store.report());
    const Nanos began = cpu_time();
    std::vector<Handle<Answers>> running;
    for (const Client& client : clients)
        running.push_back(store.start([&]() -> Result<Answers> {
            Answers answers;
            for (const Asked& asked : client)
                answers.push_back(TRY(ch::answer(asked.query, asked.by, report, options)));
            return answers;
        }));
    out.clear();
    for (auto& handle : running) out.push_back(TRY(handle.join()));
    return static_cast<double>(cpu_time() - began);
}

Result<void> compare_mix(tpcc::Database& db, Report& out) {
    constexpr AnswerOptions kWithout = {.sharing = Sharing::none, .policy = ScanPolicy::normal},
                            kPasses = {.sharing = Sharing::none},
                            kWith = {.sharing = Sharing::pipeline};
    constexpr int kRounds = 3;
    std::vector<double> with, passes;
    bool equal = true;
    for (int round = 0; round < kRounds; ++round) {
        Rng rng(static_cast<uint64_t>(round + 1));
        const std::vector<Client> clients = draw_clients(db, rng);
        std::vector<Answers> expected, answers;
        const double without = TRY(cost_of(*db.store, clients, kWithout, expected));
        passes.push_back(without / TRY(cost_of(*db.store, clients, kPasses, answers)));
        equal &= answers == expected;
        with.push_back(without / TRY(cost_of(*db.store, clients, kWith, answers)));
        equal &= answers == expected;
    }
    out.claim("the mix has equal answers whatever it shares", equal);
    out.measurement("mix with sharing : without, throughput", median(with), "", ">= 1.5");
    out.measurement("mix with passes shared only : without, throughput", median(passes), "");
    const AnswerStats stats = db.store->report_stats().answers;
    out.measurement("operators shared", static_cast<double>(stats.shared), "");
    out.measurement("sharing misses", static_cast<double>(stats.sharing_misses), "");
    return {};
}

// One client, whose reports differ.
Result<void> cost_without_overlap(tpcc::Database& db, Report& out) {
    constexpr int kPairs = 60;
    Rng rng(1);
    std::vector<double> ratios;
    std::vector<Answers> answers;
    for (int pair = 0; pair < kPairs; ++pair) {
        const std::vector<Client> one = {{{ch::QueryId::q6, ch::draw(ch::QueryId::q6, db, rng)},
                                          {ch::QueryId::q19, ch::draw(ch::QueryId::q19, db, rng)}}};
        double costs[2] = {};
        for (const int n : {0, 1}) {
            const int what = (n + pair) % 2;
            costs[what] =
                TRY(cost_of(*db.store, one,
                            {.sharing = what == 0 ? Sharing::none : Sharing::pipeline}, answers));
        }
        ratios.push_back(costs[1] / costs[0]);
    }
    out.measurement("cost without overlap", median(ratios) - 1, "", "<= 0.01");
    return {};
}

}  // namespace

Result<void> bench_qpipe(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 1;
    Store store = TRY(Store::open(settings.directory + "/qpipe",
                                  {.workers = settings.workers,
                                   .pool_bytes = (warehouses * 160ull + 1024) << 20,
                                   .log_bytes = 8ull << 30}));
    tpcc::LoadProgress progress;
    TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    TRY(store.checkpoint());
    tpcc::Database db = TRY(tpcc::open_database(store));
    TRY(compare_mix(db, report));
    TRY(cost_without_overlap(db, report));
    return store.close();
}

}  // namespace lockstep::bench
