// main.cc - `lockstep-acked`: transactions whose acknowledgements are kept outside the store, and
// the check of a store against them.
//
// Its callers are tools/powercut and tests. Exit status: 0; 1 if the check found a fault; 2 after a
// wrong command line; 3 after an error of the store.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

#include "tools/acked/check.h"
#include "tools/acked/log_mark.h"
#include "tools/acked/work.h"
#include "tools/base/standard_files.h"

namespace {

using namespace lockstep;

constexpr int kExitFault = 1, kExitUsage = 2, kExitError = 3;

struct Words {
    std::string path, acked, mark;
    uint64_t ahead = acked::kAheadMax;
    acked::Work work;
};

void tell(int level, std::string_view text) {
    if (level < 2) std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

int run(Words& words) {
    std::optional<acked::LogMark> mark;
    if (!words.mark.empty()) mark.emplace(words.mark);
    if (mark && !mark->why_not().empty()) return std::cerr << mark->why_not() << '\n', kExitError;
    words.work.acknowledged = [&](uint32_t client, uint64_t number) {
        if (mark) return mark->write(std::to_string(client) + ":" + std::to_string(number));
        const std::string line = std::to_string(client) + " " + std::to_string(number) + "\n";
        // One call writes the whole line: clients of two workers may write at once.
        if (write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()))
            return;
        std::fprintf(stderr, "lockstep-acked: standard output: %s\n", std::strerror(errno));
        _exit(kExitError);
    };
    words.work.logger = tell;
    const auto done = acked::run_work(words.path, words.work);
    if (!done) return std::cerr << done.error().text() << '\n', kExitError;
    return 0;
}

int check(const Words& words) {
    std::vector<uint64_t> acked(words.work.clients);
    std::ifstream file(words.acked);
    if (!file) return std::cerr << words.acked << " cannot be read\n", kExitError;
    for (uint64_t client = 0, number = 0; file >> client >> number;)
        if (client < acked.size()) acked[client] = std::max(acked[client], number);
    const auto verdict = acked::check_store(words.path, words.work.seed, acked, words.ahead, tell);
    for (const std::string& fault : verdict.faults) std::cout << "fault: " << fault << '\n';
    for (size_t i = 0; i < verdict.newest.size(); ++i)
        std::cout << "newest: " << i << ' ' << verdict.newest[i] << '\n';
    return verdict.faults.empty() ? 0 : kExitFault;
}

}  // namespace

int main(int argc, char** argv) {
    hold_standard_files();
    CLI::App app("Runs transactions that are acknowledged outside their store, and checks it");
    app.require_subcommand(1);
    Words words;
    CLI::App* run_command = app.add_subcommand("run", "Run transactions, print the acknowledged");
    CLI::App* check_command = app.add_subcommand("check", "Check a store against such a list");
    for (CLI::App* command : {run_command, check_command}) {
        command->add_option("store", words.path, "Directory of the store")->required();
        command->add_option("--seed", words.work.seed, "Seed of the work")->capture_default_str();
        command->add_option("--clients", words.work.clients, "Number of clients")
            ->check(CLI::Range(1u, 1000u))
            ->capture_default_str();
    }
    run_command->add_option("--transactions", words.work.transactions, "Of each client")
        ->capture_default_str();
    run_command->add_option("--workers", words.work.workers, "Kernel threads of the store")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    run_command->add_option("--mark", words.mark,
                            "Write acknowledgements as marks of this dm-log-writes device");
    check_command->add_option("--acked", words.acked, "File of lines \"client number\"")
        ->required();
    check_command->add_option("--ahead", words.ahead, "Transactions behind the acknowledged one")
        ->capture_default_str();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    return run_command->parsed() ? run(words) : check(words);
}
