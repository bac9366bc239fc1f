// public_calls.h - the table of public calls: how each is made, and what it may do.
//
// Concepts   One line of public_calls_table.cc or public_calls_waits.cc is one call.
//            public_calls_test.cc makes each of them in five situations.
//            tools/checks/public_calls.py compares the names with the headers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <lockstep/store.h>

namespace lockstep {

// Where a call is made.
enum class Situation : uint8_t { user_thread, foreign_thread, closed, forked, failed };
inline constexpr size_t kSituations = 5;

// An open transaction with what belongs to it. `cursor` stands on the record `k` of the index `i`,
// `by` on the one of the secondary index.
struct OpenTxn {
    Txn txn;
    Savepoint savepoint;
    Cursor cursor;
    SecondaryCursor by;
};

// What the calls act on. Index `i` has the record `k`, heap `h` the record `record`; index `empty`
// has none, and an index `doomed` is to be dropped. Index `primary` has the record `k`, and
// `secondary`, named "s", finds it by its value.
struct World {
    Situation situation;
    std::string root;  // for further stores
    Store& store;
    Index index, empty, primary, secondary;
    Heap heap;
    RecordId record;
    Lsn point;           // of a durable commit
    Handle<int> handle;  // in a forked child the thread has not ended
    int fd = -1;         // readable
    StepsOptions steps;  // as the store has them
    int socket = -1;     // connected; has bytes to read
    int listener = -1;   // has connections to accept
    // Such handles as `handle`, for the calls that use one up.
    std::vector<Handle<int>> handles{};

    Handle<int> take_handle() {
        Handle<int> last = std::move(handles.back());
        handles.pop_back();
        return last;
    }
};

// What a call may do while it runs, from a user thread.
enum class Waits : uint8_t { never, may };

// A call of the public headers.
struct PublicCall {  // NOLINT(bugprone-reserved-identifier): of the copy of its arrays
    // `run` gives the outcome in words. It takes the world, or the world and a transaction.
    template <class Run>
    PublicCall(const char* call, Waits wait, Run run) : name(call), waits(wait) {
        if constexpr (std::is_invocable_v<Run, World&>) in_world = run;
        else in_txn = run;
    }
    // The header forbids the call there: it is not made.
    PublicCall& not_in(Situation s) {
        forbidden[static_cast<size_t>(s)] = true;
        return *this;
    }
    // The outcome there depends on what the store had done before: one of the words in `all`.
    PublicCall& either_in(Situation s, std::string all) {
        either[static_cast<size_t>(s)] = std::move(all);
        return *this;
    }
    // Destroys what others use, so it comes behind them: the smallest number first.
    PublicCall& last(int number) {
        order = number;
        return *this;
    }

    const char* name;
    Waits waits;
    std::function<std::string(World&)> in_world;          // one of the two
    std::function<std::string(World&, OpenTxn&)> in_txn;  // is empty
    bool forbidden[kSituations] = {};
    std::string either[kSituations];
    int order = 0;
};

// All calls, in the order of the document.
std::vector<PublicCall> public_calls();
// Of them, those of public_calls_waits.cc.
std::vector<PublicCall> thread_calls();

}  // namespace lockstep
