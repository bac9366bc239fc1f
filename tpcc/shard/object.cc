// object.cc - liblockstep-tpcc-shard.so as a procedure object (<lockstep/c/procedures.h>).
#include <cstring>
#include <iterator>

#include <lockstep/from_c.h>
#include "threads/base/try.h"
#include "tpcc/shard/shard.h"

namespace lockstep::tpcc {

namespace {

constexpr const char* kNames[] = {
    "tpcc.run",   "tpcc.stock",      "tpcc.new_order", "tpcc.payment", "tpcc.pay_customer",
    "tpcc.begin", "tpcc.statistics", "tpcc.foreign",   "tpcc.check",   nullptr};

Slice request_of(const lockstep_call& call) {
    return {static_cast<const char*>(call.request.data), call.request.size};
}

void refuse(lockstep_call& call, const Error& error) {
    lockstep_call_refuse(&call, static_cast<int>(error.code), error.text().c_str());
}

void answer(lockstep_call& call, const Result<std::string>& reply) {
    if (reply) lockstep_call_reply(&call, lockstep_bytes(reply->data(), reply->size()));
    else refuse(call, reply.error());
}

// A call that concerns the whole shard.
Result<std::string> perform(Shard& shard, const lockstep_call& call) {
    const Slice procedure = call.procedure;
    if (procedure == "tpcc.statistics") return shard.statistics();
    if (procedure == "tpcc.foreign") return shard.foreign();
    if (procedure == "tpcc.check") return shard.check(request_of(call));
    if (procedure != "tpcc.begin")
        return fail(ErrorCode::bad_argument,
                    "a step of a transaction over shards, not a whole one");
    shard.begin();
    return std::string();
}

Result<std::string> perform_step(Shard& shard, Txn& txn, lockstep_call& call) {
    const Slice procedure = call.procedure, request = request_of(call);
    std::string reply;
    if (procedure == "tpcc.stock") TRY(shard.supply(txn, request, reply));
    else if (procedure == "tpcc.pay_customer") TRY(shard.pay_customer(txn, request, reply));
    else if (procedure == "tpcc.payment") TRY(shard.pay_warehouse(txn, request));
    else if (procedure != "tpcc.new_order")
        return fail(ErrorCode::bad_argument, "a whole transaction, not a step");
    else if (!TRY(shard.enter_order(txn, request)))
        lockstep_call_refuse(&call, kRolledBack, "rolled back, as the input demanded");
    return reply;
}

int open(lockstep_store* handle, const char* text, void** self, lockstep_error* error) {
    const auto opened = [&]() -> Result<std::unique_ptr<Shard>> {
        Store* const store = store_of(handle);
        if (store == nullptr) return fail(ErrorCode::store_closed, "store");
        return Shard::open(*store, TRY(read_shard_options(text)));
    }();
    if (opened) {
        *self = const_cast<std::unique_ptr<Shard>&>(*opened).release();
        return LOCKSTEP_OK;
    }
    error->code = static_cast<int>(opened.error().code);
    const std::string said = opened.error().text();
    const size_t size = std::min(said.size(), sizeof error->text - 1);
    std::memcpy(error->text, said.data(), size);
    error->text[size] = '\0';
    return error->code;
}

void close(void* self) { delete static_cast<Shard*>(self); }

void run(void* self, lockstep_call* calls, size_t count) {
    Shard& shard = *static_cast<Shard*>(self);
    if (count != 0 && Slice(calls->procedure) == "tpcc.run") return shard.run({calls, count});
    for (size_t i = 0; i < count; ++i) answer(calls[i], perform(shard, calls[i]));
}

void step(void* self, lockstep_txn* handle, lockstep_call* call) {
    Txn* const txn = transaction_of(handle);
    if (txn == nullptr) return refuse(*call, fail(ErrorCode::wrong_thread, "step").error());
    const Result<std::string> reply = perform_step(*static_cast<Shard*>(self), *txn, *call);
    if (!reply || call->code == LOCKSTEP_OK) answer(*call, reply);
}

}  // namespace
}  // namespace lockstep::tpcc

// The name that a host looks for.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" [[gnu::visibility("default")]] const lockstep_procedures lockstep_procedure_object = {
    LOCKSTEP_PROCEDURES_VERSION, sizeof(lockstep_procedures), lockstep::tpcc::kNames,
    lockstep::tpcc::open,        lockstep::tpcc::close,       lockstep::tpcc::run,
    lockstep::tpcc::step};
