// prepare_record.cc - writing and reading the payloads of prepare records.
#include "txn/prepare_record.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "threads/base/limits.h"

namespace lockstep::txn {

namespace {

template <class T>
void append(std::string& to, const T& value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string payload_of(const PreparePayload& head, Slice gid,
                       std::span<const LockList::OfObject> objects,
                       std::span<const LockList::OfName> names) {
    DCHECK(head.objects == objects.size() && head.names == names.size());
    std::string payload;
    append(payload, head);
    payload.append(gid);
    for (const auto& of : objects)
        append(payload, PreparedObject{of.object.value, static_cast<uint32_t>(of.mode)});
    for (const auto& of : names) append(payload, of.name.value);
    for (const auto& of : names) append(payload, static_cast<uint8_t>(of.mode));
    return payload;
}

constexpr bool is_mode(uint32_t mode) { return mode != 0 && mode < 128; }

}  // namespace

std::vector<std::string> prepare_payloads(const Prepared& prepared) {
    std::span<const LockList::OfObject> objects = prepared.locks.objects;
    std::span<const LockList::OfName> names = prepared.locks.names;
    DCHECK(!prepared.gid.empty() && prepared.gid.size() <= kGidBytesMax);
    std::vector<std::string> payloads;
    for (bool more = true; more;) {
        more =
            objects.size() > limits::prepared_objects() || names.size() > limits::prepared_names();
        const size_t o = std::min<size_t>(objects.size(), limits::prepared_objects());
        const size_t n = std::min<size_t>(names.size(), limits::prepared_names());
        PreparePayload head{};
        head.objects = static_cast<uint32_t>(o);
        head.names = static_cast<uint32_t>(n);
        if (!more) {
            head.time = prepared.time;
            head.undo_bytes = prepared.undo_bytes;
            head.gid_bytes = static_cast<uint32_t>(prepared.gid.size());
        }
        payloads.push_back(payload_of(head, more ? Slice{} : Slice{prepared.gid}, objects.first(o),
                                      names.first(n)));
        objects = objects.subspan(o);
        names = names.subspan(n);
    }
    DCHECK(objects.empty() && names.empty());
    return payloads;
}

Result<void> read_prepare(const LogRecordView& record, Prepared& prepared) {
    const auto damaged = [&] { return fail(ErrorCode::corrupt_log, "prepare", record.lsn.value); };
    PreparePayload head;
    if (record.payload_bytes() < sizeof head) return damaged();
    std::memcpy(&head, record.payload(), sizeof head);
    const uint64_t bytes = sizeof head + head.gid_bytes +
                           uint64_t{head.objects} * sizeof(PreparedObject) +
                           uint64_t{head.names} * (sizeof(uint64_t) + 1);
    const bool last = is_prepare(record);
    if (bytes > record.payload_bytes() || head.gid_bytes > kGidBytesMax ||
        last != (head.gid_bytes != 0))
        return damaged();
    const std::byte* at = record.payload() + sizeof head;
    if (last) {
        prepared.gid.assign(reinterpret_cast<const char*>(at), head.gid_bytes);
        prepared.time = head.time;
        prepared.undo_bytes = head.undo_bytes;
    }
    at += head.gid_bytes;
    for (uint32_t i = 0; i < head.objects; ++i, at += sizeof(PreparedObject)) {
        PreparedObject of;
        std::memcpy(&of, at, sizeof of);
        if (!is_mode(of.mode)) return damaged();
        prepared.locks.objects.push_back({ObjectId{of.object}, static_cast<LockMode>(of.mode)});
    }
    const std::byte* modes = at + head.names * sizeof(uint64_t);
    for (uint32_t i = 0; i < head.names; ++i, at += sizeof(uint64_t)) {
        uint64_t name;
        std::memcpy(&name, at, sizeof name);
        const auto mode = static_cast<uint32_t>(modes[i]);
        if (name == 0 || !is_mode(mode)) return damaged();
        prepared.locks.names.push_back({LockName{name}, static_cast<LockMode>(mode)});
    }
    return {};
}

}  // namespace lockstep::txn
