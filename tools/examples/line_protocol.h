// line_protocol.h - the requests of the example servers, and what they do to a store.
//
//   GET key          VALUE value, or NONE
//   PUT key value    OK, when the change is durable
//
// Anything else is answered with "ERROR reason". A key has no space. A connection has one request
// at a time; what comes behind waits in its buffer, and then in the socket.
#pragma once

#include <lockstep/store.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace example {

using namespace lockstep;

struct Request {
    bool put = false;
    std::string key, value;
    const char* fault = nullptr;  // why it is not a request
};

inline Request parse(std::string_view line) {
    const auto word = [&] {
        const size_t end = std::min(line.find(' '), line.size());
        std::string found(line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
        return found;
    };
    Request request;
    const std::string verb = word();
    if (verb != "GET" && verb != "PUT") request.fault = "neither GET nor PUT";
    request.put = verb == "PUT";
    request.key = word();
    request.value = line;
    if (request.fault == nullptr && request.key.empty()) request.fault = "no key";
    if (request.fault == nullptr && !request.put && !line.empty())
        request.fault = "text behind key";
    return request;
}

// The transaction of a request. The result is its answer.
inline Result<std::string> serve(Txn& txn, Index index, const Request& request) {
    if (request.put) {
        LOCKSTEP_TRY(index.put(txn, request.key, request.value));
        return std::string("OK");
    }
    std::string value;
    if (!LOCKSTEP_TRY(index.get(txn, request.key, value))) return std::string("NONE");
    return "VALUE " + value;
}

inline std::string error_line(std::string_view reason) {
    return "ERROR " + std::string(reason) + "\n";
}
inline std::string answer_line(const Result<std::string>& answer) {
    return answer ? *answer + "\n" : error_line(answer.error().text());
}

// What has arrived on a connection and was not taken: at most a line of kBytes.
class Input {
public:
    static constexpr size_t kBytes = 4096;

    enum class State { line, need_more, too_long };
    // The next line, without its end. It is valid until fill().
    State next(std::string_view& line) {
        const char* begin = bytes_.data() + taken_;
        const void* end = std::memchr(begin, '\n', filled_ - taken_);
        if (end == nullptr) return filled_ - taken_ == kBytes ? State::too_long : State::need_more;
        line = {begin, static_cast<const char*>(end)};
        taken_ += line.size() + 1;
        if (line.ends_with('\r')) line.remove_suffix(1);
        return State::line;
    }
    // recv(2) into what is free.
    ssize_t fill(int socket) {
        std::memmove(bytes_.data(), bytes_.data() + taken_, filled_ - taken_);
        filled_ -= std::exchange(taken_, 0);
        const ssize_t got = recv(socket, bytes_.data() + filled_, kBytes - filled_, 0);
        if (got > 0) filled_ += static_cast<size_t>(got);
        return got;
    }

private:
    std::array<char, kBytes> bytes_;
    size_t taken_ = 0, filled_ = 0;
};

}  // namespace example
