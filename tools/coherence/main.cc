// main.cc - lockstep-coherence: runs TPC-C and prints, as JSON, the cache lines that moved between
// the workers, by structure.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/coherence/counter.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace {

using namespace lockstep;
using coherence::Count;
using nlohmann::json;

struct Settings {
    std::string path, mix = "mix";
    uint32_t workers = 4, warehouses = 0, terminals = 1, divisor = 10;
    uint64_t untraced = 3000, warmup = 150, transactions = 400;  // each of one worker
    uint64_t seed = 1;
    bool durable = false;
    coherence::TurnSettings turns;

    uint32_t warehouse_count() const { return warehouses != 0 ? warehouses : 2 * workers; }
};

const std::map<std::string, tpcc::Mix> kMixes = {
    {"mix", tpcc::Mix::full}, {"payment", tpcc::Mix::payment}, {"new-order", tpcc::Mix::new_order}};

void read_arguments(CLI::App& app, Settings& s) {
    app.add_option("path", s.path, "Directory of the store; it is made and removed")->required();
    app.add_option("--workers", s.workers, "Workers, each with a cache of its own")
        ->check(CLI::Range(1u, coherence::Caches::kMax));
    app.add_option("--warehouses", s.warehouses, "Warehouses; default: two for each worker");
    app.add_option("--terminals", s.terminals, "Terminals of a warehouse");
    app.add_option("--mix", s.mix, "mix, payment or new-order")->check(CLI::IsMember(kMixes));
    app.add_option("--transactions", s.transactions, "Counted transactions for each worker");
    app.add_option("--warmup", s.warmup, "The same before them, while lines already move");
    app.add_option("--untraced", s.untraced, "The same before those, at full speed");
    app.add_option("--seed", s.seed, "Of the transactions' inputs");
    app.add_option("--divisor", s.divisor, "Divides customers, orders and items")
        ->check(CLI::Range(1u, 100u));
    app.add_option("--quantum", s.turns.quantum, "Accesses of a turn")->check(CLI::Range(1, 10000));
    app.add_flag("--durable", s.durable, "Commits wait for the log");
}

[[noreturn]] void stop(const char* what, const Error& error) {
    std::cerr << "lockstep-coherence: " << what << ": " << error.text() << '\n';
    std::exit(1);
}

// One CPU hands turns on faster than two.
void use_one_cpu() {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &set);
    sched_setaffinity(0, sizeof set, &set);
}

tpcc::Scale scale_of(const Settings& s) {
    tpcc::Scale scale;
    scale.warehouses = s.warehouse_count();
    scale.customers /= s.divisor;
    scale.undelivered /= s.divisor;
    scale.items /= s.divisor;
    return scale;
}

Store open_store(const Settings& s) {
    Options options;
    options.workers = s.workers;
    options.pool_bytes = (256ull << 20) + s.warehouse_count() * (160ull << 20) / s.divisor;
    options.log_bytes = 8ull << 30;
    options.sync = s.durable;
    options.slice_warning.reset();
    auto opened = Store::open(s.path, options);
    if (!opened) stop("open", opened.error());
    return std::move(*opened);
}

std::unique_ptr<tpcc::RunReport> run(tpcc::Database& db, const Settings& s, uint64_t transactions,
                                     uint64_t seed) {
    tpcc::RunSettings settings;
    settings.mix = kMixes.at(s.mix);
    settings.executor.durability = s.durable ? Durability::durable : Durability::lazy;
    settings.terminals = s.terminals;
    settings.transactions = transactions * s.workers;
    settings.warmup = 0;
    settings.seed = seed;
    auto report = tpcc::run_terminals(db, settings, {});
    if (!report) stop("run", report.error());
    return std::move(*report);
}

std::map<uint32_t, std::string> object_names(const tpcc::Database& db) {
    std::map<uint32_t, std::string> names;
    for (const tpcc::TableName& table : tpcc::kTables)
        names[table.index != nullptr ? (db.*table.index).id().value : db.history.id().value] =
            table.name;
    return names;
}

json rows_of(const std::map<uint32_t, std::string>& objects) {
    json rows = json::array();
    for (const auto& [key, count] : coherence::counted_caches().counts()) {
        const auto& [place, pc] = key;
        const auto object = objects.find(place.object);
        rows.push_back({{"structure", place.structure},
                        {"field", place.field != nullptr ? place.field : ""},
                        {"offset", place.offset},
                        {"object", object != objects.end() ? object->second
                                   : place.object != 0     ? std::to_string(place.object)
                                                           : ""},
                        {"pc", pc},
                        {"read", count.read_misses},
                        {"write", count.write_misses},
                        {"upgrade", count.upgrades},
                        {"false", count.false_misses},
                        {"prefetch", count.prefetches}});
    }
    return rows;
}

// The lines that moved most: one after the other, whatever the number of workers.
json hottest_lines() {
    constexpr size_t kMost = 20;
    const coherence::Caches& caches = coherence::counted_caches();
    std::vector<std::pair<uint64_t, uint64_t>> lines;
    for (const auto& [line, transfers] : caches.lines()) lines.emplace_back(transfers, line);
    std::ranges::sort(lines, std::greater{});
    lines.resize(std::min(lines.size(), kMost));
    json rows = json::array();
    for (const auto& [transfers, line] : lines) {
        const coherence::Place place = caches.names().place_of(line * kCacheLineBytes);
        rows.push_back({{"structure", place.structure},
                        {"field", place.field != nullptr ? place.field : ""},
                        {"transfers", transfers}});
    }
    return rows;
}

// Where the program lies, so that addresses can be looked up in its file.
uint64_t load_address() {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    std::getline(maps, line);
    return std::stoull(line, nullptr, 16);
}

json count_transfers(const Settings& s) {
    Store store = open_store(s);
    tpcc::LoadProgress progress;
    auto loaded = tpcc::load(store, {scale_of(s), s.seed, 1'000'000'000}, progress);
    if (!loaded) stop("load", loaded.error());
    tpcc::Database& db = *loaded;
    run(db, s, s.untraced, s.seed + 1);
    coherence::start_turns(s.turns);
    run(db, s, s.warmup, s.seed + 2);
    coherence::begin_counting();
    const auto report = run(db, s, s.transactions, s.seed + 3);
    coherence::end_counting();
    const StoreStats &before = report->before, &after = report->after;
    return {{"workers", s.workers},
            {"warehouses", s.warehouse_count()},
            {"mix", s.mix},
            {"durable", s.durable},
            {"seed", s.seed},
            {"quantum", s.turns.quantum},
            {"transactions", s.transactions * s.workers},
            {"commits", after.commits - before.commits},
            {"log_bytes", after.log_bytes - before.log_bytes},
            {"lock_waits", after.lock_waits - before.lock_waits},
            {"locked_operations", coherence::locked_operations()},
            {"load_address", load_address()},
            {"lines", hottest_lines()},
            {"rows", rows_of(object_names(db))}};
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Counts the cache lines that move between workers in a TPC-C run."};
    Settings settings;
    read_arguments(app, settings);
    CLI11_PARSE(app, argc, argv);
    use_one_cpu();
    std::error_code ignored;
    const json counted = count_transfers(settings);
    std::filesystem::remove_all(settings.path, ignored);
    std::cout << counted.dump() << '\n' << std::flush;
    // The store closed before; threads of the counter's own do not exist.
    std::_Exit(0);
}
