// resp.h - the wire format of Redis, versions 2 and 3 (RESP2, RESP3): parses requests and builds
// replies.
//
// Concepts   A request is an array of byte strings, or an inline line of words. The parser is
//            strict and bounded: it refuses what is malformed, and what would be longer than its
//            limits, before the bytes have arrived. The versions differ in replies only: version 3
//            has a null and a map of its own.
// Source     https://redis.io/docs/latest/develop/reference/protocol-spec/
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kv {

// The longest request and its parts.
struct RequestLimits {
    size_t bytes = 17u << 20;  // a value of 16 MB, with a key and what stands around them
    size_t value_bytes = 16u << 20;
    size_t arguments = 16 * 1024;
    size_t inline_bytes = 16 * 1024;
};

// Parses one request after another from a buffer that grows.
class RequestParser {
public:
    enum class Status : uint8_t { incomplete, complete, malformed };

    explicit RequestParser(const RequestLimits& limits) : limits_(limits) {}
    // Continues with `input`, which begins with the first byte of the present request and has at
    // least the bytes of the last call. complete: the arguments are appended to `arguments`, as
    // views of `input`, or of words that were in quotes, which live until release(). The next call
    // expects the next request. There may be no argument: an empty line is a request without
    // effect. incomplete: call again with more bytes. malformed: error() says why, and the
    // connection is of no further use.
    Status parse(std::string_view input, std::vector<std::string_view>& arguments);
    // Nobody needs the arguments of earlier requests any more.
    void release() { unquoted_.clear(); }
    // Bytes of the request that was complete.
    size_t consumed() const { return consumed_; }
    // Text for the client.
    const std::string& error() const { return error_; }

private:
    Status parse_array(std::string_view input);
    Status parse_bulk_length(std::string_view input);
    Status parse_inline(std::string_view input, std::vector<std::string_view>& arguments);
    Status parse_words(std::string_view line, std::vector<std::string_view>& arguments);
    Status parse_length(std::string_view input, int64_t& value, const char* error);
    Status refuse(std::string error);

    const RequestLimits limits_;
    size_t position_ = 0;      // bytes of the present request that were understood
    bool has_header_ = false;  // the length of the array is known
    int64_t missing_ = 0;      // arguments that have not come
    int64_t bulk_bytes_ = -1;  // length of the argument whose bytes come next; -1: not known
    std::vector<std::pair<size_t, size_t>> found_;  // place and length of each argument
    size_t consumed_ = 0;
    std::string error_;
    std::deque<std::string> unquoted_;
};

enum class Protocol : uint8_t { resp2 = 2, resp3 = 3 };

// Each appends one reply, or the header of an array whose `count` elements follow, or of a map of
// `count` pairs.
void append_status(std::string& out, std::string_view text);
void append_error(std::string& out, std::string_view text);  // line breaks become spaces
void append_integer(std::string& out, int64_t value);
void append_bulk(std::string& out, std::string_view bytes);
void append_null(std::string& out, Protocol protocol);
void append_array(std::string& out, size_t count);
void append_map(std::string& out, size_t count, Protocol protocol);

}  // namespace kv
