// log_rows.cc - payloads of the B-tree's and the heap's page actions, as rows.
#include "sm/changes/log_rows.h"

#include "sm/btree/btree_payload.h"
#include "sm/heap/heap_page.h"
#include "threads/base/try.h"

namespace lockstep::sm {

namespace {

using What = LogRow::What;
using Rows = std::vector<LogRow>;

LogRow& add(Rows& rows, What what, Slice key) {
    DCHECK(key.size() <= kKeyBytesMax);
    LogRow& row = rows.emplace_back();
    row.what = what;
    row.key = key;
    return row;
}

[[gnu::cold]] std::unexpected<Error> unsupported(const txn::LogRecordView& record) {
    return fail(ErrorCode::unsupported, "log record in a change feed", record.lsn.value,
                record.header->kind);
}

void put_row(Slice payload, Rows& rows) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Put>();
    LogRow& row = add(rows, What::insert, in.bytes(p.key_bytes));
    row.large = (p.flags & node::kOverflow) != 0;
    row.value = in.bytes(p.value_bytes);
}
void put_many_rows(Slice payload, Rows& rows) {
    payload::Reader in(payload);
    for (unsigned left = in.get<payload::PutMany>().count; left != 0; --left) {
        const auto head = in.get<payload::RecordHead>();
        LogRow& row = add(rows, What::insert, in.bytes(head.key_bytes));
        row.value = in.bytes(head.value_bytes);
    }
}
void revive_row(Slice payload, Rows& rows) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Revive>();
    LogRow& row = add(rows, What::insert, in.bytes(p.key_bytes));
    in.bytes(p.old_bytes);
    row.large = (p.flags & payload::kNewOverflow) != 0;
    row.value = in.bytes(p.new_bytes);
}
// False: the log lacks bytes that the old and the new value had in common by chance.
bool replace_row(Slice payload, Rows& rows) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Replace>();
    const bool was_large = (p.flags & payload::kOldOverflow) != 0;
    LogRow& row = add(rows, p.flags == 0 ? What::patch : What::update, in.bytes(p.key_bytes));
    row.large = (p.flags & payload::kNewOverflow) != 0;
    row.old = in.bytes(p.old_bytes);
    row.value = in.bytes(p.new_bytes);
    row.has_old = !was_large && (p.flags == 0 || (p.flags & payload::kWhole) != 0);
    row.offset = p.flags == 0 ? p.offset : 0;
    return p.flags == 0 || row.large || (p.flags & payload::kWhole) != 0;
}
void replace_many_rows(Slice payload, Rows& rows) {
    payload::Reader in(payload);
    for (unsigned left = in.get<payload::ReplaceMany>().count; left != 0; --left) {
        const auto head = in.get<payload::ReplaceRow>();
        LogRow& row = add(rows, What::patch, in.bytes(head.key_bytes));
        row.offset = head.offset;
        row.old = in.bytes(head.bytes);
        row.value = in.bytes(head.bytes);
        row.has_old = true;
    }
}

Result<void> btree_rows(const txn::LogRecordView& record, Rows& rows) {
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        switch (part.action) {
            case PageAction::btree_put: put_row(part.payload, rows); break;
            case PageAction::btree_put_many: put_many_rows(part.payload, rows); break;
            case PageAction::btree_revive: revive_row(part.payload, rows); break;
            case PageAction::btree_replace:
                if (!replace_row(part.payload, rows)) return unsupported(record);
                break;
            case PageAction::btree_replace_many: replace_many_rows(part.payload, rows); break;
            case PageAction::btree_set_ghost: {
                payload::Reader in(part.payload);
                const auto p = in.get<payload::SetGhost>();
                DCHECK(p.ghost != 0);  // the other way is a compensation
                add(rows, What::erase, in.bytes(p.key_bytes));
                break;
            }
            case PageAction::btree_set_ghosts: {
                std::string key;
                payload::each_ghost(part.payload, key,
                                    [&](unsigned, Slice whole) { add(rows, What::erase, whole); });
                break;
            }
            default: return unsupported(record);
        }
    }
    return {};
}

// A moved copy stands behind the link to its home.
Slice behind_link(Slice content) {
    CHECK(content.size() >= sizeof(heap::Link));
    return content.substr(sizeof(heap::Link));
}

// All parts of a heap's record change one record.
struct HeapRow {
    LogRow row;

    void set_old(Slice bytes) {
        row.old = bytes;
        row.has_old = true;
    }
    void put(const PartView& part) {
        const auto p = heap::head_of<heap::PutPayload>(part.payload);
        const Slice content = part.payload.substr(sizeof p);
        const bool moved = (p.state & heap::kMoved) != 0;
        row.id = moved ? heap::link_of(content) : RecordId{part.page, SlotNo{p.slot}};
        row.value = moved ? behind_link(content) : content;
    }
    void remove(const PartView& part) {
        const auto p = heap::head_of<heap::RemovePayload>(part.payload);
        const Slice content = part.payload.substr(sizeof p);
        if ((p.state_old & heap::kMoved) != 0) {
            row.id = heap::link_of(content);
            set_old(behind_link(content));
        } else {
            row.id = {part.page, SlotNo{p.slot}};
            if ((p.state_old & heap::kStub) == 0) set_old(content);
        }
    }
    // False: the log does not tell whose copy it is.
    bool replace(const PartView& part) {
        const auto p = heap::head_of<heap::ReplacePayload>(part.payload);
        const Slice fresh = part.payload.substr(sizeof p, p.new_bytes);
        const Slice old = part.payload.substr(sizeof p + p.new_bytes, p.old_bytes);
        const bool was_stub = (p.state_old & heap::kStub) != 0;
        const bool moved = (p.state_new & heap::kMoved) != 0;
        DCHECK(fresh.size() == p.new_bytes && (p.flags & heap::kWithoutOld) == 0);
        if ((p.state_new & heap::kStub) != 0) {  // it moves away, another part has the record
            if (!was_stub) set_old(old);
            return true;
        }
        row.id = {part.page, SlotNo{p.slot}};
        row.value = fresh;
        if (was_stub) return true;  // it comes home
        row.what = What::patch;
        row.offset = p.at - (moved ? static_cast<uint32_t>(sizeof(heap::Link)) : 0);
        set_old(old);
        if (!moved) return true;
        if ((p.flags & heap::kWithHome) == 0) return false;
        row.id = heap::link_of(part.payload.substr(sizeof p + p.new_bytes + p.old_bytes));
        return true;
    }
};

Result<void> heap_row(const txn::LogRecordView& record, What what, Rows& rows) {
    HeapRow of;
    of.row.what = what;
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        switch (part.action) {
            case PageAction::heap_put: of.put(part); break;
            case PageAction::heap_remove: of.remove(part); break;
            case PageAction::heap_replace:
                if (!of.replace(part)) return unsupported(record);
                break;
            default: return unsupported(record);
        }
    }
    if (of.row.id.page == kPageNone) return unsupported(record);
    rows.push_back(std::move(of.row));
    return {};
}

Result<void> rows_of_kind(const txn::LogRecordView& record, Rows& rows) {
    switch (static_cast<LogKind>(record.header->kind)) {
        case LogKind::btree_insert:
        case LogKind::btree_update:
        case LogKind::btree_erase:
        case LogKind::btree_insert_many:
        case LogKind::btree_update_many:
        case LogKind::btree_erase_many: return btree_rows(record, rows);
        case LogKind::heap_insert: return heap_row(record, What::insert, rows);
        case LogKind::heap_update: return heap_row(record, What::update, rows);
        case LogKind::heap_erase: return heap_row(record, What::erase, rows);
        case LogKind::btree_bulk: add(rows, What::fill, {}); return {};
        case LogKind::btree_create:
        case LogKind::heap_create:
        case LogKind::overflow_write: return {};
        default: return unsupported(record);  // RW-1
    }
}

}  // namespace

Result<void> read_rows(const txn::LogRecordView& record, std::vector<LogRow>& rows) {
    DCHECK((record.header->flags & txn::kLogUndoable) != 0);
    rows.clear();
    TRY(rows_of_kind(record, rows));
    for (const LogRow& row : rows) row.assert_state();
    return {};
}

}  // namespace lockstep::sm
