// commands.h - the commands: their table, and what each does.
#pragma once

#include <lockstep/txn.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "database.h"

namespace kv {

// Arguments of a request; the first is the command's name.
using Arguments = std::span<const std::string_view>;

// One command that runs. It appends its one reply to `out`.
struct Call {
    Database& database;
    Arguments arguments;
    lockstep::Txn* txn;  // null for a command that is not of kind data
    std::string& out;
    int64_t& records;      // records that the transaction has added so far
    std::string& scratch;  // for a value; keeps its memory between commands
    Protocol protocol;
    Pacer& pacer;  // is told each record that the command looks at, if they may be many
};

enum class CommandKind : uint8_t {
    control,  // needs no transaction
    read,
    write,
    session,  // acts on the connection: the session runs it
};

struct Command {
    std::string_view name;  // upper case
    CommandKind kind;
    uint32_t arguments_min, arguments_max;  // with the name
    // Keys among the arguments, from argument 1 on: one in so many arguments; 0: none.
    uint32_t key_step;
    bool one_key;  // argument 1 alone
    // Says "no such key" and the like in the reply. An error ends the transaction.
    lockstep::Result<void> (*run)(Call& call);

    bool data() const { return kind == CommandKind::read || kind == CommandKind::write; }
};

// The command of that name in any case, or null.
const Command* find_command(std::string_view name);
// Why the request is refused before it runs, as text for the client; empty: it may run.
std::string refusal(const Command* command, Arguments arguments);
// Compares without regard to case; `word` is in upper case.
bool same_word(std::string_view text, std::string_view word);

// Runs as a part of the transaction in `call`, or without one. A reply that would be too long is
// replaced by an error.
lockstep::Result<void> run_command(const Command& command, Call& call);

}  // namespace kv
