// session.cc - from bytes to a batch, from the batch to a transaction, and back to bytes.
#include "session.h"

#include <lockstep/net.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace kv {

using namespace lockstep;

namespace {

constexpr size_t kBatchMax = 256;  // requests of one transaction, besides those of an EXEC
// A transaction ends early when its replies are longer than this.
constexpr size_t kPartBytes = 64 * 1024;
constexpr size_t kQueuedMax = 16 * 1024;  // commands between MULTI and EXEC
constexpr size_t kKeptBytes = 16 * 1024;  // of the output buffer of an idle connection

// How long, and for how many bytes, a connection that the server ends is still read.
constexpr Nanos kLinger = kSecond;
constexpr size_t kLingerBytes = 32u << 20;  // more than a request

constexpr size_t kNameBytesMax = 256;
constexpr const char* kBadName =
    "ERR a client's name has at most 256 bytes, without spaces, newlines or special characters";

// Of a client. It stands in lists with one line for each client.
bool is_name(std::string_view name) {
    return name.size() <= kNameBytesMax &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

Session::Session(Database& database, int socket)
    : database_(database),
      socket_(socket),
      input_(database.options.limits.bytes),
      parser_(database.options.limits),
      id_(database.counters.connections_received) {}

Session::~Session() { close(socket_); }

Result<void> Session::run() {
    while (!closing_) {
        while (plan()) LOCKSTEP_TRY(run_batch());
        if (closing_) break;
        const size_t bytes = LOCKSTEP_TRY(read_socket(socket_, input_.space()));
        if (bytes == 0) return {};
        input_.filled(bytes);
    }
    return linger();
}

// A socket that is closed with unread bytes resets the connection, and the client may lose the last
// answer. So what it has sent meanwhile is read first, within bounds.
Result<void> Session::linger() {
    shutdown(socket_, SHUT_WR);
    const Nanos end = now() + kLinger;
    for (size_t dropped = 0; dropped < kLingerBytes;) {
        const Nanos time = now();
        input_.drop(input_.bytes().size());
        const size_t bytes =
            LOCKSTEP_TRY(read_socket(socket_, input_.space(), end > time ? end - time : 0));
        if (bytes == 0) break;
        dropped += bytes;
    }
    return {};
}

bool Session::plan() {
    steps_.clear();
    arguments_.clear();
    parser_.release();
    size_t used = 0;
    full_ = false;
    while (!closing_ && !full_ && steps_.size() < kBatchMax) {
        const size_t first = arguments_.size();
        const auto status = parser_.parse(input_.bytes().substr(used), arguments_);
        if (status == RequestParser::Status::incomplete) break;
        if (status == RequestParser::Status::malformed) {
            ++database_.counters.protocol_errors;
            answer_error("ERR " + parser_.error());
            closing_ = true;
            break;
        }
        used += parser_.consumed();
        if (arguments_.size() == first) continue;  // an empty line
        plan_request(first);
    }
    input_.drop(used);
    return !steps_.empty();
}

void Session::plan_request(size_t first) {
    const Arguments arguments(arguments_.data() + first, arguments_.size() - first);
    const Command* command = find_command(arguments[0]);
    const std::string refused = refusal(command, arguments);
    if (!refused.empty()) {
        queue_.refused = true;
        return answer_error(refused);
    }
    if (command->kind == CommandKind::session) return plan_session_command(*command, arguments);
    if (queue_.open) return enqueue(*command, first, arguments.size());
    steps_.push_back({.command = command,
                      .first = first,
                      .count = arguments.size(),
                      .protocol = protocol_,
                      .reply = {}});
}

void Session::plan_session_command(const Command& command, Arguments arguments) {
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
    if (command.name == "EXEC") return plan_exec();
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
    full_ = true;
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
void Session::enqueue(const Command& command, size_t first, size_t count) {
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

Result<void> Session::run_batch() {
    ++database_.counters.batches;
    database_.counters.commands += steps_.size();
    for (size_t done = 0; done < steps_.size();) {
        done = run_part(done);
        if (output_.size() > kPartBytes) LOCKSTEP_TRY(send());
    }
    LOCKSTEP_TRY(send());
    // No step refers to them any more.
    for (std::string* kept : {&output_, &scratch_, &executing_})
        if (kept->capacity() > kKeptBytes) *kept = {};
    return {};
}

// Runs steps from `first` on, as one transaction if there are data among them. Returns the place
// behind the last one that was run.
size_t Session::run_part(size_t first) {
    bool data = false, writes = false;
    for (size_t i = first; i < steps_.size(); ++i) {
        const Command* command = steps_[i].command;
        data |= command != nullptr && command->data();
        writes |= command != nullptr && command->kind == CommandKind::write;
    }
    const size_t begin = output_.size();
    int64_t records = 0, attempts = 0;
    Result<size_t> end = data ? database_.store.run(
                                    [&](Txn& txn) -> Result<size_t> {
                                        output_.resize(begin);
                                        records = 0;
                                        // A deadlock victim: this time without deadlock.
                                        if (attempts++ > 0) LOCKSTEP_TRY(lock_in_order(first, txn));
                                        return run_steps(first, &txn, records);
                                    },
                                    database_.txn_options(!writes))
                              : run_steps(first, nullptr, records);
    if (end) {
        if (records != 0) database_.records += records;
        return *end;
    }
    output_.resize(begin);
    refuse_part(first, steps_.size(), end.error());
    return steps_.size();
}

// Long pipelines on few keys would meet again and again. Batches that lock in one order cannot form
// a cycle with each other.
Result<void> Session::lock_in_order(size_t first, Txn& txn) {
    std::map<std::string_view, Access> keys;
    for (size_t i = first; i < steps_.size(); ++i) {
        const Step& step = steps_[i];
        if (step.command == nullptr || step.command->key_step == 0) continue;
        const bool writes = step.command->kind == CommandKind::write;
        const size_t end = step.first + (step.command->one_key ? 2 : step.count);
        for (size_t k = step.first + 1; k < end; k += step.command->key_step) {
            Access& access = keys.try_emplace(arguments_[k], Access::read).first->second;
            if (writes) access = Access::write;
        }
    }
    for (const auto& [key, access] : keys)
        LOCKSTEP_TRY(database_.index.get(txn, key, std::span<std::byte>(), access));
    return {};
}

Result<size_t> Session::run_steps(size_t first, Txn* txn, int64_t& records) {
    const size_t begin = output_.size(), max = database_.options.reply_bytes_max();
    for (size_t i = first; i < steps_.size();) {
        const size_t group = i + 1 + steps_[i].members;
        const size_t group_begin = output_.size();
        for (; i < group; ++i) {
            LOCKSTEP_TRY(run_step(steps_[i], txn, records));
            if (output_.size() - group_begin > max + kPartBytes)
                return fail(ErrorCode::value_too_long, "replies of an EXEC", max);
        }
        if (output_.size() - begin > kPartBytes) return i;
    }
    return steps_.size();
}

Result<void> Session::run_step(const Step& step, Txn* txn, int64_t& records) {
    if (step.command == nullptr) {
        output_ += step.reply;
        return {};
    }
    Call call{database_,    Arguments(arguments_.data() + step.first, step.count),
              txn,          output_,
              records,      scratch_,
              step.protocol};
    return run_command(*step.command, call);
}

// Without a commit no command has had an effect. Each request gets its one reply.
void Session::refuse_part(size_t first, size_t end, const Error& error) {
    const bool open = error.code == ErrorCode::store_failed;  // the log may have the commit
    const std::string text =
        (open ? "ERR the next start decides the outcome: " : "ERR not executed: ") + error.text();
    for (size_t i = first; i < end; i += 1 + steps_[i].members) {
        const Step& step = steps_[i];
        if (step.command == nullptr && step.members == 0) output_ += step.reply;
        else append_error(output_, text);
    }
}

Result<void> Session::send() {
    const std::string& bytes = output_;
    LOCKSTEP_TRY(write_socket(socket_, std::as_bytes(std::span(bytes))));
    output_.clear();
    return {};
}

}  // namespace kv
