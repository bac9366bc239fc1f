// plan.h - what each transaction of the acknowledged work does, computed from its seed.
//
// Concepts   Clients run numbered transactions, each client one after the other. A transaction adds
//            rows, erases those of an older one, moves money between accounts that all clients
//            share, and rewrites the client's note, a heap record. Last it stores its number as the
//            client's newest. So the newest numbers tell what the whole store must contain.
#pragma once

#include <string>
#include <vector>

#include <lockstep/key.h>

namespace lockstep::acked {

constexpr uint32_t kAccounts = 64;
constexpr int64_t kBalance = 1000000;  // of each account at the beginning
// Rows of so many transactions of a client are in the store; older ones are erased.
constexpr uint64_t kWindow = 120;
// Lazy commits of a client in a row. The next durable one makes them durable, too.
constexpr uint64_t kLazyMax = 1;

struct Transfer {
    uint32_t from, to;
    int64_t amount;
};

struct Plan {
    bool lazy = false;
    bool fails_first = false;       // the same work is done and rolled back before
    bool replaces_note = false;     // by a new heap record; else it is updated
    std::vector<std::string> rows;  // values, up to 12,000 bytes
    std::vector<Transfer> transfers;
    std::string note;  // up to 3,000 bytes
};

// `number` counts from 1.
Plan plan_of(uint64_t seed, uint32_t client, uint64_t number);
// Its transfers alone, without drawing the rest.
std::vector<Transfer> transfers_of(uint64_t seed, uint32_t client, uint64_t number);

inline Key row_key(uint32_t client, uint64_t number, uint32_t row) {
    return Key().u32(client).u64(number).u32(row);
}
inline Key account_key(uint32_t account) { return Key().u32(account); }
inline Key client_key(uint32_t client) { return Key().u32(client); }
// A row of work that is rolled back: its key never belongs to work that stays.
constexpr uint32_t kRolledBack = 1u << 30;

// The newest transaction of a client, and where its note lies: a record of the index "clients".
struct Newest {
    uint64_t number = 0;
    RecordId note;
};
std::string text_of(const Newest& newest);
Newest newest_of(Slice text);  // number 0 if it is no such text
std::string text_of(int64_t balance);
int64_t balance_of(Slice text);

}  // namespace lockstep::acked
