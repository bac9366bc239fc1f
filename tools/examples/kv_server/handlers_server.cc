// handlers_server.cc - the commands about the server itself.
#include <array>
#include <utility>

#include "handlers.h"

namespace kv {

using lockstep::Result;

Result<void> run_ping(Call& call) {
    if (call.arguments.size() == 2) append_bulk(call.out, call.arguments[1]);
    else append_status(call.out, "PONG");
    return {};
}

Result<void> run_echo(Call& call) {
    append_bulk(call.out, call.arguments[1]);
    return {};
}

Result<void> run_select(Call& call) {
    if (call.arguments[1] == "0") append_status(call.out, "OK");
    else append_error(call.out, "ERR DB index is out of range: there is only 0");
    return {};
}

Result<void> run_dbsize(Call& call) {
    append_integer(call.out, call.database.records + call.records);
    return {};
}

Result<void> run_info(Call& call) {
    append_bulk(call.out, call.database.info());
    return {};
}

// CONFIG GET of the few parameters that clients ask for, under Redis's names.
Result<void> run_config(Call& call) {
    if (!same_word(call.arguments[1], "GET") || call.arguments.size() != 3) {
        append_error(call.out, "ERR only CONFIG GET parameter is supported");
        return {};
    }
    const ServerOptions& options = call.database.options;
    const std::array<std::pair<std::string_view, std::string>, 4> parameters = {{
        {"save", ""},
        {"appendonly", "yes"},
        {"appendfsync", durability_name(options.durability)},
        {"maxclients", std::to_string(options.connections_max)},
    }};
    std::string found;
    size_t count = 0;
    for (const auto& [name, value] : parameters) {
        if (!matches(call.arguments[2], name)) continue;
        append_bulk(found, name);
        append_bulk(found, value);
        ++count;
    }
    append_map(call.out, count, call.protocol);
    call.out += found;
    return {};
}

// Clients use the list for hints only; an empty one is allowed.
Result<void> run_command_list(Call& call) {
    if (call.arguments.size() == 2 && same_word(call.arguments[1], "COUNT"))
        append_integer(call.out, static_cast<int64_t>(command_count()));
    else append_array(call.out, 0);
    return {};
}

}  // namespace kv
