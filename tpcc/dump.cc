// dump.cc - writes every table as a CSV file.
#include "tpcc/dump.h"
#include "threads/base/try.h"
#include "tpcc/units.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace lockstep::tpcc {

namespace {

// A buffered file; the first failure is remembered and reported by close().
class CsvFile {
public:
    CsvFile(const std::filesystem::path& path, const char* header)
        : file_(std::fopen(path.c_str(), "w")) {
        if (file_) fmt::print(file_, "{}\n", header);
    }
    CsvFile(const CsvFile&) = delete;
    CsvFile& operator=(const CsvFile&) = delete;
    ~CsvFile() {
        if (file_) std::fclose(file_);
    }
    bool open() const { return file_ != nullptr; }
    void line(const std::string& text) {
        if (std::fputs(text.c_str(), file_) < 0 || std::fputc('\n', file_) < 0) failed_ = errno;
    }
    Result<void> close() {
        if (std::fclose(std::exchange(file_, nullptr)) != 0) failed_ = errno;
        if (failed_)
            return fail_os(failed_ == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error, failed_,
                           "--dump");
        return {};
    }

private:
    std::FILE* file_;
    int failed_ = 0;
};

std::string rate(int32_t r) { return fmt::format("0.{:04}", r); }
std::string text(Slice s) {
    if (s.find_first_of(",\"\n") == Slice::npos) return std::string(s);
    std::string quoted = "\"";
    for (const char c : s) quoted += c == '"' ? "\"\"" : std::string(1, c);
    return quoted + '"';
}
template <size_t N>
std::string chars(const char (&array)[N]) {
    return text({array, N});
}
std::string time_or_null(Time t) { return t ? fmt::format("{}", t) : ""; }
std::string address(const Address& a) {
    return fmt::format("{},{},{},{},{}", text(a.street_1), text(a.street_2), text(a.city),
                       chars(a.state), chars(a.zip));
}

// One line for a row, from its key and record.
std::string format_row(KeyReader key, const WarehouseRecord& r) {
    return fmt::format("{},{},{},{},{}", key.u16(), text(r.name), address(r.address), rate(r.tax),
                       money(r.ytd));
}
std::string format_row(KeyReader key, const DistrictRecord& r) {
    const uint32_t w = key.u16(), d = key.u8();
    return fmt::format("{},{},{},{},{},{},{}", d, w, text(r.name), address(r.address), rate(r.tax),
                       money(r.ytd), uint32_t{r.next_o_id});
}
std::string format_row(KeyReader key, const CustomerRecord& r) {
    const uint32_t w = key.u16(), d = key.u8(), c = key.u16();
    return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", c, d, w, text(r.first),
                       chars(r.middle), text(r.last), address(r.address), chars(r.phone),
                       Time{r.since}, chars(r.credit), money(r.credit_lim), rate(r.discount),
                       money(r.balance), money(r.ytd_payment), uint32_t{r.payment_cnt},
                       uint32_t{r.delivery_cnt},
                       text({r.data, std::min<size_t>(r.data_size, sizeof(r.data))}));
}
std::string format_row(KeyReader key, const OrderRecord& r) {
    const uint32_t w = key.u16(), d = key.u8(), o = key.u32();
    return fmt::format("{},{},{},{},{},{},{},{}", o, d, w, uint32_t{r.c_id}, Time{r.entry_d},
                       r.carrier_id ? fmt::format("{}", r.carrier_id) : "", r.ol_cnt, r.all_local);
}
std::string format_row(KeyReader key, const OrderLineRecord& r) {
    const uint32_t w = key.u16(), d = key.u8(), o = key.u32(), ol = key.u8();
    return fmt::format("{},{},{},{},{},{},{},{},{},{}", o, d, w, ol, uint32_t{r.i_id},
                       uint32_t{r.supply_w_id}, time_or_null(r.delivery_d), r.quantity,
                       money(r.amount), chars(r.dist_info));
}
std::string format_row(KeyReader key, const ItemRecord& r) {
    return fmt::format("{},{},{},{},{}", key.u24(), uint32_t{r.im_id}, text(r.name), money(r.price),
                       text(r.data));
}
std::string format_row(KeyReader key, const StockRecord& r) {
    const uint32_t w = key.u16(), i = key.u24();
    std::string line = fmt::format("{},{},{}", i, w, int32_t{r.quantity});
    for (const auto& dist : r.dist) line += "," + chars(dist);
    return line + fmt::format(",{},{},{},{}", int64_t{r.ytd}, uint32_t{r.order_cnt},
                              uint32_t{r.remote_cnt}, text(r.data));
}
std::string format_history(const HistoryRecord& r) {
    return fmt::format("{},{},{},{},{},{},{},{}", uint32_t{r.c_id}, r.c_d_id, uint32_t{r.c_w_id},
                       r.d_id, uint32_t{r.w_id}, Time{r.date}, money(r.amount), text(r.data));
}

class Dumper {
public:
    Dumper(Database& db, Txn& txn, std::filesystem::path directory)
        : db_(db), txn_(txn), directory_(std::move(directory)) {}

    template <class R>
    Result<void> table(const Index& index, const char* name, const char* header) {
        CsvFile file(directory_ / (std::string(name) + ".csv"), header);
        if (!file.open()) return fail_os(ErrorCode::bad_path, errno, "--dump");
        Cursor cursor = index.scan(txn_);
        R record;
        while (TRY(cursor.next())) {
            if (!read_record(cursor.value(), record)) return fail(ErrorCode::bad_argument, name);
            file.line(format_row(KeyReader(cursor.key()), record));
        }
        return file.close();
    }

    Result<void> new_orders() {
        CsvFile file(directory_ / "new_order.csv", "no_o_id,no_d_id,no_w_id");
        if (!file.open()) return fail_os(ErrorCode::bad_path, errno, "--dump");
        Cursor cursor = db_.new_order.scan(txn_);
        while (TRY(cursor.next())) {
            KeyReader key(cursor.key());
            const uint32_t w = key.u16(), d = key.u8(), o = key.u32();
            file.line(fmt::format("{},{},{}", o, d, w));
        }
        return file.close();
    }

    Result<void> history() {
        CsvFile file(directory_ / "history.csv",
                     "h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data");
        if (!file.open()) return fail_os(ErrorCode::bad_path, errno, "--dump");
        TRY(db_.history.scan(txn_, [&](RecordId, Slice value) {
            HistoryRecord record;
            if (read_record(value, record)) file.line(format_history(record));
            return true;
        }));
        return file.close();
    }

private:
    Database& db_;
    Txn& txn_;
    std::filesystem::path directory_;
};

#define ADDRESS(p) p "_street_1," p "_street_2," p "_city," p "_state," p "_zip"

Result<void> dump_all(Database& db, Dumper& dumper) {
    TRY(dumper.table<WarehouseRecord>(db.warehouse, "warehouse",
                                      "w_id,w_name," ADDRESS("w") ",w_tax,w_ytd"));
    TRY(dumper.table<DistrictRecord>(
        db.district, "district", "d_id,d_w_id,d_name," ADDRESS("d") ",d_tax,d_ytd,d_next_o_id"));
    TRY(dumper.table<CustomerRecord>(db.customer, "customer",
                                     "c_id,c_d_id,c_w_id,c_first,c_middle,c_last," ADDRESS(
                                         "c") ",c_phone,c_since,c_credit,c_credit_lim,c_discount,c_"
                                              "balance,c_ytd_payment,c_payment_cnt,c_delivery_cnt,"
                                              "c_data"));
    TRY(dumper.history());
    TRY(dumper.new_orders());
    TRY(dumper.table<OrderRecord>(
        db.orders, "orders",
        "o_id,o_d_id,o_w_id,o_c_id,o_entry_d,o_carrier_id,o_ol_cnt,o_all_local"));
    TRY(dumper.table<OrderLineRecord>(db.order_line, "order_line",
                                      "ol_o_id,ol_d_id,ol_w_id,ol_number,ol_i_id,ol_supply_w_id,ol_"
                                      "delivery_d,ol_quantity,ol_amount,ol_dist_info"));
    TRY(dumper.table<ItemRecord>(db.item, "item", "i_id,i_im_id,i_name,i_price,i_data"));
    return dumper.table<StockRecord>(
        db.stock, "stock",
        "s_i_id,s_w_id,s_quantity,s_dist_01,s_dist_02,s_dist_03,s_dist_04,s_dist_05,s_dist_06,s_"
        "dist_07,"
        "s_dist_08,s_dist_09,s_dist_10,s_ytd,s_order_cnt,s_remote_cnt,s_data");
}

#undef ADDRESS

}  // namespace

Result<void> dump_tables(Database& db, const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return fail_os(ErrorCode::bad_path, error.value(), "--dump");
    TxnOptions options;
    options.read_only = true;
    return db.store->run(
        [&](Txn& txn) -> Result<void> {
            Dumper dumper(db, txn, directory);
            return dump_all(db, dumper);
        },
        options);
}

}  // namespace lockstep::tpcc
