// ack.cc - writes acknowledgements, and checks them after a crash.
#include "tpcc/ack.h"
#include "threads/base/try.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <sstream>
#include <tuple>

namespace lockstep::tpcc {

Result<void> AckWriter::write_line(Slice line) {
    while (!line.empty()) {
        const ssize_t n = ::write(fd_, line.data(), line.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return fail_os(ErrorCode::io_error, errno, "--ack-fd", static_cast<uint64_t>(fd_));
        line.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<void> AckWriter::new_order(const NewOrderInput& in, uint32_t o_id) {
    return write_line(fmt::format("N {} {} {} {} {}\n", txn_.value, in.w, in.d, o_id, in.ol_cnt));
}

Result<void> AckWriter::payment(const PaymentInput& in, uint32_t c_id, Time date) {
    return write_line(fmt::format("P {} {} {} {} {} {} {} {}\n", txn_.value, in.w, in.d,
                                  in.customer.w, in.customer.d, c_id, in.amount, date));
}

Result<void> AckWriter::delivery(const DeliveryInput& in, const DeliveryOutput& out) {
    std::string line = fmt::format("D {} {} {}", txn_.value, in.w, in.carrier_id);
    for (uint32_t d = 1; d <= 10; ++d)
        if (out.o_id[d - 1]) line += fmt::format(" {}:{}", d, out.o_id[d - 1]);
    return write_line(line + "\n");
}

namespace {

// w, d, customer's w, d, number, amount, date
using PaymentMark = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, Cents, Time>;

PaymentMark mark_of(HistoryRecord h) {
    return {uint32_t{h.w_id}, uint32_t{h.d_id}, uint32_t{h.c_w_id}, uint32_t{h.c_d_id},
            uint32_t{h.c_id}, Cents{h.amount},  Time{h.date}};
}

class AckChecker {
public:
    explicit AckChecker(Database& db) : db_(db) {}

    Result<void> check_line(const std::string& line, uint64_t number) {
        std::istringstream in(line);
        char kind = 0;
        uint64_t txn = 0;
        in >> kind >> txn;
        bool understood = false;
        if (kind == 'N') understood = TRY(check_new_order(in, line));
        else if (kind == 'P') understood = take_payment(in);
        else if (kind == 'D') understood = TRY(check_delivery(in, line));
        if (!understood)
            return fail(ErrorCode::bad_argument, "acknowledgement that cannot be read, line number",
                        number);
        return {};
    }

    // Removes every history row from the payments wanted; those that remain are missing.
    Result<void> check_payments() {
        TxnOptions options;
        options.read_only = true;
        TRY(db_.store->run(
            [&](Txn& txn) -> Result<void> {
                return db_.history.scan(txn, [&](RecordId, Slice value) {
                    HistoryRecord h;
                    if (read_record(value, h)) drop(mark_of(h));
                    return true;
                });
            },
            options));
        for (const auto& [mark, count] : wanted_)
            report.faults.push_back(fmt::format(
                "payment of customer {} of {}/{} at {}: history row is missing", std::get<4>(mark),
                std::get<2>(mark), std::get<3>(mark), std::get<6>(mark)));
        return {};
    }

    AckReport report;

private:
    void drop(const PaymentMark& mark) {
        const auto it = wanted_.find(mark);
        if (it != wanted_.end() && --it->second == 0) wanted_.erase(it);
    }

    bool take_payment(std::istream& in) {
        uint32_t w, d, c_w, c_d, c;
        Cents amount;
        Time date;
        if (!(in >> w >> d >> c_w >> c_d >> c >> amount >> date)) return false;
        ++wanted_[PaymentMark(w, d, c_w, c_d, c, amount, date)];
        ++report.payments;
        return true;
    }

    Result<bool> read_order(uint32_t w, uint32_t d, uint32_t o, OrderRecord& order) {
        return db_.store->run([&](Txn& txn) -> Result<bool> {
            std::string value;
            return TRY(db_.orders.get(txn, order_key(w, d, o), value)) && read_record(value, order);
        });
    }

    Result<bool> check_new_order(std::istream& in, const std::string& line) {
        uint32_t w, d, o, ol_cnt;
        if (!(in >> w >> d >> o >> ol_cnt)) return false;
        ++report.new_orders;
        OrderRecord order;
        if (!TRY(read_order(w, d, o, order))) report.faults.push_back("order is missing: " + line);
        else if (order.ol_cnt != ol_cnt)
            report.faults.push_back("order has another number of lines: " + line);
        return true;
    }

    Result<bool> check_delivery(std::istream& in, const std::string& line) {
        uint32_t w, carrier, d, o;
        char colon;
        if (!(in >> w >> carrier)) return false;
        ++report.deliveries;
        while (in >> d >> colon >> o) {
            OrderRecord order;
            if (!TRY(read_order(w, d, o, order)) || order.carrier_id != carrier)
                report.faults.push_back(
                    fmt::format("order {} of {}/{} is not delivered: {}", o, w, d, line));
        }
        return true;
    }

    Database& db_;
    std::map<PaymentMark, uint64_t> wanted_;
};

}  // namespace

Result<AckReport> check_acks(Database& db, const std::string& path) {
    std::ifstream file(path);
    if (!file) return fail_os(ErrorCode::bad_path, errno, "file of acknowledgements");
    AckChecker checker(db);
    std::string line;
    for (uint64_t number = 1; std::getline(file, line) && !file.eof(); ++number)
        TRY(checker.check_line(line, number));
    if (file.bad()) return fail_os(ErrorCode::bad_path, errno, "file of acknowledgements");
    TRY(checker.check_payments());
    return std::move(checker.report);
}

}  // namespace lockstep::tpcc
