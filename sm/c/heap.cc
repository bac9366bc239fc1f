// heap.cc - the C interface of heaps.
#include <lockstep/c/heap.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

constexpr size_t kScanBytes = 1 << 16;  // of records that one call back takes

template <class Body>
int on_heap(lockstep_txn* txn, lockstep_heap* heap, lockstep_error* error, Body body) {
    return in_txn(txn, error, [&](TxnObject& t) -> Result<void> {
        return body(*t.txn, TRY(heap_of(*t.store, heap)));
    });
}

using Each = bool (*)(void*, lockstep_record_id, lockstep_slice);

// Gives records of a scan to the caller. In the session form one call back takes many.
class ScanTarget {
public:
    ScanTarget(TxnObject& txn, Each each, void* arg) : txn_(txn), each_(each), arg_(arg) {}

    bool give(RecordId id, Slice record) {
        if (txn_.caller == nullptr) return each_(arg_, to_c(id), to_c(record));
        bytes_.append(record);
        rows_.push_back({to_c(id), bytes_.size()});
        if (bytes_.size() >= kScanBytes || rows_.size() >= kScanBytes / 16) flush();
        return more_;
    }
    void flush() {
        if (rows_.empty() || !more_) return;
        txn_.call_back([this] {
            size_t begin = 0;
            for (const Row& row : rows_) {
                more_ = each_(arg_, row.id, {bytes_.data() + begin, row.end - begin});
                begin = row.end;
                if (!more_) break;
            }
        });
        rows_.clear();
        bytes_.clear();
    }

private:
    struct Row {
        lockstep_record_id id;
        size_t end;  // in bytes_
    };
    TxnObject& txn_;
    const Each each_;
    void* const arg_;
    bool more_ = true;
    std::string bytes_;
    std::vector<Row> rows_;
};

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Heap;
using lockstep::Result;
using lockstep::Txn;

int lockstep_heap_insert(lockstep_txn* txn, lockstep_heap* heap, lockstep_slice record,
                         lockstep_record_id* id, lockstep_error* error) {
    return c::on_heap(txn, heap, error, [&](Txn& t, const Heap& h) -> Result<void> {
        LOCKSTEP_NOT_NULL(id);
        LOCKSTEP_SOUND(record);
        *id = c::to_c(TRY(h.insert(t, c::slice_of(record))));
        return {};
    });
}

int lockstep_heap_get(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id, int access,
                      void* buffer, size_t room, size_t* bytes, bool* found,
                      lockstep_error* error) {
    return c::on_heap(txn, heap, error, [&](Txn& t, const Heap& h) -> Result<void> {
        std::string record;
        const bool there =
            TRY(h.get(t, TRY(c::record_id_of(id)), record, TRY(c::access_of(access))));
        TRY(c::copy_text(record, static_cast<char*>(buffer), room, bytes));
        c::set(found, there);
        return {};
    });
}

int lockstep_heap_update(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id,
                         lockstep_slice record, bool* found, lockstep_error* error) {
    return c::on_heap(txn, heap, error, [&](Txn& t, const Heap& h) -> Result<void> {
        LOCKSTEP_SOUND(record);
        c::set(found, TRY(h.update(t, TRY(c::record_id_of(id)), c::slice_of(record))));
        return {};
    });
}

int lockstep_heap_erase(lockstep_txn* txn, lockstep_heap* heap, lockstep_record_id id, bool* found,
                        lockstep_error* error) {
    return c::on_heap(txn, heap, error, [&](Txn& t, const Heap& h) -> Result<void> {
        c::set(found, TRY(h.erase(t, TRY(c::record_id_of(id)))));
        return {};
    });
}

int lockstep_heap_scan(lockstep_txn* txn, lockstep_heap* heap,
                       bool (*each)(void* arg, lockstep_record_id id, lockstep_slice record),
                       void* arg, lockstep_error* error) {
    return c::in_txn(txn, error, [&](c::TxnObject& t) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        const Heap h = TRY(c::heap_of(*t.store, heap));
        c::ScanTarget target(t, each, arg);
        TRY(h.scan(*t.txn, [&](lockstep::RecordId id, lockstep::Slice record) {
            return target.give(id, record);
        }));
        target.flush();
        return {};
    });
}

uint32_t lockstep_heap_id(lockstep_heap* heap) {
    const c::HandleEntry* const entry = c::entry_of(heap, c::Kind::heap);
    if (entry == nullptr) return 0;
    const uint64_t id = entry->link.load(std::memory_order_acquire);
    return entry->is(c::number_of(heap)) ? static_cast<uint32_t>(id) : 0;
}
