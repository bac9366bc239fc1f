// mixed_tables.h - the tables of the mixed workload, and how their records become observations.
//
// Concepts   A list is a record with room for kListMax elements, filled from its begin. A register
//            is a record with one element. A queue is a ring of kSlots keys; row i of its life
//            stands at slot i % kSlots, with its number and its element. Rows enter at the end and
//            leave at the front, and one always stays, so keys appear and vanish all the time. Each
//            row has a life of its own, and is a register to the checker. A queue that is read
//            whole, with its range held, also tells that the row before its first one is dead and
//            the one behind its last one unborn.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tests/isolation/ways.h"

namespace lockstep::isolation {

inline constexpr uint32_t kListMax = 64, kSlots = 8;

struct MixedTable : Table {
    enum Kind : uint8_t { lists, registers, queues };
    Kind kind = lists;
    uint32_t id = 0;    // names its objects
    uint32_t keys = 4;  // lists, registers or queues: 1..keys

    Object object(uint32_t key, uint32_t row = 0) const {
        return {kind == lists ? Object::list : Object::reg, (id * 100 + key) * 1000 + row};
    }
    // First key of a queue.
    static uint32_t slots_of(uint32_t queue) { return 1 + (queue - 1) * kSlots; }
    static uint32_t slot_of(uint32_t queue, uint32_t row) { return slots_of(queue) + row % kSlots; }
};

inline Element element_at(Slice value, size_t n) {
    Element e = 0;
    if (value.size() >= (n + 1) * sizeof(e))
        std::memcpy(&e, value.data() + n * sizeof(e), sizeof(e));
    return e;
}
inline std::string bytes_of(std::initializer_list<uint64_t> words, size_t bytes = 0) {
    std::string value(std::max(bytes, words.size() * 8), '\0');
    std::memcpy(value.data(), words.begin(), words.size() * 8);
    return value;
}
// Behind the last element there are zeros only. Anything else becomes an element that nobody wrote.
inline std::vector<Element> elements_of(Slice value) {
    std::vector<Element> all;
    size_t n = 0;
    for (; element_at(value, n) != 0; ++n) all.push_back(element_at(value, n));
    if (value.find_first_not_of('\0', n * sizeof(Element)) != Slice::npos)
        all.push_back(UINT64_MAX);
    return all;
}

inline constexpr Element kGraveUnknown = UINT64_MAX;

// A record of a list or register, or that there is none. `grave`: the erase of a register that the
// reader keeps absent; kInitial if there was none.
inline void note_record(Observed& seen, const MixedTable& t, uint32_t key, const Slice* value,
                        Held held, const char* way, Element grave) {
    Operation op{.object = t.object(key), .held = held, .way = way};
    if (value != nullptr) {
        op.seen = elements_of(*value);
    } else if (grave == kGraveUnknown) {
        op.absence = Operation::absent;
    } else {
        op.absence = grave == kInitial ? Operation::before_birth : Operation::after_death;
        op.element = grave;
    }
    seen.operations.push_back(std::move(op));
}
// `grave` gives that of a key.
template <class Grave>
void note_records(Observed& seen, const MixedTable& t, uint32_t low, uint32_t high,
                  const Records& records, Held held, const char* way, Grave grave) {
    for (uint32_t key = low; key < high; ++key) {
        bool found = false;
        for (const Record& r : records) {
            if (r.key != key) continue;
            const Slice value = r.value;
            note_record(seen, t, key, &value, held, way, kGraveUnknown);
            found = true;
        }
        if (!found) note_record(seen, t, key, nullptr, held, way, grave(key));
    }
    // Outside of the bounds: as something that nobody wrote.
    for (const Record& r : records)
        if (r.key < low || r.key >= high)
            seen.operations.push_back({.object = t.object(0), .seen = {UINT64_MAX}, .way = way});
}

// The rows of a queue by number.
using QueueRows = std::map<uint32_t, Element>;
inline QueueRows rows_of(const Records& records) {
    QueueRows rows;
    for (const Record& r : records)
        rows[static_cast<uint32_t>(element_at(r.value, 0))] = element_at(r.value, 1);
    return rows;
}
inline void note_queue(Observed& seen, const MixedTable& t, uint32_t queue, const Records& records,
                       Held held, const char* way) {
    const auto note = [&](uint32_t row, std::vector<Element> elements, Operation::Absence absence) {
        seen.operations.push_back({.object = t.object(queue, row),
                                   .seen = std::move(elements),
                                   .absence = absence,
                                   .held = held,
                                   .way = way});
    };
    const QueueRows rows = rows_of(records);
    for (const Record& r : records) {
        const auto row = static_cast<uint32_t>(element_at(r.value, 0));
        const bool misplaced = r.key != MixedTable::slot_of(queue, row);
        note(row, {misplaced ? UINT64_MAX : element_at(r.value, 1)}, Operation::present);
    }
    // One row always stays, but a scan may miss it if its level permits phantoms.
    if (rows.empty())
        return held == Held::range ? note(0, {UINT64_MAX}, Operation::present) : void();
    const uint32_t first = rows.begin()->first, last = rows.rbegin()->first;
    note(last + 1, {}, Operation::before_birth);
    if (held != Held::range) return;
    if (first > 0) note(first - 1, {}, Operation::after_death);
    for (uint32_t row = first; row < last; ++row)
        if (!rows.contains(row)) note(row, {}, Operation::absent);
}

}  // namespace lockstep::isolation
