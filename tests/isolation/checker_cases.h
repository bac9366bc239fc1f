// checker_cases.h - histories in words: each anomaly, and the nearest history without it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tests/isolation/levels.h"
#include "tests/isolation/observed.h"

namespace lockstep::isolation {

// A history in words. Transactions overlap in time, each is a process of its own.
class Story {
public:
    Story& txn(Ended ended = Ended::committed, Isolation level = Isolation::serializable) {
        all_.push_back({.process = static_cast<uint32_t>(all_.size()),
                        .began = 1,
                        .ended_at = 1'000'000,
                        .level = level,
                        .ended = ended});
        return *this;
    }
    Story& process(uint32_t n) {
        all_.back().process = n;
        all_.back().began = all_.size();
        return *this;
    }
    // From `began` to `ended`.
    Story& during(uint64_t began, uint64_t ended) {
        all_.back().began = began;
        all_.back().ended_at = ended;
        return *this;
    }
    Story& append(uint32_t list, Element e) {
        return add({.kind = Operation::write, .object = {Object::list, list}, .element = e});
    }
    Story& write(uint32_t reg, Element e) {
        return add({.kind = Operation::write, .object = {Object::reg, reg}, .element = e});
    }
    Story& erase(uint32_t reg, Element e) {
        return add({.kind = Operation::erase, .object = {Object::reg, reg}, .element = e});
    }
    Story& list(uint32_t list, std::vector<Element> seen, Held held = Held::range) {
        return add({.object = {Object::list, list}, .seen = std::move(seen), .held = held});
    }
    Story& reg(uint32_t reg, Element e, Held held = Held::range) {
        return add({.object = {Object::reg, reg}, .seen = {e}, .held = held});
    }
    Story& none(uint32_t reg, Operation::Absence absence, Held held = Held::range) {
        return add({.object = {Object::reg, reg}, .absence = absence, .held = held});
    }
    Story& rollback(size_t from) { return add({.kind = Operation::rollback, .from = from}); }

    const std::vector<Observed>& all() const { return all_; }

private:
    Story& add(Operation op) {
        all_.back().operations.push_back(std::move(op));
        return *this;
    }
    std::vector<Observed> all_;
};

struct Case {
    const char* name;
    Anomaly anomaly;
    Story with, without;
};

inline constexpr Ended kAborted = Ended::aborted, kUnknown = Ended::unknown;

inline std::vector<Case> cycles() {
    const auto s = [] { return Story(); };
    return {{"G0", Anomaly::dirty_write,
             s().txn()
                 .append(1, 1)
                 .append(2, 3)
                 .txn()
                 .append(1, 2)
                 .append(2, 4)
                 .txn()
                 .list(1, {1, 2})
                 .list(2, {4, 3}),
             s().txn()
                 .append(1, 1)
                 .append(2, 3)
                 .txn()
                 .append(1, 2)
                 .append(2, 4)
                 .txn()
                 .list(1, {1, 2})
                 .list(2, {3, 4})},
            {"G1c", Anomaly::circular,
             s().txn().append(1, 1).list(2, {2}).txn().append(2, 2).list(1, {1}),
             s().txn().append(1, 1).list(2, {2}).txn().append(2, 2).list(1, {})},
            {"lost update", Anomaly::lost_update,
             s().txn()
                 .append(1, 1)
                 .txn()
                 .list(1, {1})
                 .append(1, 2)
                 .txn()
                 .list(1, {1})
                 .append(1, 3)
                 .txn()
                 .list(1, {1, 2, 3}),
             s().txn()
                 .append(1, 1)
                 .txn()
                 .list(1, {1})
                 .append(1, 2)
                 .txn()
                 .list(1, {1, 2})
                 .append(1, 3)
                 .txn()
                 .list(1, {1, 2, 3})},
            {"lost update of what nobody saw", Anomaly::lost_update,
             s().txn()
                 .append(1, 1)
                 .txn()
                 .list(1, {1})
                 .append(1, 2)
                 .txn()
                 .list(1, {1})
                 .append(1, 3)
                 .txn()
                 .list(1, {1, 2}),
             s().txn()
                 .append(1, 1)
                 .txn()
                 .list(1, {1})
                 .append(1, 2)
                 .txn()
                 .list(1, {1, 2})
                 .append(1, 3)
                 .txn()
                 .list(1, {1, 2})},
            {"lost update of a register", Anomaly::lost_update,
             s().txn().write(1, 1).txn().reg(1, 1).write(1, 2).txn().reg(1, 1).write(1, 3),
             s().txn().write(1, 1).txn().reg(1, 1).write(1, 2).txn().reg(1, 2).write(1, 3)},
            {"G-single", Anomaly::fuzzy_read,
             s().txn().append(1, 1).append(2, 2).txn().list(1, {}).list(2, {2}),
             s().txn().append(1, 1).append(2, 2).txn().list(1, {}).list(2, {})},
            {"a read that does not repeat", Anomaly::fuzzy_read,
             s().txn().append(1, 1).txn().list(1, {}).list(1, {1}),
             s().txn().append(1, 1).txn().list(1, {1}).list(1, {1})},
            {"G-single of an unknown outcome", Anomaly::fuzzy_read,
             s().txn(kUnknown).append(1, 1).append(2, 2).txn().list(1, {}).list(2, {2}),
             s().txn(kUnknown).append(1, 1).append(2, 2).txn().list(1, {}).list(2, {})},
            {"what a victim saw", Anomaly::fuzzy_read,
             s().txn().append(1, 1).append(2, 2).txn(kAborted).list(1, {}).list(2, {2}),
             s().txn().append(1, 1).append(2, 2).txn(kAborted).list(1, {1}).list(2, {2})}};
}

// Through what was absent, several anti-dependencies, sessions, and real time.
inline std::vector<Case> wider_cycles() {
    const auto s = [] { return Story(); };
    const Story skew =
        s().txn().append(1, 1).append(2, 2).txn().list(1, {1}).list(2, {2}).append(1, 3);
    return {
        {"phantom", Anomaly::phantom,
         s().txn().write(1, 1).write(2, 2).txn().none(1, Operation::before_birth).reg(2, 2),
         s().txn()
             .write(1, 1)
             .write(2, 2)
             .txn()
             .none(1, Operation::before_birth)
             .none(2, Operation::before_birth)},
        {"reborn", Anomaly::fuzzy_read,
         s().txn().write(1, 1).txn().reg(1, 1).erase(1, 2).write(2, 3).txn().reg(1, 1).reg(2, 3),
         s().txn()
             .write(1, 1)
             .txn()
             .reg(1, 1)
             .erase(1, 2)
             .write(2, 3)
             .txn()
             .none(1, Operation::after_death)
             .reg(2, 3)},
        {"write skew", Anomaly::write_skew,
         Story(skew).txn().list(1, {1}).list(2, {2}).append(2, 4),
         Story(skew).txn().list(1, {1, 3}).list(2, {2}).append(2, 4)},
        {"read-only anomaly", Anomaly::read_only,
         s().txn()
             .append(1, 1)
             .txn()
             .append(2, 2)
             .txn()
             .list(2, {2})
             .list(1, {1})
             .txn()
             .list(2, {})
             .list(1, {1})
             .append(1, 3),
         s().txn()
             .append(1, 1)
             .txn()
             .append(2, 2)
             .txn()
             .list(2, {2})
             .list(1, {1, 3})
             .txn()
             .list(2, {})
             .list(1, {1})
             .append(1, 3)},
        {"a stale read in a session", Anomaly::fuzzy_read,
         s().txn().process(1).append(1, 1).txn().process(1).list(1, {}),
         s().txn().process(1).append(1, 1).txn().process(2).list(1, {})},
        {"a stale read in real time", Anomaly::fuzzy_read,
         s().txn().during(1, 2).append(1, 1).txn().during(3, 4).list(1, {}),
         s().txn().during(1, 3).append(1, 1).txn().during(2, 4).list(1, {})},
        {"a lost append", Anomaly::fuzzy_read,
         s().txn()
             .during(1, 2)
             .append(1, 1)
             .txn()
             .during(3, 4)
             .append(1, 2)
             .txn()
             .during(5, 6)
             .list(1, {2}),
         s().txn()
             .during(1, 2)
             .append(1, 1)
             .txn()
             .during(3, 4)
             .append(1, 2)
             .txn()
             .during(5, 6)
             .list(1, {1, 2})},
        {"overwrites against real time", Anomaly::dirty_write,
         s().txn()
             .during(1, 2)
             .append(1, 1)
             .txn()
             .during(3, 4)
             .append(1, 2)
             .txn()
             .during(5, 6)
             .list(1, {2, 1}),
         s().txn()
             .during(1, 4)
             .append(1, 1)
             .txn()
             .during(3, 5)
             .append(1, 2)
             .txn()
             .during(6, 7)
             .list(1, {2, 1})},
    };
}

inline std::vector<Case> faults() {
    const auto s = [] { return Story(); };
    return {
        {"G1a", Anomaly::dirty_read, s().txn(kAborted).append(1, 1).txn().list(1, {1}),
         s().txn().append(1, 1).txn().list(1, {1})},
        {"G1a of a register", Anomaly::dirty_read, s().txn(kAborted).write(1, 1).txn().reg(1, 1),
         s().txn(kUnknown).write(1, 1).txn().reg(1, 1)},
        {"G1a behind a savepoint", Anomaly::dirty_read,
         s().txn().append(1, 1).rollback(0).append(1, 2).txn().list(1, {1}),
         s().txn().append(1, 1).rollback(0).append(1, 2).txn().list(1, {2})},
        {"G1a of an erase", Anomaly::dirty_read,
         s().txn().write(1, 1).txn(kAborted).erase(1, 2).txn().none(1, Operation::after_death),
         s().txn().write(1, 1).txn(kUnknown).erase(1, 2).txn().none(1, Operation::after_death)},
        {"dirty update", Anomaly::dirty_read,
         s().txn(kAborted).append(1, 1).txn().append(1, 2).txn().list(1, {1, 2}),
         s().txn(kAborted).append(1, 1).txn().append(1, 2).txn().list(1, {2})},
        {"it sees what it has undone", Anomaly::dirty_read,
         s().txn().append(1, 1).rollback(0).list(1, {1}),
         s().txn().append(1, 1).list(1, {1}).rollback(0).list(1, {})},
        {"G1b", Anomaly::dirty_read, s().txn().append(1, 1).append(1, 2).txn().list(1, {1}),
         s().txn().append(1, 1).append(1, 2).txn().list(1, {1, 2})},
        {"G1b of a register", Anomaly::dirty_read,
         s().txn().write(1, 1).write(1, 2).txn().reg(1, 1),
         s().txn().write(1, 1).write(1, 2).txn().reg(1, 2)},
        {"garbage", Anomaly::impossible, s().txn().append(1, 1).txn().list(1, {2}),
         s().txn().append(1, 1).txn().list(1, {1})},
        {"of another object", Anomaly::impossible,
         s().txn().append(1, 1).append(2, 2).txn().list(1, {2}),
         s().txn().append(1, 1).append(2, 2).txn().list(2, {2})},
        {"a duplicate", Anomaly::impossible, s().txn().append(1, 1).txn().list(1, {1, 1}),
         s().txn().append(1, 1).append(1, 2).txn().list(1, {1, 2})},
        {"an element of two writes", Anomaly::impossible, s().txn().append(1, 1).txn().append(1, 1),
         s().txn().append(1, 1).txn().append(1, 2)},
        {"two orders", Anomaly::impossible,
         s().txn().append(1, 1).txn().append(1, 2).txn().list(1, {1, 2}).txn().list(1, {2, 1}),
         s().txn().append(1, 1).txn().append(1, 2).txn().list(1, {1, 2}).txn().list(1, {1})},
        {"two beginnings", Anomaly::impossible,
         s().txn().append(1, 1).txn().append(1, 2).txn().list(1, {1}).txn().list(1, {2}),
         s().txn().append(1, 1).txn().append(1, 2).txn().list(1, {1}).txn().list(1, {1, 2})},
        {"its own append is missing", Anomaly::impossible, s().txn().append(1, 1).list(1, {}),
         s().txn().append(1, 1).rollback(0).list(1, {})},
        {"its own write is missing", Anomaly::impossible,
         s().txn().write(1, 1).txn().write(1, 2).reg(1, 1),
         s().txn().write(1, 1).txn().reg(1, 1).write(1, 2)},
        {"its own erase is missing", Anomaly::impossible,
         s().txn().write(1, 1).erase(1, 2).reg(1, 1),
         s().txn().write(1, 1).erase(1, 2).none(1, Operation::absent)},
        {"gone by itself", Anomaly::impossible,
         s().txn().write(1, 1).txn().none(1, Operation::after_death),
         s().txn().write(1, 1).erase(1, 2).txn().none(1, Operation::after_death)},
    };
}

}  // namespace lockstep::isolation
