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

int hexadecimal(char c) {
    const std::string_view digits = "0123456789abcdef";
    const size_t at = digits.find(static_cast<char>('A' <= c && c <= 'F' ? c - 'A' + 'a' : c));
    return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

// The byte that `c` means behind a backslash.
char escaped_byte(char c) {
    switch (c) {
        case 'n': return '\n';
        case 'r': return '\r';
        case 't': return '\t';
        case 'b': return '\b';
        case 'a': return '\a';
        default: return c;
    }
}

// `text` begins with a quote. Its content is appended to `word`. Returns the bytes up to the end of
// the closing quote; 0: there is none.
size_t unquote(std::string_view text, std::string& word) {
    const char quote = text[0];
    for (size_t i = 1; i < text.size(); ++i) {
        if (text[i] == quote) return i + 1;
        const bool escape = text[i] == '\\' && i + 1 < text.size();
        if (escape && quote == '"' && text[i + 1] == 'x' && i + 3 < text.size() &&
            hexadecimal(text[i + 2]) >= 0 && hexadecimal(text[i + 3]) >= 0) {
            word += static_cast<char>(16 * hexadecimal(text[i + 2]) + hexadecimal(text[i + 3]));
            i += 3;
        } else if (escape && (quote == '"' || text[i + 1] == quote)) {
            word += escaped_byte(text[++i]);
        } else {
            word += text[i];
        }
    }
    return 0;
}

}  // namespace

Status RequestParser::parse(std::string_view input, std::vector<std::string_view>& arguments) {
    if (input.empty()) return Status::incomplete;
    const Status status =
        input.front() == '*' ? parse_array(input) : parse_inline(input, arguments);
    if (status == Status::incomplete && input.size() >= limits_.bytes)
        return refuse("Protocol error: a request has at most " + std::to_string(limits_.bytes) +
                      " bytes");
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
            const Status header = parse_bulk_length(input);
            if (header != Status::complete) return header;
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

// The error names the limit that the argument does not keep. Its bytes need not come any more.
Status RequestParser::parse_bulk_length(std::string_view input) {
    if (position_ == input.size()) return Status::incomplete;
    if (input[position_] != '$') return refuse("Protocol error: expected '$'");
    const Status header = parse_length(input, bulk_bytes_, "Protocol error: invalid bulk length");
    if (header != Status::complete) return header;
    if (bulk_bytes_ < 0) return refuse("Protocol error: invalid bulk length");
    const auto bytes = static_cast<size_t>(bulk_bytes_);
    if (bytes > limits_.value_bytes)
        return refuse("Protocol error: invalid bulk length: a value has at most " +
                      std::to_string(limits_.value_bytes) + " bytes");
    if (position_ + bytes + kLineEnd.size() > limits_.bytes)
        return refuse("Protocol error: invalid bulk length: a request has at most " +
                      std::to_string(limits_.bytes) + " bytes");
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

Status RequestParser::parse_inline(std::string_view input,
                                   std::vector<std::string_view>& arguments) {
    const std::string_view line = input.substr(0, limits_.inline_bytes);
    const size_t end = line.find('\n', position_);
    if (end == std::string_view::npos) {
        position_ = line.size();
        return line.size() == limits_.inline_bytes
                   ? refuse("Protocol error: too big inline request: it has at most " +
                            std::to_string(limits_.inline_bytes) + " bytes")
                   : Status::incomplete;
    }
    position_ = end + 1;
    const size_t first = arguments.size();
    const Status status =
        parse_words(line.substr(0, end > 0 && line[end - 1] == '\r' ? end - 1 : end), arguments);
    if (status != Status::complete) return status;
    // A browser that was made to speak to this port must not have its lines executed.
    if (arguments.size() > first && (arguments[first] == "POST" || arguments[first] == "Host:"))
        return refuse("Protocol error: this is not an HTTP server");
    return status;
}

// Words as redis-cli's line has them. In double quotes, a backslash stands before a byte or its two
// hexadecimal digits; in single quotes, before a single quote.
Status RequestParser::parse_words(std::string_view line, std::vector<std::string_view>& arguments) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    for (char c : line)
        if (static_cast<unsigned char>(c) < ' ' && c != '\t')
            return refuse("Protocol error: invalid byte in an inline request");
    for (size_t i = 0; i < line.size();) {
        if (is_space(line[i])) {
            ++i;
        } else if (line[i] == '"' || line[i] == '\'') {
            const size_t quoted = unquote(line.substr(i), unquoted_.emplace_back());
            i += quoted;
            if (quoted == 0 || (i < line.size() && !is_space(line[i])))
                return refuse("Protocol error: unbalanced quotes in request");
            arguments.push_back(unquoted_.back());
        } else {
            const size_t begin = i;
            while (i < line.size() && !is_space(line[i]) && line[i] != '"' && line[i] != '\'') ++i;
            if (i < line.size() && !is_space(line[i]))
                return refuse("Protocol error: unbalanced quotes in request");
            arguments.push_back(line.substr(begin, i - begin));
        }
    }
    return Status::complete;
}

Status RequestParser::refuse(std::string error) {
    error_ = std::move(error);
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

void append_null(std::string& out, Protocol protocol) {
    out += protocol == Protocol::resp3 ? "_\r\n" : "$-1\r\n";
}

void append_array(std::string& out, size_t count) {
    append_number_line(out, '*', static_cast<int64_t>(count));
}

void append_map(std::string& out, size_t count, Protocol protocol) {
    if (protocol == Protocol::resp2) return append_array(out, 2 * count);
    append_number_line(out, '%', static_cast<int64_t>(count));
}

}  // namespace kv
