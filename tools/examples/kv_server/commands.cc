// commands.cc - the table of commands, and the checks before one runs.
#include "commands.h"

#include <lockstep/record.h>

#include <algorithm>
#include <cstdint>

#include "handlers.h"

namespace kv {

using lockstep::Result;

namespace {

constexpr uint32_t kMany = UINT32_MAX;
using enum CommandKind;

constexpr Command kCommands[] = {
    {"GET", read, 2, 2, 1, true, run_get},
    {"SET", write, 3, kMany, 1, true, run_set},
    {"PING", control, 1, 2, 0, false, run_ping},
    {"INCR", write, 2, 2, 1, true, run_incr},
    {"DECR", write, 2, 2, 1, true, run_decr},
    {"INCRBY", write, 3, 3, 1, true, run_incrby},
    {"DECRBY", write, 3, 3, 1, true, run_decrby},
    {"DEL", write, 2, kMany, 1, false, run_del},
    {"EXISTS", read, 2, kMany, 1, false, run_exists},
    {"MGET", read, 2, kMany, 1, false, run_mget},
    {"MSET", write, 3, kMany, 2, false, run_mset},
    {"SCAN", read, 2, 8, 0, false, run_scan},
    {"DBSIZE", control, 1, 1, 0, false, run_dbsize},
    {"FLUSHALL", write, 1, 2, 0, false, run_flushall},
    {"FLUSHDB", write, 1, 2, 0, false, run_flushall},
    {"ECHO", control, 2, 2, 0, false, run_echo},
    {"SELECT", control, 2, 2, 0, false, run_select},
    {"INFO", control, 1, kMany, 0, false, run_info},
    {"CONFIG", control, 2, kMany, 0, false, run_config},
    {"COMMAND", control, 1, kMany, 0, false, run_command_list},
    {"MULTI", session, 1, 1, 0, false, nullptr},
    {"EXEC", session, 1, 1, 0, false, nullptr},
    {"DISCARD", session, 1, 1, 0, false, nullptr},
    {"WATCH", session, 2, kMany, 0, false, nullptr},
    {"HELLO", session, 1, kMany, 0, false, nullptr},
    {"CLIENT", session, 2, kMany, 0, false, nullptr},
    {"QUIT", session, 1, 1, 0, false, nullptr},
};

constexpr char upper(char c) { return 'a' <= c && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

}  // namespace

size_t command_count() { return std::size(kCommands); }

bool same_word(std::string_view text, std::string_view word) {
    return text.size() == word.size() && std::equal(text.begin(), text.end(), word.begin(),
                                                    [](char a, char b) { return upper(a) == b; });
}

// The table begins with the commands that come most often.
const Command* find_command(std::string_view name) {
    for (const Command& command : kCommands)
        if (same_word(name, command.name)) return &command;
    return nullptr;
}

std::string refusal(const Command* command, Arguments arguments) {
    if (command == nullptr)
        return "ERR unknown command '" + std::string(arguments[0].substr(0, 64)) + "'";
    const size_t count = arguments.size();
    const bool odd = command->key_step == 2 && count % 2 == 0;
    if (count < command->arguments_min || count > command->arguments_max || odd)
        return "ERR wrong number of arguments for '" + std::string(command->name) + "' command";
    if (command->key_step == 0) return {};
    const size_t end = command->one_key ? 2 : count;
    for (size_t i = 1; i < end; i += command->key_step)
        if (arguments[i].size() > lockstep::kKeyBytesMax)
            return "ERR key is longer than " + std::to_string(lockstep::kKeyBytesMax) + " bytes";
    return {};
}

Result<void> run_command(const Command& command, Call& call) {
    const size_t begin = call.out.size(), max = call.database.options.reply_bytes_max();
    LOCKSTEP_TRY(command.run(call));
    if (call.out.size() - begin <= max) return {};
    call.out.resize(begin);
    append_error(call.out, "ERR reply is longer than " + std::to_string(max) + " bytes");
    return {};
}

}  // namespace kv
