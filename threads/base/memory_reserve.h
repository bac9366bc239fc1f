// memory_reserve.h - memory put aside for the moment in which `new` gets none.
//
// Concepts   Engine code has no exceptions: a `new` that fails in it ends the process. So that it
//            does not come to that, whoever opens a store holds a reserve, one for the whole
//            process. The first `new` that fails, anybody's, takes it (std::new_handler) and
//            succeeds: what is under way can be finished or rolled back. Nothing new is begun until
//            the reserve could be put back.
// Limits     Where the system promises more memory than it has (overcommit), no `new` ever fails
//            and this helps nobody. A handler that the application installs while a store is open
//            replaces this one.
#pragma once

#include <atomic>
#include <cstddef>

#include <lockstep/result.h>

namespace lockstep {

class MemoryReserve {
public:
    // A few thousand of the small pieces that operations ask for.
    static constexpr size_t kBytes = 1 << 20;

    MemoryReserve() = default;
    ~MemoryReserve() { drop(); }
    MemoryReserve(const MemoryReserve&) = delete;
    MemoryReserve& operator=(const MemoryReserve&) = delete;

    // From now until drop() there is a reserve, unless it has been used up. Error: out_of_memory.
    // From any thread; never blocks.
    Result<void> hold();
    void drop();

    static bool is_used_up() { return used_up_.load(std::memory_order_relaxed); }
    // Error: out_of_memory, it is still needed elsewhere.
    static Result<void> put_back();
    // MR-1: before a transaction begins, or a restart goes on.
    static Result<void> require() {
        if (is_used_up()) [[unlikely]]
            return put_back();
        return {};
    }
    // To be asked before more than a small part of the reserve is allocated: whether a `new` of so
    // many bytes would succeed now.
    static bool has_room_for(size_t bytes);

private:
    static std::atomic<bool> used_up_;
    static void give();  // the std::new_handler

    bool holds_ = false;
};

}  // namespace lockstep
