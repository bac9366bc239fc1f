// main.cc - kv_server: a store of keys behind a subset of Redis's protocol, wholly on user threads.
//
// Each connection is a user thread that reads, runs a transaction and writes; each of the three
// suspends it. So a server with 10,000 connections has `--workers` kernel threads. Requests pass
// the stages of routes.h in batches, which --gate forms.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "server.h"

namespace {

using namespace lockstep;

// SIGTERM and SIGINT end the server; every thread that begins later has them blocked.
sigset_t block_end_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

Result<void> run(kv::ServerOptions options) {
    const sigset_t signals = block_end_signals();
    const uint32_t fitting = kv::fit_descriptors(options.connections_max);
    if (fitting < options.connections_max)
        std::fprintf(stderr, "the limit of descriptors admits %u connections; see ulimit -n\n",
                     fitting);
    options.connections_max = fitting;
    const int listener = LOCKSTEP_TRY(kv::listen_on(options.address, options.port));
    const auto database = LOCKSTEP_TRY(kv::Database::open(options));
    auto server = database->store.start([&] {
        const Result<void> served = kv::serve(*database, listener);
        if (!served) kill(getpid(), SIGTERM);  // the main thread ends the server
        return served;
    });
    LOCKSTEP_TRY(server.started());
    std::printf("listening on %s:%u, %lld keys, appendfsync %s, %s\n", options.address.c_str(),
                options.port, static_cast<long long>(database->records.load()),
                kv::durability_name(options.durability),
                database->store.stats().io_backend.c_str());
    std::fflush(stdout);
    int received = 0;
    sigwait(&signals, &received);
    // Ends the waits for sockets, lets running transactions commit and answer, writes everything.
    const Result<void> closed = database->store.close();
    close(listener);
    LOCKSTEP_TRY(server.join());
    LOCKSTEP_TRY(closed);
    std::puts("closed");
    return {};
}

// Turns a name into its choice. CLI11's own help would print the choices as raw bytes.
template <class T>
CLI::Validator chosen_from(const std::map<std::string, T>& names) {
    std::vector<std::string> list;
    list.reserve(names.size());
    for (const auto& entry : names) list.push_back(entry.first);
    const CLI::Validator member = CLI::IsMember(list);
    return {[names, member](std::string& text) {
                std::string wrong = member(text);
                if (wrong.empty()) text = std::to_string(static_cast<unsigned>(names.at(text)));
                return wrong;
            },
            member.get_description()};
}

}  // namespace

int main(int argc, char** argv) {
    kv::ServerOptions options;
    CLI::App app{"A key-value server on a Lockstep store, for clients of Redis (RESP2, RESP3)."};
    app.add_option("--directory", options.directory, "of the store; made if it does not exist");
    app.add_option("--bind", options.address, "IPv4 address to listen on");
    app.add_option("--port", options.port, "TCP port; 0: any free one");
    app.add_option("--workers", options.workers, "kernel threads that run connections")
        ->check(CLI::Range(1, 64));
    const std::map<std::string, kv::Durability> durabilities = {
        {"always", kv::Durability::always},
        {"everysec", kv::Durability::everysec},
        {"none", kv::Durability::none}};
    app.add_option("--durability", options.durability,
                   "as Redis's appendfsync: always, everysec or none")
        ->transform(chosen_from(durabilities));
    app.add_option("--connections-max", options.connections_max, "open connections")
        ->check(CLI::Range(1, 30'000));
    app.add_option("--buffer-bytes", options.limits.bytes,
                   "longest request in bytes; a value has at most 16 MB")
        ->check(CLI::Range(size_t{16} << 10, size_t{64} << 20));
    app.add_option("--pool-bytes", options.pool_bytes, "buffer pool of the store, 4 MB or more");
    const std::map<std::string, IoMethod> methods = {{"automatic", IoMethod::automatic},
                                                     {"io_uring", IoMethod::io_uring},
                                                     {"pool", IoMethod::pool}};
    app.add_option("--io", options.io, "automatic, io_uring, or a pool of kernel threads")
        ->transform(chosen_from(methods));
    std::map<std::string, StageGate> gates;
    for (const StageGate gate : {StageGate::fcfs, StageGate::t_gated, StageGate::d_gated,
                                 StageGate::c_gated, StageGate::non_gated, StageGate::sharing})
        gates[kv::gate_name(gate)] = gate;
    app.add_option("--gate", options.gate, "which requests that wait make a batch, see stages.h")
        ->transform(chosen_from(gates));
    app.add_option("--batch-max", options.batch_max,
                   "requests of a batch; 0: no limit, with t-gated 2");
    app.add_option_function<uint64_t>(
           "--cutoff-us", [&](uint64_t us) { options.cutoff = us * kMicrosecond; },
           "c-gated: microseconds of a request in one batch (default: 1000)")
        ->check(CLI::Range(1, 1'000'000'000));
    app.add_option("--stage-capacity", options.stage_capacity,
                   "requests in a stage of a worker; 0: no limit");
    app.option_defaults()->always_capture_default();
    CLI11_PARSE(app, argc, argv);
    if (options.gate == StageGate::t_gated && options.batch_max == 0) options.batch_max = 2;
    const auto done = run(options);
    if (!done) std::fprintf(stderr, "kv_server: %s\n", done.error().text().c_str());
    return done ? 0 : 1;
}
