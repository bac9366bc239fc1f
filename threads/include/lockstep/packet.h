// packet.h - a packet: a piece of work that waits for a user thread, as an object without a stack.
//
// Concepts   A packet is an object of the application. Until it begins it has no stack, no user
//            thread and no transaction: a packet that waits takes its own bytes only, 64 and what
//            the application adds. Each worker has an admission stage, which keeps its packets in
//            order, and some executing threads, which take them one after the other. So the stacks
//            in use stay few and warm. Store::submit() enqueues a packet and allocates nothing.
//            Store::start() and spawn() submit packets that they make themselves.
// Life       outside -> waiting (Store::submit) -> outside (run() begins, or Store::withdraw). The
//            store does not touch the packet once run() has begun. So run() may submit it again, as
//            its last act, and it may destroy it. While a packet waits it must stay where it is.
// Blocking   Never, but run(): it may suspend, as all functions on user threads.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.2.
#pragma once

#include <cstdint>

#include <lockstep/types.h>

namespace lockstep {

class Announcement;
class Store;

namespace threads {

class Admission;
class Executors;

// A byte that one thread writes and others read. <atomic> would add much to what includes this
// file.
class SharedByte {
public:
    // Holds a value. get() and set() are relaxed atomic accesses.
    explicit SharedByte(uint8_t value) : value_(value) {}
    uint8_t get() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
    void set(uint8_t value) { __atomic_store_n(&value_, value, __ATOMIC_RELAXED); }

private:
    uint8_t value_;
};

// A packet as the workers see it. Applications derive from lockstep::Packet.
struct Packet {
    Packet() = default;
    Packet(const Packet&) = delete;
    Packet& operator=(const Packet&) = delete;
    // Called once for each submission, on an executing thread. The packet may be gone afterwards.
    virtual void run() = 0;
    // Called on an executing thread shortly before run(), if needs are walked.
    virtual void announce([[maybe_unused]] Announcement& to) {}

    // Where the packet is: outside, in the heap of those that wait for a time, in the queue.
    enum Place : uint8_t { kOutside, kTimed, kQueued };
    static constexpr uint8_t kPriorities = 4;  // 0: last

    // Links of the queue, or of the heap of those that wait for a time. Under the stage's lock.
    Packet* next = nullptr;
    Packet* prev = nullptr;
    Packet* right = nullptr;
    Nanos entered = 0;      // of the queue; in the heap the order of arrival
    Nanos not_before = 0;   // time of the runtime's clock; 0: now
    void* above = nullptr;  // for the layer above
    uint32_t bypassed = 0;  // see stage.h
    // Number of the worker that has it. Written by the submitter, then under the stage's lock.
    SharedByte home{0};
    SharedByte place{kOutside};  // written under the stage's lock
    uint8_t priority = 0;        // below kPriorities
    bool pinned = false;         // only its home may run it

protected:
    ~Packet() = default;

private:
    friend class Admission;
    friend class Executors;
    // The runtime was abandoned, as by a crash, before run() returned; called once. Simulations
    // only.
    virtual void dropped() {}
};

}  // namespace threads

// How a packet is submitted.
struct PacketOptions {
    // Number of the worker whose data the packet uses, modulo Options::workers, or -1: workers take
    // turns. A hint for the caches: another worker that has nothing to do may take the packet.
    int worker = -1;
    bool pinned = false;   // only that worker runs the packet
    uint8_t priority = 0;  // 0..3; packets of a higher priority begin earlier
    // The packet does not begin before this time of lockstep::now(), in nanoseconds; 0: at once.
    Nanos not_before = 0;
};

// The application derives its packets from this class. Store::submit() takes them.
class Packet : threads::Packet {
public:
    Packet() = default;

    // The work, on a user thread of the store. It may do what every function on a user thread may
    // do: begin transactions, suspend, submit packets. Nothing may throw out of it
    // (std::terminate). A transaction that it leaves open is rolled back by Store::close().
    void run() override = 0;
    // Names the records that run() will use first (need.h). Called before run(), if
    // StepsOptions::mode is `on` or `prefetch`, on a user thread of the worker that will call it.
    // Must not suspend and must not call the store. The default names nothing.
    void announce([[maybe_unused]] Announcement& to) override {}

protected:
    ~Packet() = default;

private:
    friend class Store;
};

// Number of the worker that runs the calling user thread, 0-based; -1 on foreign kernel threads.
// Never blocks.
int current_worker();

}  // namespace lockstep
