// live_client.h - asks a store that another process has open, through its control socket.
#pragma once

#include <expected>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace lockstep::cli {

using Json = nlohmann::ordered_json;

// Milliseconds of the steady clock.
int64_t now_ms();

// Why a command failed: what the store answered, or why there was no answer.
struct LiveError {
    std::string code, thing, reason, remedy;
    // A reason that the engine gives names the thing itself.
    std::string text() const {
        const bool named = reason.find(thing) != std::string::npos;
        return (named ? "" : thing + ": ") + reason + "; " + remedy;
    }
    Json json() const;
    // True if no process answers for the store. Exit status 2.
    bool not_live() const { return code == "not_open" || code == "no_control" || code == "closed"; }
};
template <class T>
using Live = std::expected<T, LiveError>;

// A connection. Movable.
class LiveClient {
public:
    // Errors: not_open (no process has the store open), no_control (one has, without a control
    // socket), no_access.
    static Live<LiveClient> connect(const std::string& directory);
    LiveClient(LiveClient&& other) noexcept;
    LiveClient& operator=(LiveClient&& other) noexcept;
    ~LiveClient();

    // The "result" of the answer. Waits up to `timeout_ms`; -1: for ever. Errors: no_answer, closed
    // and what the store answers.
    Live<Json> ask(const Json& request, int timeout_ms = kAnswerMs);
    // The two halves of ask(). An answer that has not come yet: empty.
    Live<void> send(const Json& request);
    std::optional<Live<Json>> receive(int timeout_ms);

    static constexpr int kAnswerMs = 10'000;

private:
    LiveClient(std::string directory, int fd) : directory_(std::move(directory)), fd_(fd) {}
    LiveError lost() const;
    std::string directory_;
    int fd_ = -1;
    std::string read_;  // of an answer that is not complete
};

// A request with this command.
inline Json command(const char* name) { return {{"command", name}}; }

}  // namespace lockstep::cli
