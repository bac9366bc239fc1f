// session.cc - a connection's stages: from bytes to requests, and from steps to bytes.
#include "session.h"

#include <lockstep/net.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <map>

namespace kv {

using namespace lockstep;

namespace {

constexpr size_t kBatchMax = 256;  // requests of one transaction, besides those of an EXEC
// A transaction ends early when its replies are longer than this.
constexpr size_t kPartBytes = 64 * 1024;
constexpr size_t kKeptBytes = 16 * 1024;  // of the output buffer of an idle connection

// How long, and for how many bytes, a connection that the server ends is still read.
constexpr Nanos kLinger = kSecond;
constexpr size_t kLingerBytes = 32u << 20;  // more than a request

}  // namespace

Session::Session(Database& database, int socket)
    : database_(database),
      socket_(socket),
      input_(database.options.limits.bytes),
      parser_(database.options.limits),
      pacer_{database.stages, request_},
      id_(database.counters.connections_received) {}

Session::~Session() { close(socket_); }

Result<void> Session::run() {
    route_ = &kConnectRoute;
    LOCKSTEP_TRY(pass(StageId::connect));
    while (!closing_) {
        if (incomplete_ && planned_ == requests_.size()) {
            const size_t bytes = LOCKSTEP_TRY(read_socket(socket_, input_.space()));
            if (bytes == 0) return {};
            input_.filled(bytes);
        }
        route_ = &kParseRoute;
        LOCKSTEP_TRY(pass(StageId::parse));
    }
    return linger();
}

Result<void> Session::pass(StageId first) {
    static constexpr Result<StageId> (Session::*kWork[])() = {
        &Session::connect, &Session::parse, &Session::plan, &Session::execute, &Session::reply};
    static_assert(std::size(kWork) == kStages);
    struct Leaves {
        Session& session;
        ~Leaves() { session.database_.stages.leave(session.request_); }
    };
    const Leaves leaves{*this};
    for (StageId stage = first; stage != StageId::none;) {
        database_.stages.enter(request_, static_cast<size_t>(stage));
        stage = LOCKSTEP_TRY((this->*kWork[static_cast<size_t>(stage)])());
    }
    database_.routes.note(*route_, request_.visited());
    return {};
}

Result<StageId> Session::connect() {
    const int on = 1;
    (void)setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    return StageId::none;
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

// Requests behind an EXEC may be left of an earlier time.
Result<StageId> Session::parse() {
    if (planned_ < requests_.size()) return StageId::plan;
    requests_.clear();
    planned_ = 0;
    arguments_.clear();
    parser_.release();
    incomplete_ = false;
    size_t used = 0;
    while (requests_.size() < kBatchMax) {
        const size_t first = arguments_.size();
        const auto status = parser_.parse(input_.bytes().substr(used), arguments_);
        incomplete_ = status == RequestParser::Status::incomplete;
        if (incomplete_) break;
        if (status == RequestParser::Status::malformed) {
            requests_.push_back({first, 0});
            break;
        }
        used += parser_.consumed();
        if (arguments_.size() > first)  // no empty line
            requests_.push_back({first, arguments_.size() - first});
    }
    input_.drop(used);
    return requests_.empty() ? StageId::none : StageId::plan;
}

Result<StageId> Session::execute() {
    LOCKSTEP_TRY(run_parts());
    return StageId::reply;
}

Result<StageId> Session::reply() {
    LOCKSTEP_TRY(send());
    // No step refers to them any more.
    for (std::string* kept : {&output_, &scratch_, &executing_})
        if (kept->capacity() > kKeptBytes) *kept = {};
    return StageId::none;
}

// The last part's replies stay for the stage `reply`.
Result<void> Session::run_parts() {
    for (size_t done = 0; done < steps_.size();) {
        if (output_.size() > kPartBytes) LOCKSTEP_TRY(send());
        done = run_part(done);
    }
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
            pacer_.count();
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
    Call call{database_,     Arguments(arguments_.data() + step.first, step.count),
              txn,           output_,
              records,       scratch_,
              step.protocol, pacer_};
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
