// labels: unit
// kv_resp_test.cc - the request parser, replies and patterns of the example kv_server.
#include "tools/examples/kv_server/resp.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "tools/examples/kv_server/input.h"
#include "tools/examples/kv_server/scan.h"

namespace kv::kv_resp_test {

using lockstep::Rng;
using Status = RequestParser::Status;
using Request = std::vector<std::string>;

constexpr RequestLimits kSmall{
    .bytes = 300, .value_bytes = 280, .arguments = 8, .inline_bytes = 60};

struct Outcome {
    std::vector<Request> requests;
    std::string error;  // empty: the input ended within a request, or behind one
    bool operator==(const Outcome&) const = default;
};

// Parses `input`, which arrives in pieces that end at `cuts` and at the end. Each piece is in fresh
// memory of its exact size, so that the address sanitizer sees a read beyond it.
Outcome parse(const std::string& input, const std::vector<size_t>& cuts = {},
              const RequestLimits& limits = kSmall) {
    RequestParser parser(limits);
    Outcome outcome;
    size_t used = 0;
    std::vector<size_t> ends = cuts;
    ends.push_back(input.size());
    for (const size_t end : ends) {
        for (Status status = Status::complete; status == Status::complete;) {
            const std::vector<char> memory(input.begin() + static_cast<std::ptrdiff_t>(used),
                                           input.begin() + static_cast<std::ptrdiff_t>(end));
            std::vector<std::string_view> arguments;
            status = parser.parse({memory.data(), memory.size()}, arguments);
            if (status == Status::malformed) {
                outcome.error = parser.error();
                return outcome;
            }
            if (status == Status::incomplete) {
                EXPECT_TRUE(arguments.empty());
                continue;
            }
            used += parser.consumed();
            outcome.requests.emplace_back(arguments.begin(), arguments.end());
        }
    }
    return outcome;
}

std::string encoded(const Request& request) {
    std::string out;
    append_array(out, request.size());
    for (const std::string& argument : request) append_bulk(out, argument);
    return out;
}

TEST(KvResp, ArraysAndInlineLines) {
    const std::string input = encoded({"GET", std::string("a\r\nb\0", 5)}) +
                              "PING\r\n\r\n  SET\tkey  value \n*0\r\n*-1\r\n" + encoded({""});
    const std::vector<Request> expected = {
        {"GET", std::string("a\r\nb\0", 5)}, {"PING"}, {}, {"SET", "key", "value"}, {}, {}, {""}};
    EXPECT_EQ(parse(input), (Outcome{expected, ""}));
}

// At every byte, and at every two bytes, the answer is that of the whole input.
TEST(KvResp, CutsChangeNothing) {
    const std::string input = encoded({"SET", "key", "some value"}) + "PING\r\n" +
                              encoded({"GET", std::string("\r\n$1", 4)}) + "*1\r\n$x\r\n";
    const Outcome whole = parse(input);
    EXPECT_EQ(whole.requests.size(), 3U);
    EXPECT_EQ(whole.error, "Protocol error: invalid bulk length");
    for (size_t first = 0; first <= input.size(); ++first)
        for (size_t second = first; second <= input.size(); ++second)
            ASSERT_EQ(parse(input, {first, second}), whole) << first << " " << second;
}

// As redis-cli splits its lines.
TEST(KvResp, QuotesInInlineRequests) {
    const std::pair<std::string, Request> lines[] = {
        {R"(SET "a b" 'c d')", {"SET", "a b", "c d"}},
        {R"(SET "" '')", {"SET", "", ""}},
        {R"(  ECHO	"x"  )", {"ECHO", "x"}},
        {R"(ECHO "\"\\\n\r\t\a\b\q")", {"ECHO", "\"\\\n\r\t\a\bq"}},
        {R"(ECHO "\x00\xfF\xg1\x4")", {"ECHO", std::string("\0\xff", 2) + "xg1x4"}},
        {R"(ECHO 'it\'s \n "so"')", {"ECHO", R"(it's \n "so")"}},
    };
    for (const auto& [line, request] : lines)
        for (size_t cut = 0; cut <= line.size(); ++cut)
            EXPECT_EQ(parse(line + "\r\nPING\n", {cut}), (Outcome{{request, {"PING"}}, ""}))
                << line;
    // All of a batch live until release().
    RequestParser parser(kSmall);
    std::string input = "ECHO 'first'\nECHO \"second\"\n";
    std::vector<std::string_view> arguments;
    ASSERT_EQ(parser.parse(input, arguments), Status::complete);
    ASSERT_EQ(parser.parse(std::string_view(input).substr(parser.consumed()), arguments),
              Status::complete);
    EXPECT_EQ(Request(arguments.begin(), arguments.end()),
              (Request{"ECHO", "first", "ECHO", "second"}));
    parser.release();
}

TEST(KvResp, RefusesWhatIsMalformed) {
    const std::string many = "*9\r\n";
    const std::pair<std::string, std::string> inputs[] = {
        {"*x\r\n", "invalid multibulk length"},
        {"*\r\n", "invalid multibulk length"},
        {"*+1\r\n", "invalid multibulk length"},
        {"*1 \r\n", "invalid multibulk length"},
        {"*1\rx", "invalid multibulk length"},
        {"*1\n$4\nPING\n                        ", "invalid multibulk length"},
        {"*99999999999999999999\r\n", "invalid multibulk length"},
        {"*0000000000000000000000000000000", "invalid multibulk length"},
        {many, "invalid multibulk length"},
        {"*1\r\nPING\r\n", "expected '$'"},
        {"*1\r\n$-1\r\n", "invalid bulk length"},
        {"*1\r\n$\r\n", "invalid bulk length"},
        {"*1\r\n$9223372036854775807\r\n", "invalid bulk length: a value has at most 280 bytes"},
        // With its header, longer than the limit.
        {"*2\r\n$9\r\n123456789\r\n$275\r\n",
         "invalid bulk length: a request has at most 300 bytes"},
        {"*1\r\n$281\r\n", "invalid bulk length: a value has at most 280 bytes"},
        {"*1\r\n$4\r\nPINGS\r\n", "expected CRLF behind a bulk string"},
        {"*1\r\n$4\r\nPING\n\n", "expected CRLF behind a bulk string"},
        {std::string(60, 'a'), "too big inline request: it has at most 60 bytes"},
        {"SET 'a\r\n", "unbalanced quotes in request"},
        {"SET \"a\\\"\r\n", "unbalanced quotes in request"},
        {"SET \"a\"b\r\n", "unbalanced quotes in request"},
        {"SET a\"b\"\r\n", "unbalanced quotes in request"},
        {"SET 'a'\"b\"\r\n", "unbalanced quotes in request"},
        {"SET \"a\\x1\r\n", "unbalanced quotes in request"},
        {std::string("PI\0NG\r\n", 7), "invalid byte in an inline request"},
        {"POST / HTTP/1.1\r\n", "this is not an HTTP server"},
        {"Host: 127.0.0.1\r\n", "this is not an HTTP server"},
    };
    for (const auto& [input, error] : inputs)
        EXPECT_EQ(parse("PING\r\n" + input), (Outcome{{{"PING"}}, "Protocol error: " + error}))
            << input;
}

// What is refused is refused before its bytes are there.
TEST(KvResp, LimitsBindEarly) {
    EXPECT_EQ(parse("*2\r\n$4\r\nECHO\r\n$279\r\n").error,
              "Protocol error: invalid bulk length: a request has at most 300 bytes");
    const std::string longest(270, 'x');
    EXPECT_EQ(parse(encoded({"ECHO", longest})).requests.size(), 1U);
    std::string arguments = "*8\r\n";
    for (int i = 0; i < 7; ++i) arguments += "$40\r\n" + std::string(40, 'y') + "\r\n";
    EXPECT_EQ(parse(arguments).error,
              "Protocol error: invalid bulk length: a request has at most 300 bytes");
}

std::string random_request(Rng& rng) {
    if (rng.below(5) == 0) return rng.below(2) ? "PING\r\n" : "GET some_key\n";
    Request request;
    for (uint64_t i = rng.below(5); i-- > 0;) {
        std::string argument;
        for (uint64_t n = rng.below(30); n-- > 0;)
            argument += static_cast<char>(rng.below(3) ? 'a' + rng.below(26) : rng.below(256));
        request.push_back(argument);
    }
    return encoded(request);
}

// Random input with random damage, in random pieces: the pieces change nothing, what is not damaged
// comes back, and nothing reads beyond its memory.
TEST(KvResp, RandomInput) {
    const uint64_t seed = lockstep::seed_of_run(1);
    for (uint64_t round = 0; round < 20'000; ++round) {
        Rng rng(seed + round);
        std::string input;
        for (uint64_t i = 1 + rng.below(4); i-- > 0;) input += random_request(rng);
        const bool damaged = rng.below(2);
        for (uint64_t i = damaged ? 1 + rng.below(3) : 0; i-- > 0;) {
            const size_t place = rng.below(input.size());
            const uint64_t how = rng.below(3);
            if (how == 0) input[place] = "\r\n*$-019a"[rng.below(9)];
            else if (how == 1) input.erase(place, 1);
            else input.insert(place, 1, static_cast<char>(rng.below(256)));
        }
        std::vector<size_t> cuts;
        for (size_t at = 0; (at += 1 + rng.below(20)) < input.size();) cuts.push_back(at);
        const Outcome whole = parse(input), pieces = parse(input, cuts);
        ASSERT_EQ(whole, pieces) << "seed " << seed + round;
        if (!damaged) {
            ASSERT_EQ(whole.error, "") << "seed " << seed + round;
        }
    }
}

TEST(KvResp, Replies) {
    std::string out;
    append_status(out, "OK");
    append_error(out, "ERR two\r\nlines");
    append_integer(out, INT64_MIN);
    append_bulk(out, std::string_view("\r\n", 2));
    append_null(out, Protocol::resp2);
    append_array(out, 2);
    append_map(out, 3, Protocol::resp2);
    EXPECT_EQ(
        out,
        "+OK\r\n-ERR two  lines\r\n:-9223372036854775808\r\n$2\r\n\r\n\r\n$-1\r\n*2\r\n*6\r\n");
    out.clear();
    append_null(out, Protocol::resp3);
    append_map(out, 3, Protocol::resp3);
    EXPECT_EQ(out, "_\r\n%3\r\n");
}

TEST(KvScan, Patterns) {
    for (const auto& [pattern, text] :
         std::vector<std::pair<std::string, std::string>>{{"*", ""},
                                                          {"a*c", "abbc"},
                                                          {"a*c", "ac"},
                                                          {"?", "x"},
                                                          {"[a-c]x", "bx"},
                                                          {"[c-a]x", "bx"},
                                                          {"[^a-c]x", "dx"},
                                                          {"\\*", "*"},
                                                          {"[\\]]", "]"},
                                                          {"**b", "ab"},
                                                          {"k*:*9", "key:1:29"},
                                                          {"[a", "a"},
                                                          {"a-", "a-"},
                                                          {"[a-]", "-"}})
        EXPECT_TRUE(matches(pattern, text)) << pattern << " " << text;
    for (const auto& [pattern, text] :
         std::vector<std::pair<std::string, std::string>>{{"", "a"},
                                                          {"a", ""},
                                                          {"a*c", "abcd"},
                                                          {"?", ""},
                                                          {"[a-c]x", "dx"},
                                                          {"[^a]", "a"},
                                                          {"\\*", "x"},
                                                          {"a", "A"},
                                                          {"[", "x"},
                                                          {"a*b*c", "ab"}})
        EXPECT_FALSE(matches(pattern, text)) << pattern << " " << text;
    // Quadratic at most: a search that tried each split of the text would not end.
    std::string pattern;
    for (int i = 0; i < 50; ++i) pattern += "a*";
    EXPECT_FALSE(matches(pattern + "b", std::string(5000, 'a')));
}

TEST(KvScan, CursorsAreKeptAndReplaced) {
    ScanCursors cursors;
    const uint64_t first = cursors.keep("first");
    EXPECT_NE(first, 0U);
    EXPECT_EQ(cursors.find(first), "first");
    EXPECT_EQ(cursors.find(first), "first");  // a client may ask again
    EXPECT_EQ(cursors.find(first + 1), std::nullopt);
    EXPECT_EQ(cursors.find(0), std::nullopt);
    for (size_t i = 1; i < ScanCursors::kCursors; ++i) (void)cursors.keep(std::to_string(i));
    EXPECT_EQ(cursors.find(first), "first");
    (void)cursors.keep("one more");
    EXPECT_EQ(cursors.find(first), std::nullopt);
}

TEST(KvInput, GrowsAndShrinks) {
    InputBuffer input(20'000);
    std::string all;
    while (!input.space().empty()) {
        const auto space = input.space();
        const size_t bytes = std::min<size_t>(space.size(), 1000);
        for (size_t i = 0; i < bytes; ++i) {
            space[i] = static_cast<std::byte>(all.size() % 251);
            all += static_cast<char>(all.size() % 251);
        }
        input.filled(bytes);
    }
    EXPECT_EQ(all.size(), 20'000U);
    EXPECT_EQ(input.bytes(), all);
    input.drop(7);
    EXPECT_EQ(input.space().size(), 7U);
    EXPECT_EQ(input.bytes(), all.substr(7));
    input.drop(all.size() - 7);
    EXPECT_EQ(input.space().size(), InputBuffer::kFirstBytes);
}

}  // namespace kv::kv_resp_test
