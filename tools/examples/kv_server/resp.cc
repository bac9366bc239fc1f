// resp.cc - the parser's steps, and the replies.
#include "resp.h"

#include <algorithm>
#include <charconv>

namespace kv {
namespace {

using Status = RequestParser::Status;

constexpr std::string_view kLineEnd = "\r\n";
// "*" or "$", a sign, 19 digits and the end of the line.
constexpr size_t kHeaderBytesMax = 23;

// A whole decimal number, as Redis writes it: no space, no plus.
bool parse_number(std::string_view text, int64_t& value) {
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return !text.empty() && end.ec == std::errc() && end.ptr == text.data() + text.size();
}

void append_number_line(std::string& out, char type, int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    out += type;
    out.append(digits, end.ptr);
    out += kLineEnd;
}

}  // namespace

Status RequestParser::parse(std::string_view input, std::vector<std::string_view>& arguments) {
    if (input.empty()) return Status::incomplete;
    const Status status = input.front() == '*' ? parse_array(input) : parse_inline(input);
    if (status == Status::incomplete && input.size() >= limits_.bytes)
        return refuse("Protocol error: request too long");
    if (status != Status::complete) return status;
    for (const auto& [place, bytes] : found_) arguments.push_back(input.substr(place, bytes));
    consumed_ = position_;
    position_ = 0;
    has_header_ = false;
    found_.clear();
    return status;
}

Status RequestParser::parse_array(std::string_view input) {
    if (!has_header_) {
        const Status header =
            parse_length(input, missing_, "Protocol error: invalid multibulk length");
        if (header != Status::complete) return header;
        if (missing_ > static_cast<int64_t>(limits_.arguments))
            return refuse("Protocol error: invalid multibulk length");
        has_header_ = true;
    }
    while (missing_ > 0) {
        if (bulk_bytes_ < 0) {
            if (position_ == input.size()) return Status::incomplete;
            if (input[position_] != '$') return refuse("Protocol error: expected '$'");
            const Status header =
                parse_length(input, bulk_bytes_, "Protocol error: invalid bulk length");
            if (header != Status::complete) return header;
            if (bulk_bytes_ < 0 || position_ + static_cast<size_t>(bulk_bytes_) + 2 > limits_.bytes)
                return refuse("Protocol error: invalid bulk length");
        }
        const auto bytes = static_cast<size_t>(bulk_bytes_);
        if (input.size() - position_ < bytes + kLineEnd.size()) return Status::incomplete;
        if (input.substr(position_ + bytes, kLineEnd.size()) != kLineEnd)
            return refuse("Protocol error: expected CRLF behind a bulk string");
        found_.emplace_back(position_, bytes);
        position_ += bytes + kLineEnd.size();
        bulk_bytes_ = -1;
        --missing_;
    }
    return Status::complete;
}

// A type, a number and the end of a line, at position_; moves behind it.
Status RequestParser::parse_length(std::string_view input, int64_t& value, const char* error) {
    const std::string_view rest = input.substr(position_, kHeaderBytesMax);
    const size_t end = rest.find('\r');
    if (end == std::string_view::npos)
        return rest.size() == kHeaderBytesMax ? refuse(error) : Status::incomplete;
    if (end + 1 == rest.size())
        return rest.size() == kHeaderBytesMax ? refuse(error) : Status::incomplete;
    if (rest[end + 1] != '\n' || !parse_number(rest.substr(1, end - 1), value))
        return refuse(error);
    position_ += end + kLineEnd.size();
    return Status::complete;
}

Status RequestParser::parse_inline(std::string_view input) {
    const std::string_view line = input.substr(0, limits_.inline_bytes);
    const size_t end = line.find('\n', position_);
    if (end == std::string_view::npos) {
        position_ = line.size();
        return line.size() == limits_.inline_bytes
                   ? refuse("Protocol error: too big inline request")
                   : Status::incomplete;
    }
    position_ = end + 1;
    const size_t last = end > 0 && line[end - 1] == '\r' ? end - 1 : end;
    for (size_t i = 0; i < last;) {
        const size_t begin = i;
        while (i < last && line[i] != ' ' && line[i] != '\t') {
            if (static_cast<unsigned char>(line[i]) < ' ')
                return refuse("Protocol error: invalid byte in an inline request");
            if (line[i] == '"' || line[i] == '\'')
                return refuse("Protocol error: quotes in an inline request are not supported");
            ++i;
        }
        if (i > begin) found_.emplace_back(begin, i - begin);
        else ++i;
    }
    // A browser that was made to speak to this port must not have its lines executed.
    if (!found_.empty()) {
        const std::string_view first = line.substr(found_[0].first, found_[0].second);
        if (first == "POST" || first == "Host:")
            return refuse("Protocol error: this is not an HTTP server");
    }
    return Status::complete;
}

Status RequestParser::refuse(const char* error) {
    error_ = error;
    return Status::malformed;
}

void append_status(std::string& out, std::string_view text) {
    out += '+';
    out += text;
    out += kLineEnd;
}

void append_error(std::string& out, std::string_view text) {
    out += '-';
    const size_t begin = out.size();
    out += text;
    std::replace_if(
        out.begin() + static_cast<std::ptrdiff_t>(begin), out.end(),
        [](char c) { return c == '\r' || c == '\n'; }, ' ');
    out += kLineEnd;
}

void append_integer(std::string& out, int64_t value) { append_number_line(out, ':', value); }

void append_bulk(std::string& out, std::string_view bytes) {
    append_number_line(out, '$', static_cast<int64_t>(bytes.size()));
    out += bytes;
    out += kLineEnd;
}

void append_null(std::string& out) { out += "$-1\r\n"; }

void append_array(std::string& out, size_t count) {
    append_number_line(out, '*', static_cast<int64_t>(count));
}

}  // namespace kv
