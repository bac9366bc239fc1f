// procedures.cc - the C interface of procedure objects: calls with replies, many calls at once, and
// a body within the transaction of a session.
#include <lockstep/c/procedures.h>

#include <cstdlib>
#include <new>
#include <vector>

#include <lockstep/from_c.h>
#include <lockstep/packet.h>
#include "sm/c/attempt.h"
#include "sm/c/session.h"

namespace lockstep::c {

namespace {

// A copy of the bytes with a NUL behind it; null: no memory.
char* copy_of(Slice bytes) {
    auto* const copy = static_cast<char*>(std::malloc(bytes.size() + 1));
    if (copy == nullptr) return nullptr;
    std::memcpy(copy, bytes.data(), bytes.size());
    copy[bytes.size()] = '\0';
    return copy;
}

void clear(lockstep_call& call) {
    std::free(const_cast<void*>(call.reply.data));
    std::free(const_cast<char*>(call.text));
    call.reply = {nullptr, 0};
    call.text = nullptr;
    call.code = LOCKSTEP_OK;
}

// The text may be a part of what the call has.
int refuse(lockstep_call& call, int code, Slice text) {
    const char* const copy = copy_of(text);
    clear(call);
    call.text = copy;
    return call.code = code;
}

void refuse(lockstep_call& call, const Error& error) {
    lockstep_error told;
    report(error, &told);
    refuse(call, told.code, told.text);
}

// What the calls of one lockstep_run_calls() share.
struct Batch {
    StoreObject& store;
    lockstep_call_body body;
    void* arg;
    TxnOptions options;
    std::atomic<size_t> left;
    HandOver hand_over;

    void one_ended() {
        if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) (void)hand_over.finish();
    }
};

class CallPacket final : public Packet {
public:
    CallPacket(Batch& batch, lockstep_call& call) : batch_(&batch), call_(&call) {}

    void run() override {
        Attempt attempt{batch_->store, body, this};
        const Result<void> done = batch_->store.store.run(attempt, batch_->options);
        if (!done) told(done.error(), attempt.code);
        batch_->one_ended();  // the packet may be gone now
    }

private:
    static int body(lockstep_txn* txn, void* arg) {
        const auto& packet = *static_cast<CallPacket*>(arg);
        clear(*packet.call_);  // an attempt before may have set a reply
        const int result = packet.batch_->body(packet.batch_->arg, txn, packet.call_);
        return result != 0 ? result : packet.call_->code;
    }
    // A text of the body stands, unless the commit has failed behind it.
    void told(const Error& error, int returned) {
        if (call_->code != 0 && returned != 0) return;
        if (returned < 0) refuse(*call_, returned, "number that the procedure returned");
        else refuse(*call_, error);
    }

    Batch* batch_;
    lockstep_call* call_;
};

Result<void> run_calls(StoreObject& store, std::span<lockstep_call> calls, lockstep_call_body body,
                       void* arg, const TxnOptions& options) {
    if (calls.empty()) return {};
    Batch batch{store, body, arg, options, {calls.size()}, {}};
    const std::unique_ptr<std::byte[]> room(new (std::nothrow)
                                                std::byte[calls.size() * sizeof(CallPacket)]);
    if (room == nullptr) return fail(ErrorCode::out_of_memory, "calls", calls.size());
    auto* const packets = reinterpret_cast<CallPacket*>(room.get());
    for (size_t i = 0; i < calls.size(); ++i) {
        auto* const packet = new (packets + i) CallPacket(batch, calls[i]);
        const Result<void> submitted = store.store.submit(*packet);
        if (submitted) continue;
        refuse(calls[i], submitted.error());
        batch.one_ended();
    }
    (void)batch.hand_over.wait();
    return {};
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

void lockstep_call_init(lockstep_call* call, size_t size) {
    c::initialise(call, size, lockstep_call{});
}

int lockstep_call_reply(lockstep_call* call, lockstep_slice bytes) {
    if (call == nullptr) return LOCKSTEP_BAD_ARGUMENT;
    if (!c::sound(bytes))
        return c::refuse(*call, LOCKSTEP_BAD_ARGUMENT, "the reply has bytes and no address");
    char* const copy = c::copy_of(c::slice_of(bytes));
    if (copy == nullptr) return c::refuse(*call, LOCKSTEP_OUT_OF_MEMORY, "reply");
    c::clear(*call);
    call->reply = {copy, bytes.size};
    return LOCKSTEP_OK;
}

int lockstep_call_refuse(lockstep_call* call, int code, const char* text) {
    if (call == nullptr) return LOCKSTEP_BAD_ARGUMENT;
    if (code == LOCKSTEP_OK)
        return c::refuse(*call, LOCKSTEP_BAD_ARGUMENT, "a call was refused with the code 0");
    return c::refuse(*call, code, text == nullptr ? lockstep_strerror(code) : text);
}

void lockstep_call_clear(lockstep_call* call) {
    if (call != nullptr) c::clear(*call);
}

int lockstep_run_calls(lockstep_store* store, lockstep_call* calls, size_t count,
                       lockstep_call_body body, void* arg, const lockstep_txn_options* options,
                       lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(body);
        if (count != 0) LOCKSTEP_NOT_NULL(calls);
        return c::run_calls(s, {calls, count}, body, arg, TRY(c::txn_options_of(options)));
    });
}

int lockstep_run_in(lockstep_txn* txn, lockstep_body body, void* arg, lockstep_error* error) {
    int code = 0;
    const int result = c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(body);
        return c::call_body(t, body, arg, code);
    });
    if (result != LOCKSTEP_ROLLED_BACK || code >= 0) return result;
    if (error != nullptr) error->code = code;
    return code;
}

namespace lockstep {

Store* store_of(lockstep_store* handle) {
    const Result<c::StorePin> store = c::pin(handle);
    return store ? &(*store)->store : nullptr;
}

Txn* transaction_of(lockstep_txn* handle) {
    if (threads::current() == nullptr) return nullptr;
    Txn* found = nullptr;
    (void)c::in_txn(handle, [&](c::TxnObject& txn) -> Result<void> {
        found = txn.txn;
        return {};
    });
    return found;
}

}  // namespace lockstep
