// plain_json.cc - the members of a JSON object as texts. A number keeps its own spelling: a double
// between would lose digits.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/cli/rows/plain_table.h"

namespace lockstep::cli {
namespace {

// What nlohmann's parser calls; false ends it.
class Members final : public nlohmann::json_sax<nlohmann::json> {
public:
    explicit Members(std::vector<PlainMember>& out) : out_(out) {}
    std::string wrong;

    bool null() override {
        if (depth_ == 1) out_.back().absent = true;
        return give({});
    }
    bool boolean(bool value) override { return give(value ? "true" : "false"); }
    bool number_integer(number_integer_t value) override { return give(fmt::to_string(value)); }
    bool number_unsigned(number_unsigned_t value) override { return give(fmt::to_string(value)); }
    bool number_float(number_float_t, const string_t& spelled) override { return give(spelled); }
    bool string(string_t& value) override { return give(std::move(value)); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return ++depth_ == 1 || nested(); }
    bool end_object() override { return true; }
    bool start_array(size_t) override { return depth_ == 0 ? give({}) : nested(); }
    bool end_array() override { return true; }
    bool key(string_t& name) override {
        out_.push_back({.name = std::move(name), .text = {}});
        return true;
    }
    bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
        wrong = fmt::format("not a JSON text, at byte {}", at);
        return false;
    }

private:
    bool give(std::string text) {
        if (depth_ == 0) wrong = "not a JSON object";
        else out_.back().text = std::move(text);
        return wrong.empty();
    }
    bool nested() {
        wrong = fmt::format("column {}: an object or an array, which no column holds",
                            out_.back().name);
        return false;
    }

    std::vector<PlainMember>& out_;
    unsigned depth_ = 0;
};

}  // namespace

std::string split_json(Slice record, std::vector<PlainMember>& members) {
    members.clear();
    Members handler(members);
    const bool read = nlohmann::json::sax_parse(record.begin(), record.end(), &handler);
    if (!read && handler.wrong.empty()) return "not a JSON text";
    return handler.wrong;
}

}  // namespace lockstep::cli
