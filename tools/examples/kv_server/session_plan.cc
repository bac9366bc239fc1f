// session_plan.cc - from requests to steps: what each request does, and what answers at once.
#include <algorithm>
#include <utility>

#include "session.h"

namespace kv {

using namespace lockstep;

namespace {

constexpr size_t kQueuedMax = 16 * 1024;  // commands between MULTI and EXEC

constexpr size_t kNameBytesMax = 256;
constexpr const char* kBadName =
    "ERR a client's name has at most 256 bytes, without spaces, newlines or special characters";

// Of a client. It stands in lists with one line for each client.
bool is_name(std::string_view name) {
    return name.size() <= kNameBytesMax &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

// The requests that were parsed, up to an EXEC, which ends its batch, or up to a QUIT.
Result<StageId> Session::plan() {
    steps_.clear();
    bool full = false;
    while (!closing_ && !full && planned_ < requests_.size()) {
        const Request& request = requests_[planned_++];
        if (request.count == 0) {
            ++database_.counters.protocol_errors;
            answer_error("ERR " + parser_.error());
            closing_ = true;
        } else {
            plan_request(request, full);
        }
    }
    ++database_.counters.batches;
    database_.counters.commands += steps_.size();
    const bool data = std::ranges::any_of(
        steps_, [](const Step& step) { return step.command != nullptr && step.command->data(); });
    route_ = data ? &kDataRoute : &kAnswerRoute;
    if (data) return StageId::execute;
    LOCKSTEP_TRY(run_parts());
    return StageId::reply;
}

void Session::plan_request(const Request& request, bool& full) {
    const Arguments arguments(arguments_.data() + request.first, request.count);
    const Command* command = find_command(arguments[0]);
    const std::string refused = refusal(command, arguments);
    if (!refused.empty()) {
        queue_.refused = true;
        return answer_error(refused);
    }
    if (command->kind == CommandKind::session)
        return plan_session_command(*command, arguments, full);
    if (queue_.open) return enqueue(*command, request);
    steps_.push_back({.command = command,
                      .first = request.first,
                      .count = request.count,
                      .protocol = protocol_,
                      .reply = {}});
}

void Session::plan_session_command(const Command& command, Arguments arguments, bool& full) {
    const bool hello = command.name == "HELLO";
    if (hello || command.name == "CLIENT") {
        if (!queue_.open) return hello ? plan_hello(arguments) : plan_client(arguments);
        queue_.refused = true;
        return answer_error("ERR " + std::string(command.name) + " is not possible within MULTI");
    }
    if (command.name == "MULTI") {
        if (queue_.open) return answer_error("ERR MULTI calls can not be nested");
        queue_ = {};
        queue_.open = true;
        return answer("+OK\r\n");
    }
    if (command.name == "QUIT") {
        closing_ = true;
        return answer("+OK\r\n");
    }
    if (command.name == "WATCH")
        return answer_error("ERR WATCH is not supported: use conditional commands within MULTI");
    if (!queue_.open) return answer_error("ERR " + std::string(command.name) + " without MULTI");
    if (command.name == "EXEC") {
        full = true;
        return plan_exec();
    }
    queue_ = {};
    answer("+OK\r\n");
}

// HELLO [2|3 [AUTH user password] [SETNAME name]]
void Session::plan_hello(Arguments arguments) {
    Protocol protocol = protocol_;
    if (arguments.size() > 1) {
        if (arguments[1] != "2" && arguments[1] != "3")
            return answer_error("NOPROTO unsupported protocol version: this server has 2 and 3");
        protocol = arguments[1] == "3" ? Protocol::resp3 : Protocol::resp2;
    }
    std::string_view name = name_;
    for (size_t i = 2; i < arguments.size(); i += 2) {
        if (same_word(arguments[i], "AUTH"))
            return answer_error("ERR AUTH is not supported: this server has no passwords");
        if (!same_word(arguments[i], "SETNAME") || i + 1 == arguments.size())
            return answer_error("ERR syntax error in HELLO");
        name = arguments[i + 1];
        if (!is_name(name)) return answer_error(kBadName);
    }
    name_ = std::string(name);
    protocol_ = protocol;
    std::string reply;
    append_map(reply, 6, protocol);
    const auto text = [&](std::string_view key, std::string_view value) {
        append_bulk(reply, key);
        append_bulk(reply, value);
    };
    const auto number = [&](std::string_view key, int64_t value) {
        append_bulk(reply, key);
        append_integer(reply, value);
    };
    text("server", "lockstep-kv");
    number("proto", static_cast<int64_t>(protocol));
    number("id", static_cast<int64_t>(id_));
    text("mode", "standalone");
    text("role", "master");
    append_bulk(reply, "modules");
    append_array(reply, 0);
    answer(std::move(reply));
}

// What clients say about themselves when they connect.
void Session::plan_client(Arguments arguments) {
    const std::string_view what = arguments[1];
    const size_t count = arguments.size();
    std::string reply;
    if (same_word(what, "SETNAME") && count == 3) {
        if (!is_name(arguments[2])) return answer_error(kBadName);
        name_ = std::string(arguments[2]);
        append_status(reply, "OK");
    } else if (same_word(what, "SETINFO") && count == 4) {
        if (!same_word(arguments[2], "LIB-NAME") && !same_word(arguments[2], "LIB-VER"))
            return answer_error("ERR CLIENT SETINFO takes LIB-NAME or LIB-VER");
        append_status(reply, "OK");  // nothing shows it
    } else if (same_word(what, "GETNAME") && count == 2) {
        if (name_.empty()) append_null(reply, protocol_);
        else append_bulk(reply, name_);
    } else if (same_word(what, "ID") && count == 2) {
        append_integer(reply, static_cast<int64_t>(id_));
    } else {
        return answer_error("ERR CLIENT '" + std::string(what.substr(0, 64)) +
                            "' is not supported, or has other arguments: there are SETNAME name, "
                            "GETNAME, SETINFO LIB-NAME|LIB-VER text, and ID");
    }
    answer(std::move(reply));
}

void Session::plan_exec() {
    Queue queue = std::exchange(queue_, {});
    if (queue.refused)
        return answer_error("EXECABORT Transaction discarded because of previous errors.");
    executing_ = std::move(queue.text);
    std::string head;
    append_array(head, queue.commands.size());
    answer(std::move(head));
    steps_.back().members = queue.commands.size();
    const size_t first = arguments_.size();
    for (size_t i = 0, begin = 0; i < queue.ends.size(); begin = queue.ends[i++])
        arguments_.push_back(std::string_view(executing_).substr(begin, queue.ends[i] - begin));
    for (size_t i = 0; i < queue.commands.size(); ++i)
        steps_.push_back({.command = queue.commands[i],
                          .first = first + queue.counted[i].first,
                          .count = queue.counted[i].second,
                          .protocol = protocol_,
                          .reply = {}});
}

// Copies the arguments, because the input buffer moves on.
void Session::enqueue(const Command& command, const Request& request) {
    const auto [first, count] = request;
    size_t bytes = 0;
    for (size_t i = first; i < first + count; ++i) bytes += arguments_[i].size();
    const RequestLimits& limits = database_.options.limits;
    if (queue_.commands.size() == kQueuedMax || queue_.ends.size() + count > limits.arguments ||
        queue_.text.size() + bytes > limits.bytes) {
        queue_.refused = true;
        return answer_error("ERR too much between MULTI and EXEC");
    }
    queue_.commands.push_back(&command);
    queue_.counted.emplace_back(queue_.ends.size(), count);
    for (size_t i = first; i < first + count; ++i) {
        queue_.text += arguments_[i];
        queue_.ends.push_back(queue_.text.size());
    }
    answer("+QUEUED\r\n");
}

void Session::answer(std::string text) { steps_.push_back({.reply = std::move(text)}); }

void Session::answer_error(std::string_view text) {
    std::string reply;
    append_error(reply, text);
    answer(std::move(reply));
}

}  // namespace kv
