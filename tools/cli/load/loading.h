// loading.h - one run of a load: from the blocks of an input to indexes and heaps.
//
// Concepts   Blocks of the input are parsed on all cores. Their rows are collected by target until
//            they fill the memory that the user allows. Then comes a cut: pairs for bulk loads are
//            sorted and written to run files, all others are inserted, and the state file names the
//            place in the input. At the end each bulk-loaded index gets its merged runs; several
//            indexes are filled at once, one on each worker.
//            A killed load is resumed from the last cut (load_state.h, load_target.h).
//            With --plain the input is a table of another program (plain_rows.h), whose rows are
//            the records of one target. It has neither a first nor a last row of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/load/load_state.h"
#include "tools/cli/load/load_target.h"
#include "tools/cli/load/plain_target.h"
#include "tools/cli/load/rejects.h"
#include "tools/cli/opening.h"
#include "tools/cli/rows/row_reader.h"

namespace lockstep::cli {

struct LoadOptions {
    std::string path, input = "-", format, progress = "auto";
    std::optional<std::string> archive;
    uint64_t memory = 1ull << 30, pool = 256ull << 20;
    uint32_t jobs = cores(), fill = 90;
    bool resume = false, forget = false, replace = false, json = false, plain = false;
    // Of a table.
    std::string object, rejects;
    std::optional<std::string> describe, columns;
    std::vector<std::string> ignore = {};
};

// How the input is read, and where to.
struct LoadInput {
    RowReader reader;
    std::unique_ptr<RowSyntax> syntax = {};
    std::optional<PlainTarget> plain = {};
    std::unique_ptr<Rejects> rejects = {};
};

template <class T>
T need(Result<T> result, const std::string& doing) {
    if (!result.has_value()) throw Failed(doing + ": " + result.error().text());
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

class Load {
public:
    Load(const LoadOptions& options, Store& store, LoadInput& input)
        : options_(options),
          store_(store),
          input_(input),
          reader_(input.reader),
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
    void go_on(LoadState&& state);
    void begin_plain();
    void refuse(uint64_t line, const Refusal& refusal);
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
    LoadInput& input_;
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

}  // namespace lockstep::cli
