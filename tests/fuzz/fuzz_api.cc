// fuzz_api.cc - any sequence of calls, right and wrong, in any state: each gives a value or an
// error, and the store stays sound.
//
// Input      one call after the other. Four transactions on one user thread, so that they cannot
//            wait for each other (self_deadlock).
#include <array>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/sim_image.h"

namespace lockstep::fuzz {
namespace {

class Caller {
public:
    Caller(Store& store, Input& in) : store_(store), in_(in) {}

    void calls() {
        for (int n = 0; n < 300 && !in_.empty(); ++n) call();
        for (Slot& slot : slots_) slot = {};  // what is live is rolled back
    }

private:
    struct Slot {
        std::optional<Cursor> cursor;  // ends before its transaction
        std::optional<Txn> txn;
        std::optional<Savepoint> point;
        ~Slot() = default;
        Slot() = default;
        Slot& operator=(Slot&& other) {
            cursor.reset();
            txn.reset();
            point.reset();
            (void)other;
            return *this;
        }
    };

    std::string key() {
        return in_.byte() % 16 == 0 ? std::string(in_.get<uint16_t>() % 1100, 'k')
                                    : "k" + std::to_string(in_.byte() % 40);
    }
    std::string value() {
        const uint8_t shape = in_.byte();
        return std::string(shape % 32 == 0 ? in_.get<uint16_t>() : shape,
                           static_cast<char>('a' + shape % 26));
    }
    std::string name() {
        return in_.byte() % 8 ? std::string(1, static_cast<char>('a' + in_.byte() % 4))
                              : in_.bytes(in_.byte());
    }
    Access access() { return static_cast<Access>(in_.byte() % 3); }

    void call() {
        Slot& slot = slots_[in_.byte() % slots_.size()];
        const uint8_t what = in_.byte() % 32;
        if (what == 0 || !slot.txn) return begin(slot);
        Txn& txn = *slot.txn;
        switch (what) {
            case 1:
                slot.cursor.reset();
                use(txn.commit());
                break;
            case 2:
                slot.cursor.reset();
                use(txn.abort());
                break;
            case 3:
                if (auto point = txn.savepoint()) slot.point = *point;
                break;
            case 4: rollback(slot); break;
            case 5: make_index(txn); break;
            case 6:
                if (auto made = store_.create_heap(txn, name())) heap_ = *made;
                break;
            case 7: drop(slot); break;
            case 8:
                if (auto found = store_.index(name())) index_ = *found;
                break;
            case 9: find_heap(txn); break;
            case 10: use(store_.checkpoint()); break;
            case 11: use(store_.wait_durable(Lsn{in_.get<uint16_t>()})); break;
            case 12: scan(slot); break;
            case 13:
            case 14: step(slot); break;
            case 15:
            case 16:
            case 17: heap(txn); break;
            default: index(txn, what); break;
        }
    }
    void begin(Slot& slot) {
        slot = {};
        const uint8_t how = in_.byte();
        auto begun = store_.begin({.isolation = static_cast<Isolation>(how % 3),
                                   .durability = how & 8 ? Durability::durable : Durability::lazy,
                                   .read_only = how % 16 == 5,
                                   .lock_timeout = how & 32 ? kMillisecond : kNever});
        if (begun) slot.txn.emplace(std::move(*begun));
    }
    void rollback(Slot& slot) {
        slot.cursor.reset();
        // Its own, another's, or one that never was.
        const Slot& from = slots_[in_.byte() % slots_.size()];
        Savepoint point{.txn = TxnId{in_.get<uint32_t>()}, .number = in_.byte()};
        if (in_.byte() % 4 && from.point) point = *from.point;
        use(slot.txn->rollback_to(point));
    }
    void drop(Slot& slot) {
        for (Slot& s : slots_) s.cursor.reset();
        use(store_.drop(*slot.txn, name()));
    }
    void make_index(Txn& txn) {
        const std::string wanted = name();
        auto made = store_.create_index(txn, wanted);
        if (!made) made = store_.open_or_create_index(txn, wanted);
        if (made) index_ = *made;
    }
    void find_heap(Txn& txn) {
        const std::string wanted = name();
        auto found = store_.heap(wanted);
        if (!found) found = store_.heap(txn, wanted);
        if (found) heap_ = *found;
    }
    void scan(Slot& slot) {
        slot.cursor.reset();
        const std::string low = key(), high = in_.byte() & 1 ? key() : "";
        slot.cursor.emplace(index_.scan(*slot.txn, low, high, access()));
    }
    void step(Slot& slot) {
        if (!slot.cursor) return;
        for (unsigned n = in_.byte() % 8; n > 0; --n) {
            const auto more = in_.byte() & 1 ? slot.cursor->next() : slot.cursor->prev();
            if (more.has_value() && *more)
                use(std::string(slot.cursor->key()) + std::string(slot.cursor->value()));
        }
    }
    void index(Txn& txn, uint8_t what) {
        const std::string k = key();
        std::string text;
        std::byte buffer[8];
        switch (what % 8) {
            case 0: use(index_.get(txn, k, text, access())); break;
            case 1: use(index_.get(txn, k, std::span(buffer), access())); break;
            case 2: use(index_.insert(txn, k, value())); break;
            case 3: use(index_.update(txn, k, value())); break;
            case 4:
                if (what & 0x80) modify(txn, k);
                else use(index_.patch(txn, k, in_.byte(), value()));
                break;
            case 5: use(index_.erase(txn, k)); break;
            case 6:
                use(store_.bulk_load(txn, index_, [&](Slice& a, Slice& b) {
                    text = key();
                    a = b = text;
                    return in_.byte() % 4 != 0;
                }));
                break;
            default: use(index_.put(txn, k, value())); break;
        }
    }
    // Ranges that lie within the value, or not.
    void modify(Txn& txn, const std::string& first) {
        const std::string keys[] = {first, key(), key(), key()};
        std::byte buffers[4][8];
        Lookup rows[4];
        for (size_t i = 0; i < 4; ++i) {
            rows[i].key = keys[i];
            rows[i].buffer = buffers[i];
        }
        const auto change = [&](size_t, std::span<std::byte> value) -> ByteRange {
            for (std::byte& b : value) b = static_cast<std::byte>(in_.byte());
            const size_t offset = in_.byte() % 9;
            return {offset, in_.byte() % 9u};
        };
        if (in_.byte() & 1) use(index_.modify_many(txn, rows, change));
        else
            use(index_.modify(txn, first, buffers[0],
                              [&](std::span<std::byte> value) { return change(0, value); }));
    }
    void heap(Txn& txn) {
        std::string text;
        const RecordId id = in_.byte() % 8 || ids_.empty()
                                ? (ids_.empty() ? RecordId{} : ids_[in_.byte() % ids_.size()])
                                : RecordId{PageId{in_.byte()}, SlotNo{in_.byte()}};
        switch (in_.byte() % 5) {
            case 0: use(heap_.get(txn, id, text, access())); break;
            case 1: use(heap_.update(txn, id, value())); break;
            case 2: use(heap_.erase(txn, id)); break;
            case 3: use(heap_.scan(txn, [&](RecordId, Slice s) { return s.size() != 3; })); break;
            default:
                if (auto made = heap_.insert(txn, value())) ids_.push_back(*made);
        }
    }

    Store& store_;
    Input& in_;
    std::array<Slot, 4> slots_;
    Index index_;
    Heap heap_;
    std::vector<RecordId> ids_;
};

}  // namespace

int fuzz_api(const uint8_t* data, size_t size) {
    Input in(data, size);
    threads::SimDisk disk;
    FuzzStore store(disk);
    CHECK(store.open());
    for (int round = 0; round < 3 && !in.empty(); ++round) {
        store.on_thread([&] { Caller(*store, in).calls(); });
        auto faults = store->verify();
        CHECK(faults);
        for (const std::string& fault : *faults)
            std::fprintf(stderr, "verify: %s\n", fault.c_str());
        CHECK(faults->empty());
        CHECK(store.close());
        store.options().create = false;
        CHECK(store.open());
    }
    return 0;
}

}  // namespace lockstep::fuzz
