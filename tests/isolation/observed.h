// observed.h - what transactions did and what they were told, as the checker of histories reads it.
//
// Concepts   An object is a list or a register. Each write has an *element*, a number that no other
//            write of the history has. A list grows by appends, and a read of it gives all its
//            elements. A register holds the element of its last write; an erase is a write, too,
//            after which the register is absent. Every object begins absent, with the element
//            kInitial. So each version has a name, and a read tells which version it saw.
//            Times come from one counter. A transaction that ended before another one began came
//            before it in real time. Transactions of one process follow each other.
// Source     K. Kingsbury, P. Alvaro, "Elle: inferring isolation anomalies from experimental
//            observations", VLDB 2020.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/txn_options.h>

namespace lockstep::isolation {

using txn::Isolation;

using Element = uint64_t;
inline constexpr Element kInitial = 0;

struct Object {
    enum Kind : uint8_t { list, reg };
    Kind kind = list;
    uint32_t number = 0;
    constexpr auto operator<=>(const Object&) const = default;
    std::string text() const {
        return (kind == list ? "list " : "register ") + std::to_string(number);
    }
};

// What the store promises about a read until its transaction ends: nothing; what is there stays as
// it is; what is absent stays absent, too.
enum class Held : uint8_t { nothing, record, range };

struct Operation {
    enum Kind : uint8_t { read, write, erase, rollback };
    // Of a read that found nothing: what the reader knows of the object's life.
    enum Absence : uint8_t { present, absent, before_birth, after_death };
    Kind kind = read;
    Object object = {};
    // Read: all elements of the list, or the element of the register; none if it is absent.
    std::vector<Element> seen = {};
    Absence absence = present;
    Held held = Held::range;
    // Of a write or erase. Of a read after_death: the erase, or kInitial if it is not known.
    Element element = kInitial;
    size_t from = 0;       // rollback: undoes the writes of operations [from, this one)
    const char* way = "";  // the call
};

enum class Ended : uint8_t { committed, aborted, unknown };

struct Observed {
    uint32_t process = 0;
    uint64_t began = 0, ended_at = 0;
    Isolation level = Isolation::serializable;
    Ended ended = Ended::unknown;
    std::vector<Operation> operations = {};
    const char* way = "";  // how it was run

    std::string text() const {
        static constexpr const char* kLevels[] = {"serializable", "repeatable_read",
                                                  "read_committed", "snapshot"};
        static constexpr const char* kEnds[] = {"committed", "aborted", "unknown"};
        std::string out = "process " + std::to_string(process) + ", " +
                          kLevels[static_cast<size_t>(level)] + ", " +
                          kEnds[static_cast<size_t>(ended)] + ", " + way + ":";
        for (const Operation& op : operations) out += " " + text(op) + ";";
        return out;
    }
    static std::string text(const Operation& op) {
        switch (op.kind) {
            case Operation::rollback: return "rollback of " + std::to_string(op.from) + "..";
            case Operation::write: return op.object.text() + " := " + std::to_string(op.element);
            case Operation::erase:
                return "erase " + op.object.text() + " (" + std::to_string(op.element) + ")";
            case Operation::read: break;
        }
        std::string out = op.way + std::string(op.way[0] ? " " : "") + op.object.text() + " = [";
        for (const Element e : op.seen) out += (out.back() == '[' ? "" : " ") + std::to_string(e);
        return out + "]";
    }
};

}  // namespace lockstep::isolation
