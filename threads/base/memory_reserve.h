// memory_reserve.h - memory reserved for the moment when `new` fails.
//
// Concepts   Engine code has no exceptions, so a failed `new` ends the process. To avoid that,
//            every open store holds a reserve; the process has one in all. The first `new` that
//            fails, in any code, takes the reserve (std::new_handler) and succeeds. Active work can
//            then finish or roll back. No new work begins until the reserve has been put back.
// Invariants MR-1 No transaction begins, and no restart continues, while the reserve is used up.
//            [checked: require()]
// Limits     With overcommit the system promises more memory than it has. Then no `new` ever fails,
//            and the reserve does not help. A handler that the application installs while a store
//            is open replaces this one.
#pragma once

#include <atomic>
#include <cstddef>

#include <lockstep/result.h>

namespace lockstep {

class MemoryReserve {
public:
    // Enough for a few thousand of the small blocks that operations allocate.
    static constexpr size_t kBytes = 1 << 20;

    MemoryReserve() = default;
    ~MemoryReserve() { drop(); }
    MemoryReserve(const MemoryReserve&) = delete;
    MemoryReserve& operator=(const MemoryReserve&) = delete;

    // Keeps a reserve until drop(), unless it is used up. Error: out_of_memory. Any thread; never
    // blocks.
    Result<void> hold();
    void drop();

    static bool is_used_up() { return used_up_.load(std::memory_order_relaxed); }
    // Error: out_of_memory, while the reserve is still needed elsewhere.
    static Result<void> put_back();
    // MR-1: call before a transaction begins, or a restart continues.
    static Result<void> require() {
        if (is_used_up()) [[unlikely]]
            return put_back();
        return {};
    }
    // Whether a `new` of so many bytes would succeed now. Call before allocating more than a small
    // part of the reserve.
    static bool has_room_for(size_t bytes);

private:
    static std::atomic<bool> used_up_;
    static void give();  // the std::new_handler

    bool holds_ = false;
};

}  // namespace lockstep
