// wire.cc - packets and replies between shards.
#include "tpcc/shard/wire.h"

#include <type_traits>

namespace lockstep::tpcc {

namespace {

// A line's number and its stock.
struct [[gnu::packed]] Supply {
    uint8_t line;
    RemoteStock stock;
};

template <class T>
void append(std::string& out, const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
bool take(Slice& bytes, T& out) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() < sizeof out) return false;
    std::memcpy(static_cast<void*>(&out), bytes.data(), sizeof out);
    bytes.remove_prefix(sizeof out);
    return true;
}

template <class T>
bool take_all(Slice& bytes, std::vector<T>& out) {
    uint32_t count = 0;
    if (!take(bytes, count) || bytes.size() / sizeof(T) < count) return false;
    const size_t before = out.size();
    out.resize(before + count);
    std::memcpy(static_cast<void*>(out.data() + before), bytes.data(), count * sizeof(T));
    bytes.remove_prefix(count * sizeof(T));
    return true;
}

bool fits(uint32_t n, uint32_t most) { return n - 1 < most; }
bool fits(const Scale& s, uint32_t w, uint32_t d) {
    return fits(w, s.warehouses) && fits(d, s.districts);
}
bool fits(const Scale& s, const CustomerChoice& c) {
    if (!fits(s, c.w, c.d)) return false;
    return c.by_name ? c.last.size <= sizeof c.last.bytes : fits(c.c, s.customers);
}
bool fits(const Scale& s, const NewOrderInput& in) {
    if (!fits(s, in.w, in.d) || !fits(in.c, s.customers) || !fits(in.ol_cnt, 15)) return false;
    bool numbers[15] = {};
    for (uint8_t i = 0; i < in.ol_cnt; ++i) {
        const NewOrderLine& line = in.lines[i];
        const bool unused = in.rolls_back && i + 1 == in.ol_cnt;
        if (!fits(line.supply_w, s.warehouses) || !fits(line.number, in.ol_cnt) ||
            !fits(line.i_id, s.items + unused) || numbers[line.number - 1])
            return false;
        numbers[line.number - 1] = true;
    }
    return true;
}
bool fits(const Scale& s, const PaymentInput& in) {
    return fits(s, in.w, in.d) && fits(s, in.customer);
}
bool fits(const Scale& s, const OrderStatusInput& in) { return fits(s, in.customer); }
bool fits(const Scale& s, const DeliveryInput& in) { return fits(s, in.w, 1); }
bool fits(const Scale& s, const StockLevelInput& in) { return fits(s, in.w, in.d); }

template <class I>
std::optional<Input> read_as(Slice bytes, const Scale& scale) {
    I in;
    if (!take(bytes, in) || !bytes.empty() || !fits(scale, in)) return std::nullopt;
    return Input(in);
}

}  // namespace

std::string packet_of(const Input& input) {
    std::string out(1, static_cast<char>(type_of(input)));
    std::visit([&](const auto& in) { append(out, in); }, input);
    return out;
}

std::optional<Input> read_packet(Slice packet, const Scale& scale) {
    uint8_t type = 0;
    if (!take(packet, type)) return std::nullopt;
    switch (static_cast<TxnType>(type)) {
        case TxnType::new_order: return read_as<NewOrderInput>(packet, scale);
        case TxnType::payment: return read_as<PaymentInput>(packet, scale);
        case TxnType::order_status: return read_as<OrderStatusInput>(packet, scale);
        case TxnType::delivery: return read_as<DeliveryInput>(packet, scale);
        case TxnType::stock_level: return read_as<StockLevelInput>(packet, scale);
    }
    return std::nullopt;
}

void append_supplies(const NewOrderInput& in, const Scale& scale, const RemoteStock* stocks,
                     std::string& out) {
    for (uint8_t i = 0; i < in.ol_cnt - in.rolls_back; ++i)
        if (scale.holds(in.lines[i].supply_w)) append(out, Supply{i, stocks[i]});
}

bool read_supplies(Slice replies, const NewOrderInput& in, const Scale& scale, RemoteStock* out) {
    bool found[15] = {};
    for (Supply supply; !replies.empty();) {
        if (!take(replies, supply) || supply.line >= in.ol_cnt || found[supply.line]) return false;
        found[supply.line] = true;
        out[supply.line] = supply.stock;
    }
    for (uint8_t i = 0; i < in.ol_cnt - in.rolls_back; ++i)
        if (found[i] == scale.holds(in.lines[i].supply_w)) return false;
    return true;
}

bool split_packet(Slice request, Slice& packet, Slice& rest) {
    uint16_t size = 0;
    if (!take(request, size) || request.size() < size) return false;
    packet = request.substr(0, size);
    rest = request.substr(size);
    return true;
}

std::string bytes_of_rows(const ForeignRows& rows) {
    std::string out;
    append(out, static_cast<uint32_t>(rows.payments.size()));
    for (const HistoryRecord& row : rows.payments) append(out, row);
    append(out, static_cast<uint32_t>(rows.lines.size()));
    for (const ForeignRows::Line& line : rows.lines) append(out, line);
    return out;
}

bool read_rows(Slice bytes, ForeignRows& out) {
    while (!bytes.empty())
        if (!take_all(bytes, out.payments) || !take_all(bytes, out.lines)) return false;
    return true;
}

}  // namespace lockstep::tpcc
