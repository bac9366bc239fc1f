// loading.cc - collecting, cutting and filling.
#include "tools/cli/load/loading.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>

#include "sm/heap/heap_file.h"
#include "threads/base/check.h"
#include "tools/base/say.h"
#include "tools/cli/load/progress.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

// Files that one merge has open; each takes a chunk of 1 MB.
constexpr size_t kRunsMax = 64;

}  // namespace

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
    if (std::optional<LoadState> state = folder_.read(fingerprint)) go_on(std::move(*state));
}

// Behind the last cut of an earlier run.
void Load::go_on(LoadState&& state) {
    state_.place = state.place;
    state_.records = state.records;
    state_.ended = state.ended;
    state_.secondaries = std::move(state.secondaries);
    state_.rejects = state.rejects;
    for (Target& saved : state.targets) {
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

// What the first rows of a dump do.
void Load::begin_plain() {
    const PlainTarget& plain = *input_.plain;
    if (!started_)
        declare({.kind = plain.is_index ? RowKind::index : RowKind::heap, .object = plain.object});
    if (plain.describes)
        need(store_.describe(plain.object, plain.columns.text()), readable(plain.object));
    if (input_.rejects) input_.rejects->go_on(state_.rejects);
    started_ = true;
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
    for (const Refusal& refusal : block.refused)
        refuse(block.begin.lines + refusal.line + 1, refusal);
    state_.place = block.end;
    collected_bytes_ += block.bytes.size();
    blocks_.push_back(std::move(block.bytes));
    if (collected_bytes_ >= options_.memory) cut();
}

// Without --rejects one wrong line ends the load.
void Load::refuse(uint64_t line, const Refusal& refusal) {
    if (input_.rejects) return input_.rejects->add(line, refusal);
    if (!input_.plain) wrong(line, refusal.why);
    wrong(line, refusal.why +
                    (changed_ ? " (correct it, and --resume goes on; with --rejects FILE it keeps "
                                "such lines there)"
                              : " (correct it and repeat the command; --rejects FILE keeps such "
                                "lines there and goes on)"));
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
    if (input_.rejects) state_.rejects = input_.rejects->write();
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
    if (input_.plain) begin_plain();
    const auto when = options_.progress == "always"  ? Progress::When::always
                      : options_.progress == "never" ? Progress::When::never
                                                     : Progress::When::automatic;
    Progress progress("loading", reader_.size(), when);
    reader_.for_each(*input_.syntax, 2 * options_.jobs + 2, [&](RowBlock&& block) {
        take(std::move(block));
        progress.at(state_.place.bytes);
    });
    if (input_.plain) state_.ended = true;
    input_wrong_ = !state_.ended;
    if (!state_.ended)
        throw Failed(reader_.path() + ": ends without an end row, so it was cut short (line " +
                     std::to_string(state_.place.lines) + ")");
    for (Target& target : state_.targets)
        if (!target.bulk) insert(target);
    build_all();
    progress.end();
    if (input_.rejects) input_.rejects->finish();
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

}  // namespace lockstep::cli
