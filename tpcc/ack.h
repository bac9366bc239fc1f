// ack.h - one line for each durable commit, so that a check after a crash can prove that nothing
// acknowledged is lost.
//
// Layout     N txn w d o ol_cnt                  a New-Order and its number of lines.
//            P txn w d c_w c_d c amount date     a Payment and the history row it left.
//            D txn w carrier d:o d:o ...         a Delivery and the orders that got the carrier.
#pragma once

#include <string>
#include <vector>

#include "tpcc/transactions.h"

namespace lockstep::tpcc {

// Writes a whole line with one write(), which blocks the kernel thread: for tests, not for
// measurements.
class AckWriter {
public:
    AckWriter(int fd, TxnId txn) : fd_(fd), txn_(txn) {}
    Result<void> new_order(const NewOrderInput& in, uint32_t o_id);
    Result<void> payment(const PaymentInput& in, uint32_t c_id, Time date);
    Result<void> delivery(const DeliveryInput& in, const DeliveryOutput& out);

private:
    Result<void> write_line(Slice line);
    int fd_;
    TxnId txn_;
};

struct AckReport {
    uint64_t new_orders = 0, payments = 0, deliveries = 0;  // lines checked
    // What is missing, in words; empty if nothing is.
    std::vector<std::string> faults;
};
// Checks every complete line of `path` against the database. A last line without a newline is
// ignored: it was not written completely. Errors: bad_path, bad_argument (names the line that
// cannot be parsed), errors of the store.
Result<AckReport> check_acks(Database& db, const std::string& path);

}  // namespace lockstep::tpcc
