// shard.cc - transactions on a shard.
#include "tpcc/shard/shard.h"

#include <lockstep/packet.h>
#include <lockstep/sync.h>
#include "threads/base/try.h"
#include "tpcc/ch/tables.h"
#include "tpcc/loader.h"
#include "tpcc/needs.h"
#include "tpcc/time_of_day.h"

namespace lockstep::tpcc {

namespace {

[[gnu::cold]] void refuse(lockstep_call& call, const Error& error) {
    lockstep_call_refuse(&call, static_cast<int>(error.code), error.text().c_str());
}

Unexpected no_packet() { return fail(ErrorCode::bad_argument, "packet of a TPC-C transaction"); }

template <class I>
Result<I> read_input(Slice packet, const Scale& scale) {
    const std::optional<Input> input = read_packet(packet, scale);
    if (!input || !std::holds_alternative<I>(*input)) return no_packet();
    return std::get<I>(*input);
}

uint32_t home_of(const Input& input) {
    if (const auto* in = std::get_if<OrderStatusInput>(&input)) return in->customer.w;
    return std::visit(
        [](const auto& in) -> uint32_t {
            if constexpr (requires { in.w; }) return in.w;
            else return 0;
        },
        input);
}

// Are all rows of the transaction in this store?
bool is_local(const Input& input, const Scale& scale) {
    if (!scale.holds(home_of(input))) return false;
    if (const auto* in = std::get_if<PaymentInput>(&input)) return scale.holds(in->customer.w);
    if (const auto* in = std::get_if<NewOrderInput>(&input))
        return std::all_of(in->lines, in->lines + in->ol_cnt - in->rolls_back,
                           [&](const NewOrderLine& line) { return scale.holds(line.supply_w); });
    return true;
}

// The end of a batch.
struct Batch {
    std::atomic<size_t> left;
    Event done;
    void one_ended() {
        if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) done.set();
    }
};

}  // namespace

// A transaction of a batch.
class Shard::LocalPacket final : public Packet {
public:
    LocalPacket(Shard& shard, Batch& batch, lockstep_call& call, const Input& input)
        : shard_(shard), batch_(batch), call_(call), input_(input), entered_(now()) {}

    void announce(Announcement& to) override {
        if (announced_) return;
        announced_ = true;
        needs_of(shard_.db_, input_, customer_, to);
    }

    void run() override {
        Executor& executor = *shard_.executors_[static_cast<size_t>(current_worker())];
        DeliveryOutput delivered;
        const Result<Outcome> outcome = executor.execute(input_, &delivered, announced_);
        if (outcome) count(executor.stats(), *outcome, delivered);
        else refuse(call_, outcome.error());
        batch_.one_ended();  // the packet may be gone now
    }

private:
    void count(WorkerStats& stats, Outcome outcome, const DeliveryOutput& delivered) {
        TypeStats& type = stats.types[input_.index()];
        type.latency.record(now() - entered_);
        type.rolled_back += outcome == Outcome::rolled_back;
        if (std::holds_alternative<DeliveryInput>(input_)) {
            stats.districts_skipped += delivered.skipped;
            stats.deliveries_with_skips += delivered.skipped > 0;
        }
        const auto byte = static_cast<uint8_t>(outcome);
        lockstep_call_reply(&call_, lockstep_bytes(&byte, sizeof byte));
    }

    Shard& shard_;
    Batch& batch_;
    lockstep_call& call_;
    const Input input_;
    const Nanos entered_;
    bool announced_ = false;
    CustomerOfName customer_;
};

Result<std::unique_ptr<Shard>> Shard::open(Store& store, const ShardOptions& options) {
    ShardOptions given = options;
    given.executor.clock_offset = clock_offset();
    std::unique_ptr<Shard> shard(new Shard(given));
    const Scale& wanted = given.scale;
    if (has_tables(store)) {
        shard->db_ = TRY(open_database(store));
        const Scale& found = shard->db_.scale;
        if (found.warehouses != wanted.warehouses || found.first != wanted.first ||
            found.last_here() != wanted.last_here() || found.items != wanted.items ||
            found.districts != wanted.districts || found.customers != wanted.customers ||
            found.undelivered != wanted.undelivered || shard->db_.seed != given.seed)
            return fail(ErrorCode::bad_option,
                        "the store has other warehouses than the options say; give the options of"
                        " its load, or an empty directory",
                        found.first, found.last_here());
    } else {
        const LoadSettings load_settings{wanted, given.seed, shard->time()};
        LoadProgress progress;
        shard->db_ = TRY(load(store, load_settings, progress));
    }
    if (given.ch) TRY(ch::load_tables(store, given.seed));
    for (uint32_t i = 0; i < store.options().workers; ++i) {
        shard->stats_.push_back(std::make_unique<WorkerStats>());
        shard->executors_.push_back(
            std::make_unique<Executor>(shard->db_, given.executor, *shard->stats_.back()));
    }
    return shard;
}

Time Shard::time() const { return static_cast<Time>(now()) + options_.executor.clock_offset; }

void Shard::run(std::span<lockstep_call> calls) {
    Batch batch{{calls.size() + 1}, {}};
    std::vector<std::unique_ptr<LocalPacket>> packets;
    packets.reserve(calls.size());
    for (lockstep_call& call : calls) {
        const Slice request(static_cast<const char*>(call.request.data), call.request.size);
        const std::optional<Input> input = read_packet(request, db_.scale);
        if (!input || !is_local(*input, db_.scale)) {
            refuse(call, no_packet().error());
            batch.one_ended();
            continue;
        }
        packets.push_back(std::make_unique<LocalPacket>(*this, batch, call, *input));
        const auto worker = static_cast<int>((home_of(*input) - db_.scale.first) %
                                             static_cast<uint32_t>(executors_.size()));
        const auto submitted = db_.store->submit(*packets.back(), {.worker = worker});
        if (submitted) continue;
        refuse(call, submitted.error());
        batch.one_ended();
    }
    batch.one_ended();
    (void)batch.done.wait();
}

Result<void> Shard::supply(Txn& txn, Slice request, std::string& reply) {
    const NewOrderInput in = TRY(read_input<NewOrderInput>(request, db_.scale));
    RemoteStock stocks[15];
    TRY(supply_remote(db_, txn, in, stocks));
    append_supplies(in, db_.scale, stocks, reply);
    return {};
}

Result<bool> Shard::enter_order(Txn& txn, Slice request) {
    Slice packet, replies;
    if (!split_packet(request, packet, replies)) return no_packet();
    const NewOrderInput in = TRY(read_input<NewOrderInput>(packet, db_.scale));
    RemoteStock stocks[15];
    if (!db_.scale.holds(in.w) || !read_supplies(replies, in, db_.scale, stocks))
        return no_packet();
    NewOrderOutput out;
    return new_order(db_, txn, in, time(), out, stocks);
}

Result<void> Shard::pay_customer(Txn& txn, Slice request, std::string& reply) {
    const PaymentInput in = TRY(read_input<PaymentInput>(request, db_.scale));
    if (!db_.scale.holds(in.customer.w)) return no_packet();
    PaymentOutput out;
    TRY(tpcc::pay_customer(db_, txn, in, out));
    reply.assign(reinterpret_cast<const char*>(&out.c_id), sizeof out.c_id);
    return {};
}

Result<void> Shard::pay_warehouse(Txn& txn, Slice request) {
    Slice packet, customer;
    PaymentOutput out;
    if (!split_packet(request, packet, customer) || customer.size() != sizeof out.c_id)
        return no_packet();
    const PaymentInput in = TRY(read_input<PaymentInput>(packet, db_.scale));
    if (!db_.scale.holds(in.w)) return no_packet();
    std::memcpy(&out.c_id, customer.data(), sizeof out.c_id);
    return tpcc::pay_warehouse(db_, txn, in, time(), out);
}

}  // namespace lockstep::tpcc
