// index_once.cc - public calls on indexes without a transaction: reads that need none, and
// transactions of one operation.
//
// Concepts   A read looks at the record on the calling thread, whichever it is (btree_look.cc). The
//            gate keeps the tree alive meanwhile. What the look cannot answer, and every change, is
//            a transaction of Store::run().
// Invariants ON-1 A read that is durable returns only when no crash can
//                 take back what it has seen, as TX-3 says of the commit of a reader.
//                 [test: OneCall.ADurableReadWaitsForTheCommitThatItHasSeen]
#include <lockstep/index.h>

#include <algorithm>
#include <optional>

#include "sm/api/engine_of.h"
#include "sm/api/key_behind.h"
#include "sm/api/operation.h"
#include "sm/btree/btree.h"
#include "sm/btree/btree_chunks.h"
#include "sm/secondary/key_call.h"

namespace lockstep {

namespace sm {
namespace {

[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_handle() {
    return fail(ErrorCode::no_such_object, "empty handle");
}

TxnOptions options_of(const CallOptions& options, Isolation isolation, bool read_only) {
    DCHECK(isolation == Isolation::serializable || isolation == Isolation::snapshot);
    DCHECK(read_only || isolation == Isolation::serializable);
    return {.isolation = isolation,
            .durability = options.durability,
            .read_only = read_only,
            .lock_timeout = options.lock_timeout};
}

// operation(txn) -> Result<T> as a transaction of its own.
template <class Operation>
auto run_once(Engine* engine, const BTree* tree, const TxnOptions& options, Operation operation)
    -> std::invoke_result_t<Operation, Txn&> {
    if (tree == nullptr) [[unlikely]]
        return refuse_handle();
    DCHECK(engine != nullptr);
    std::invoke_result_t<Operation, Txn&> result;
    // What comes out is the result of the attempt that has committed.
    const Result<void> done = StoreAccess::run(
        *engine,
        [&](Txn& txn) -> Result<void> {
            DCHECK(txn.live() && engine->counted_by_thread());
            result = operation(txn);
            if (!result.has_value()) return std::unexpected(result.error());
            return {};
        },
        options);
    if (!done) return std::unexpected(done.error());
    DCHECK(result.has_value());
    return result;
}
template <class Operation>
auto change_once(Engine* engine, const BTree* tree, const CallOptions& options,
                 Operation operation) {
    return run_once(engine, tree, options_of(options, Isolation::serializable, false), operation);
}

// ON-1. `seen`: as BTree::look() gives it. A newer commit than any cannot have been seen.
[[gnu::noinline]] Result<void> wait_for_seen(Engine& engine, Lsn seen) {
    DCHECK(seen != kLsnNone);
    const Lsn point = std::min(seen, engine.txns->newest_commit());
    DCHECK(point <= engine.log->tail());
    if (engine.log->is_promised(point)) return {};
    return engine.run_and_wait([&] { return engine.log->wait_promised(point); });
}

// What forbids a read on the calling thread. `call`: the gate let it in.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_look(const Engine* engine, bool call,
                                                                size_t key_bytes,
                                                                Durability durability) {
    if (!call) return Call::closed();
    if (engine->forked()) return Engine::refuse_child();
    if (in_key_function()) return refuse_in_key_function();  // KC-1
    if (key_bytes > kKeyBytesMax) return key_too_long(key_bytes);
    if (durability > Durability::lazy)
        return fail(ErrorCode::bad_option, "durability", static_cast<uint64_t>(durability));
    // In a failed store rollbacks may have failed, so a look may show what was never committed.
    DCHECK(engine->log->failed());
    return engine->log->refused();
}

// Sets `error` and returns unsure if the read is refused.
[[gnu::always_inline]] inline BTree::FreeLook look_once(Engine* engine, const BTree* tree,
                                                        Slice key, ValueOut& out,
                                                        Durability durability, Error& error) {
    if (tree == nullptr) [[unlikely]] {
        error = refuse_handle().error();
        return BTree::FreeLook::unsure;
    }
    const Call call(engine);
    const bool inside = static_cast<bool>(call);
    if (!inside || engine->forked() || in_key_function() || key.size() > kKeyBytesMax ||
        durability > Durability::lazy) [[unlikely]] {
        error = refuse_look(engine, inside, key.size(), durability).error();
        return BTree::FreeLook::unsure;
    }
    Lsn seen{};
    const BTree::FreeLook look = tree->look(key, out, seen);
    DCHECK(error.code == ErrorCode::none);
    if (engine->log->failed()) [[unlikely]] {
        error = refuse_look(engine, true, 0, durability).error();
        return BTree::FreeLook::unsure;
    }
    if (durability == Durability::durable && seen > engine->log->durable() &&
        look != BTree::FreeLook::unsure) [[unlikely]] {
        const Result<void> durable = wait_for_seen(*engine, seen);
        if (!durable) error = durable.error();
        return durable ? look : BTree::FreeLook::unsure;
    }
    return look;
}

}  // namespace
}  // namespace sm

Result<bool> Index::get(Slice key, std::string& value, const CallOptions& options) const {
    sm::ValueOut out{.text = &value};
    Error error;
    const auto look = sm::look_once(engine_, tree_, key, out, options.durability, error);
    if (look != sm::BTree::FreeLook::unsure) [[likely]]
        return look == sm::BTree::FreeLook::found;
    if (error.code != ErrorCode::none) return std::unexpected(error);
    return sm::run_once(engine_, tree_, sm::options_of(options, Isolation::serializable, true),
                        [&](Txn& txn) { return get(txn, key, value); });
}

Result<std::optional<size_t>> Index::get(Slice key, std::span<std::byte> buffer,
                                         const CallOptions& options) const {
    sm::ValueOut out{.fixed = buffer.data(), .capacity = buffer.size()};
    Error error;
    const auto look = sm::look_once(engine_, tree_, key, out, options.durability, error);
    if (look == sm::BTree::FreeLook::found) [[likely]]
        return out.bytes;
    if (look == sm::BTree::FreeLook::absent) return std::nullopt;
    if (error.code != ErrorCode::none) return std::unexpected(error);
    return sm::run_once(engine_, tree_, sm::options_of(options, Isolation::serializable, true),
                        [&](Txn& txn) { return get(txn, key, buffer); });
}

Result<size_t> Index::get_many(std::span<Lookup> rows, const CallOptions& options) const {
    return sm::run_once(engine_, tree_, sm::options_of(options, Isolation::serializable, true),
                        [&](Txn& txn) { return get_many(txn, rows); });
}

Result<void> Index::insert(Slice key, Slice value, const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options,
                           [&](Txn& txn) { return insert(txn, key, value); });
}

Result<void> Index::put(Slice key, Slice value, const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options, [&](Txn& txn) { return put(txn, key, value); });
}

Result<bool> Index::erase(Slice key, const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options, [&](Txn& txn) { return erase(txn, key); });
}

Result<size_t> Index::erase_range(Slice low, Slice high, const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options,
                           [&](Txn& txn) { return erase_range(txn, low, high); });
}

Result<bool> Index::modify(Slice key, std::span<std::byte> buffer,
                           FunctionRef<ByteRange(std::span<std::byte>)> change,
                           const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options,
                           [&](Txn& txn) { return modify(txn, key, buffer, change); });
}

Result<std::optional<int64_t>> Index::add(Slice key, size_t offset, int64_t n,
                                          const CallOptions& options) const {
    return sm::change_once(engine_, tree_, options,
                           [&](Txn& txn) { return add(txn, key, offset, n); });
}

Result<size_t> Index::scan_prefix(Slice prefix, FunctionRef<bool(Slice, Slice)> each,
                                  const CallOptions& options) const {
    return scan(prefix, sm::KeyBehind(prefix), each, options);
}

Result<size_t> Index::count(Slice low, Slice high, const CallOptions& options) const {
    return sm::run_once(engine_, tree_, sm::options_of(options, Isolation::snapshot, true),
                        [&](Txn& txn) { return count(txn, low, high); });
}

// Without a lock on the index its pages may become those of another.
Result<RangeSize> Index::approximate_size(Slice low, Slice high) const {
    return sm::run_once(
        engine_, tree_,
        {.isolation = Isolation::read_committed, .durability = Durability::lazy, .read_only = true},
        [&](Txn& txn) {
            DCHECK(txn.live() && engine_->counted_by_thread());
            return sm::perform(
                txn, engine_, tree_, sm::OpKind::scan,
                [&](txn::Transaction& t) -> Result<RangeSize> {
                    const size_t longer = std::max(low.size(), high.size());
                    if (longer > kKeyBytesMax) return sm::key_too_long(longer);
                    TRY(engine_->locks->lock_object(t.locks, tree_->lock(), txn::LockMode::IS));
                    return sm::approximate_size(*tree_, low, high);
                });
        });
}

Result<size_t> Index::scan(Slice low, Slice high, FunctionRef<bool(Slice, Slice)> each,
                           const CallOptions& options) const {
    return sm::run_once(engine_, tree_, sm::options_of(options, Isolation::snapshot, true),
                        [&](Txn& txn) -> Result<size_t> {
                            Cursor cursor = scan(txn, low, high);
                            size_t calls = 0;
                            while (TRY(cursor.next())) {
                                DCHECK(cursor.key() >= low && txn.live());
                                DCHECK(high.empty() || cursor.key() < high);
                                ++calls;
                                if (!each(cursor.key(), cursor.value())) break;
                            }
                            return calls;
                        });
}

}  // namespace lockstep
