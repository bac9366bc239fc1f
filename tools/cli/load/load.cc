// load.cc - `lockstep load`: a dump becomes a store again.
//
// Concepts   Blocks of the input are parsed on all cores. Their rows are collected by target until
//            they fill the memory that the user allows. Then comes a cut: pairs for bulk loads are
//            sorted and written to run files, all others are inserted, and the state file names the
//            place in the input. At the end each bulk-loaded index gets its merged runs; several
//            indexes are filled at once, one on each worker.
//            A killed load is resumed from the last cut (load_state.h, load_target.h).
#include <fmt/core.h>
#include <tbb/global_control.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "sm/heap/heap_file.h"
#include "tools/base/say.h"
#include "tools/cli/commands.h"
#include "tools/cli/counted.h"
#include "tools/cli/load/load_state.h"
#include "tools/cli/load/load_target.h"
#include "tools/cli/load/progress.h"
#include "tools/cli/number_options.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {
namespace {

// Files that one merge has open; each takes a chunk of 1 MB.
constexpr size_t kRunsMax = 64;

struct LoadOptions {
    std::string path, input = "-", format, progress = "auto";
    std::optional<std::string> archive;
    uint64_t memory = 1ull << 30, pool = 256ull << 20;
    uint32_t jobs = cores(), fill = 90;
    bool resume = false, forget = false, replace = false, json = false;
};

template <class T>
T need(Result<T> result, const std::string& doing) {
    if (!result.has_value()) throw Failed(doing + ": " + result.error().text());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class Load {
public:
    Load(const LoadOptions& options, Store& store, RowReader& reader)
        : options_(options),
          store_(store),
          reader_(reader),
          notes_(store),
          folder_(options.path),
          twice_(options.replace ? Twice::last : Twice::error) {}
    void run();
    // After run() has failed: an input that is wrong is no load to be continued, as long as none of
    // its records is in the store. Then the corrected input can be loaded at once.
    void forget_if_empty();
    uint64_t records() const { return state_.records; }
    size_t targets() const { return state_.targets.size(); }
    // Secondary indexes that the input describes and the store lacks.
    std::vector<LeftOut> left_out();

private:
    void begin();
    void take(RowBlock&& block);
    void take_row(const Row& row, uint64_t line);
    Target& target_of(const Row& row);
    void declare(const Row& row);
    void declare_secondary(const Row& row);
    void cut();
    void build_all();
    void insert(Target& target);
    void sort(Target& target);
    [[noreturn]] void wrong(uint64_t line, const std::string& why) {
        input_wrong_ = true;
        throw Failed(fmt::format("{}: line {}: {}", reader_.path(), line, why));
    }

    const LoadOptions& options_;
    Store& store_;
    RowReader& reader_;
    LoadNotes notes_;
    LoadFolder folder_;
    const Twice twice_;
    bool input_wrong_ = false, changed_ = false;
    LoadState state_;
    std::map<std::string, size_t, std::less<>> by_name_;
    size_t last_target_ = SIZE_MAX;
    std::vector<std::vector<char>> blocks_;  // what collected pairs point to
    uint64_t collected_bytes_ = 0;
    bool started_ = false;
};

void Load::begin() {
    uint64_t fingerprint = 0;
    const bool unfinished = need(notes_.present(fingerprint), options_.path);
    if (unfinished && !options_.resume)
        throw Failed(
            options_.path +
            ": holds an unfinished load (--resume continues it; --forget ends it, and what "
            "it has committed stays)");
    if (!unfinished && options_.resume)
        throw Failed(options_.path + ": has no unfinished load: it has ended, or it never began");
    if (!unfinished) {
        folder_.remove();
        return need(notes_.begin(reader_.fingerprint()), options_.path);
    }
    if (fingerprint != reader_.fingerprint())
        throw Failed(reader_.path() +
                     ": is not the input of the unfinished load (--forget ends it)");
    std::optional<LoadState> state = folder_.read(fingerprint);
    if (!state) return;
    state_.place = state->place;
    state_.records = state->records;
    state_.ended = state->ended;
    state_.secondaries = std::move(state->secondaries);
    for (Target& saved : state->targets) {
        Target target = need(notes_.declare(saved.name, saved.is_index), saved.text());
        target.seen = saved.seen;
        target.runs = std::move(saved.runs);
        by_name_[target.name] = state_.targets.size();
        state_.targets.push_back(std::move(target));
    }
    started_ = true;
    reader_.skip_to(state_.place);
    say_error("note: resumed at line {}\n", state_.place.lines + 1);
}

void Load::declare(const Row& row) {
    const bool is_index = row.kind == RowKind::index;
    const std::string name(row.object);
    if (name == LoadNotes::kIndexName) throw Failed("the name lockstep.load is the load's own");
    if (by_name_.contains(name)) throw Failed("index or heap " + readable(name) + " occurs twice");
    if (const std::string why = notes_.refusal(name); !why.empty()) throw Failed(why);
    by_name_[name] = state_.targets.size();
    state_.targets.push_back(need(notes_.declare(name, is_index), readable(name)));
}

void Load::declare_secondary(const Row& row) {
    const std::string name(row.object);
    if (by_name_.contains(name) ||
        std::ranges::find(state_.secondaries, name, &LeftOut::name) != state_.secondaries.end())
        throw Failed("index or heap " + readable(name) + " occurs twice");
    state_.secondaries.push_back({name, std::string(row.key), row.unique});
}

std::vector<LeftOut> Load::left_out() {
    const auto list = store_.list();
    std::vector<LeftOut> missing;
    for (const LeftOut& secondary : state_.secondaries)
        if (std::ranges::find(list, secondary.name, &Store::Entry::name) == list.end())
            missing.push_back(secondary);
    return missing;
}

Target& Load::target_of(const Row& row) {
    if (row.ordinal != Row::kByName) {
        if (row.ordinal >= state_.targets.size())
            throw Failed("no index or heap has this number yet");
        return state_.targets[row.ordinal];
    }
    if (last_target_ == SIZE_MAX || state_.targets[last_target_].name != row.object) {
        const auto found = by_name_.find(row.object);
        if (found == by_name_.end())
            throw Failed("no row before this one declares " + readable(row.object));
        last_target_ = found->second;
    }
    return state_.targets[last_target_];
}

void Load::take_row(const Row& row, uint64_t line) {
    if (state_.ended) throw Failed("a row behind the end row");
    if (row.kind == RowKind::header) return;
    if ((row.kind == RowKind::start) == started_)
        throw Failed(started_ ? "a second first row" : "the row with the version is missing");
    switch (row.kind) {
        case RowKind::header: return;
        case RowKind::start:
            if (row.number != kDumpVersion)
                throw Failed(fmt::format("version {} of the dump; this program reads version {}",
                                         row.number, kDumpVersion));
            started_ = true;
            return;
        case RowKind::index:
        case RowKind::heap: return declare(row);
        case RowKind::secondary: return declare_secondary(row);
        case RowKind::end:
            if (row.number != state_.records)
                throw Failed(fmt::format("the input has {} records, its end row says {}",
                                         state_.records, row.number));
            state_.ended = true;
            return;
        case RowKind::record: break;
    }
    Target& target = target_of(row);
    if (row.kind_known && row.of_index != target.is_index)
        throw Failed(readable(target.name) + " was declared as " + target.text());
    if (target.is_index && row.key.size() > kKeyBytesMax)
        throw Failed(fmt::format("a key of {} bytes; at most {}", row.key.size(), kKeyBytesMax));
    const size_t most = target.is_index ? kValueBytesMax : sm::kHeapRecordBytesMax;
    if (row.value.size() > most)
        throw Failed(fmt::format("a value of {} bytes; {} takes at most {}", row.value.size(),
                                 target.text(), most));
    ++state_.records;
    ++target.seen;
    if (target.done) return;
    target.pairs.push_back(Pair::of(row.key, row.value, line));
    collected_bytes_ += sizeof(Pair);
}

void Load::take(RowBlock&& block) {
    for (size_t i = 0; i < block.rows.size(); ++i) {
        const uint64_t line = block.begin.lines + block.line_of[i] + 1;
        try {
            take_row(block.rows[i], line);
        } catch (const Failed& failed) {
            wrong(line, failed.what());
        }
    }
    if (!block.wrong.empty()) wrong(block.begin.lines + block.wrong_line + 1, block.wrong);
    state_.place = {block.begin.bytes + block.bytes.size(), block.begin.lines + block.lines};
    collected_bytes_ += block.bytes.size();
    blocks_.push_back(std::move(block.bytes));
    if (collected_bytes_ >= options_.memory) cut();
}

// An index that has records may have a key of the input.
void Load::insert(Target& target) {
    DCHECK(!target.bulk);
    changed_ = changed_ || !target.pairs.empty();
    const Result<void> done = notes_.insert(target, options_.replace);
    if (done) return;
    std::string why = target.text() + ": " + done.error().text();
    if (done.error().code == ErrorCode::duplicate_key)
        why +=
            " (--resume --replace goes on and replaces such records; --forget ends the load, and "
            "what it has committed stays)";
    throw Failed(why);
}

void Load::sort(Target& target) {
    input_wrong_ = true;  // if it throws
    sort_pairs(target.pairs, target.text(), twice_);
    input_wrong_ = false;
}

void Load::cut() {
    for (Target& target : state_.targets) {
        if (!target.bulk) {
            insert(target);
        } else if (!target.pairs.empty()) {
            sort(target);
            RunWriter run(folder_.new_run());
            for (const Pair& pair : target.pairs) run.add(pair.key(), pair.value());
            target.runs.push_back(run.finish());
            target.pairs.clear();
        }
    }
    folder_.write(state_, reader_.fingerprint());
    blocks_.clear();
    collected_bytes_ = 0;
}

// Sorts with all cores, then fills one index on each worker at a time.
void Load::build_all() {
    std::vector<Target*> due;
    for (Target& target : state_.targets)
        if (target.bulk && !target.done) due.push_back(&target);
    for (Target* target : due) {
        sort(*target);
        if (target->runs.size() > kRunsMax)
            reduce_runs(target->runs, kRunsMax, folder_.new_run() + ".", target->text(), twice_);
    }
    std::atomic<size_t> next{0};
    std::vector<std::string> errors(due.size());
    const auto fill_some = [&]() -> Result<void> {
        for (size_t i; (i = next.fetch_add(1)) < due.size();) {
            Target& target = *due[i];
            std::vector<std::unique_ptr<PairSource>> sources;
            sources.reserve(target.runs.size() + 1);
            for (const RunFile& run : target.runs) sources.push_back(read_run(run));
            if (!target.pairs.empty()) sources.push_back(read_pairs(target.pairs));
            const auto merged = sources.size() == 1
                                    ? std::move(sources[0])
                                    : merge(std::move(sources), target.text(), twice_);
            const auto built = notes_.build(target, *merged, options_.fill);
            if (!merged->error().empty()) errors[i] = merged->error();
            else if (!built) errors[i] = target.text() + ": " + built.error().text();
        }
        return {};
    };
    std::vector<Handle<void>> threads;
    for (uint32_t worker = 0; worker < options_.jobs; ++worker)
        threads.push_back(store_.start(fill_some, static_cast<int>(worker)));
    for (auto& thread : threads) need(thread.join(), "load");
    for (const std::string& error : errors)
        if (!error.empty()) throw Failed(error);
}

void Load::run() {
    begin();
    const auto when = options_.progress == "always"  ? Progress::When::always
                      : options_.progress == "never" ? Progress::When::never
                                                     : Progress::When::automatic;
    Progress progress("loading", reader_.size(), when);
    reader_.for_each(2 * options_.jobs + 2, [&](RowBlock&& block) {
        take(std::move(block));
        progress.at(state_.place.bytes);
    });
    input_wrong_ = !state_.ended;
    if (!state_.ended)
        throw Failed(reader_.path() + ": ends without an end row, so it was cut short (line " +
                     std::to_string(state_.place.lines) + ")");
    for (Target& target : state_.targets)
        if (!target.bulk) insert(target);
    build_all();
    progress.end();
    folder_.remove();
    need(notes_.end(), options_.path);
}

void Load::forget_if_empty() {
    for (const Target& target : state_.targets)
        changed_ = changed_ || target.done || target.inserted > 0;
    if (!input_wrong_ || changed_) return;
    folder_.remove();
    (void)notes_.end();
}

Store open_target(const LoadOptions& options) {
    return need(open_store(options.path, {.create = !options.forget,
                                          .pool_bytes = options.pool,
                                          .workers = options.jobs,
                                          .archive = options.archive}),
                options.path);
}

void forget_load(const LoadOptions& options) {
    Store store = open_target(options);
    LoadNotes notes(store);
    uint64_t fingerprint = 0;
    LoadFolder(options.path).remove();
    if (need(notes.present(fingerprint), options.path)) need(notes.end(), options.path);
    need(store.close(), options.path);
}

int run_load(const LoadOptions& options) try {
    const auto began = std::chrono::steady_clock::now();
    tbb::global_control cores_used(tbb::global_control::max_allowed_parallelism, options.jobs);
    if (options.forget) {
        forget_load(options);
        return 0;
    }
    RowReader reader(options.input,
                     options.format.empty() ? std::nullopt : format_of(options.format));
    Store store = open_target(options);
    Load load(options, store, reader);
    try {
        load.run();
    } catch (const std::exception&) {
        load.forget_if_empty();
        throw;
    }
    const std::vector<LeftOut> left_out = load.left_out();
    need(store.close(), options.path);
    for (const LeftOut& secondary : left_out) say_error("{}\n", secondary.text());
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (options.json)
        fmt::print("{}\n", nlohmann::ordered_json{{"records", load.records()},
                                                  {"objects", load.targets()},
                                                  {"seconds", seconds},
                                                  {"secondaries_left_out", json_of(left_out)}}
                               .dump());
    else
        fmt::print("{}: {} into {}, {:.1f} s\n", options.path,
                   counted(load.records(), "record", "records"),
                   counted(load.targets(), "index or heap", "indexes and heaps"), seconds);
    return 0;
} catch (const std::exception& error) {
    return complain("load", error.what(), options.json);
}

}  // namespace

void add_load(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "load",
        "Fill a store from a dump of any size, in bounded memory, on all cores. Makes the store "
        "and "
        "its indexes and heaps if they do not exist. An empty index is filled by a bulk load, in "
        "one "
        "transaction; other indexes and heaps get inserts. Heap records get new ids. After an "
        "error "
        "or a kill, --resume goes on with the same input; each record comes in once. A secondary "
        "index of the dump "
        "is left out and named: the application makes it again.\n"
        "Exit status: 0 done; 1 failed, and the message names the line of the input.");
    auto o = std::make_shared<LoadOptions>();
    command->add_option("path", o->path, "Store directory")->required();
    command->add_option("input", o->input, "File to read (default: standard input)");
    command
        ->add_option("--format", o->format, "Format of the input (default: its first line tells)")
        ->check(CLI::IsMember({"json", "csv", "hex"}));
    command->add_option("--memory", o->memory, "Memory for sorting in bytes (suffixes K, M, G, T)")
        ->transform(size_in(1, 1ull << 40, "1 - 1T"))
        ->default_str("1G");
    command->add_option("--pool", o->pool, "Buffer pool in bytes (suffixes K, M, G, T)")
        ->transform(pool_size())
        ->default_str("256M");
    add_archive_option(*command, o->archive);
    command->add_option("--jobs", o->jobs, "Cores to use (default: all)")->check(CLI::Range(1, 64));
    command->add_option("--fill", o->fill, "Fill pages of a bulk load to this percentage")
        ->check(CLI::Range(50, 100))
        ->capture_default_str();
    command->add_flag("--replace", o->replace,
                      "Replace records whose key an index that is not empty already has");
    command->add_flag("--resume", o->resume, "Go on with an unfinished load of the same input");
    command->add_flag("--forget", o->forget,
                      "Only end an unfinished load; what it has committed stays");
    command->add_option("--progress", o->progress, "Progress bar on stderr")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->capture_default_str();
    command->add_flag("--json", o->json, "Print the result as JSON");
    command->callback([o, &status] { status = run_load(*o); });
}

}  // namespace lockstep::cli
