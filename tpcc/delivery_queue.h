// delivery_queue.h - deferred execution of Delivery: the requests of one warehouse wait here for a
// background thread (clause 2.7.2).
//
// Concepts   A terminal puts a request and continues. If the queue has no server, a user thread is
//            started that works until the queue is empty. So each warehouse has at most one server,
//            requests are served in order of arrival, and no thread polls.
// States     idle -> serving by put(); serving -> idle by next() on an empty queue.
// Blocking   Nothing here blocks except a spin lock. put() refuses while the queue is full.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "threads/base/spin_lock.h"
#include "tpcc/transactions.h"

namespace lockstep::tpcc {

struct DeliveryRequest {
    DeliveryInput input;
    Nanos queued = 0;
};

// One line of the result file of clause 2.7.2.2 (delivery_log.h).
struct DeliveryResult {
    DeliveryRequest request;
    Nanos finished = 0;
    DeliveryOutput output;
};

class DeliveryQueue {
public:
    // False: the queue is full. `start_server` tells the caller to start a server, which must call
    // next() until it returns nothing.
    bool put(const DeliveryRequest& request, bool& start_server) {
        SpinGuard guard(lock_);
        if (size_ == kCapacity) return false;
        requests_[(first_ + size_++) % kCapacity] = request;
        start_server = !std::exchange(serving_, true);
        return true;
    }
    std::optional<DeliveryRequest> next() {
        SpinGuard guard(lock_);
        if (size_ == 0) {
            serving_ = false;
            return std::nullopt;
        }
        const DeliveryRequest request = requests_[first_];
        first_ = (first_ + 1) % kCapacity;
        --size_;
        return request;
    }

    // By the server, if results are kept.
    void keep(const DeliveryResult& result) {
        SpinGuard guard(lock_);
        results_.push_back(result);
    }
    // Moves the results that were kept since the last call to the end of `to`.
    void take_results(std::vector<DeliveryResult>& to) {
        SpinGuard guard(lock_);
        to.insert(to.end(), results_.begin(), results_.end());
        results_.clear();
    }

private:
    static constexpr size_t kCapacity = 256;
    SpinLock lock_;  // protects the fields below
    std::array<DeliveryRequest, kCapacity> requests_;
    size_t first_ = 0, size_ = 0;
    bool serving_ = false;
    std::vector<DeliveryResult> results_;
};

}  // namespace lockstep::tpcc
