// backup_target.cc - see backup_target.h.
#include "sm/backup/backup_target.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/thread/between_calls.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace {

constexpr uint32_t kNew = threads::Disk::kCreate | threads::Disk::kExclusive;

// Says where the backup is: the error of a file or a request has no path.
[[gnu::cold]] std::unexpected<Error> refused_in(const threads::Directory& directory, Error error) {
    DCHECK(error.code != ErrorCode::none);
    const bool full = error.code == ErrorCode::no_space;
    set_error_detail(error,
                     directory.path() + (full ? ": free some space on the device of this directory"
                                              : ": the device of this directory refuses"));
    return std::unexpected(error);
}

}  // namespace

bool lies_within(std::string_view inner, std::string_view outer) {
    std::error_code error;
    const auto whole = [&](std::string_view path) {
        auto found =
            std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
        return found.has_filename() ? found : found.parent_path();
    };
    const auto a = whole(inner), b = whole(outer);
    return !error && std::mismatch(a.begin(), a.end(), b.begin(), b.end()).second == b.end();
}

DirectoryTarget::~DirectoryTarget() {
    for (const Slot& slot : slots_) CHECK(!slot.busy);  // IO-1: the memory goes
    close_files();
}

Result<void> DirectoryTarget::begin() {
    DCHECK(files_.empty());
    if (path().empty()) return fail(ErrorCode::bad_path, "backup: empty path");
    if (!directory_.is_open()) {
        TRY(disk_.make_directory(directory_.here()));
        directory_ = TRY(threads::Directory::open(disk_, directory_.here()));
    }
    if (!TRY(disk_.list(directory_.here())).empty()) {
        const bool unfinished = TRY(is_unfinished(disk_, directory_));
        return fail_with(
            ErrorCode::bad_path, "backup: the directory is not empty",
            path() + "; name a new or an empty one" +
                (unfinished ? ", or delete the unfinished or damaged backup in it" : ""));
    }
    TRY(file(kManifestName));
    TRY(disk_.sync_directory(directory_.here()));
    TRY(disk_.sync_directory(directory_ / ".."));
    for (Slot& slot : slots_)
        slot.memory = TRY(threads::make_aligned_buffer(kRoomBytes, threads::PageSize::huge));
    return {};
}

Result<threads::FileId> DirectoryTarget::file(std::string_view name) {
    DCHECK(!name.empty() && name.find('/') == std::string_view::npos);
    const auto known = std::ranges::find(files_, name, &File::name);
    if (known != files_.end()) return known->id;
    const threads::FileId id = TRY(disk_.open(directory_ / name, kNew | threads::Disk::kDirect));
    files_.push_back({std::string(name), id});
    assert_state();
    return id;
}

// Fails before anything is copied if the device is too small.
Result<void> DirectoryTarget::reserve(std::string_view name, uint64_t bytes) {
    DCHECK(bytes % threads::kIoAlignment == 0 && !files_.empty());
    const Result<void> reserved = disk_.allocate(TRY(file(name)), bytes);
    if (!reserved) return refused_in(directory_, reserved.error());
    return {};
}

Result<void> DirectoryTarget::wait(Slot& slot) {
    if (!std::exchange(slot.busy, false)) return {};
    DCHECK(slot.memory != nullptr);
    threads::io_wait(slot.request, threads::ParkReason::io);
    if (slot.request.result >= 0) return {};
    const auto failed = threads::fail_request(slot.request, "write of backup", slot.request.offset);
    return refused_in(directory_, failed.error());
}

Result<void> DirectoryTarget::wait_all() {
    Result<void> all;
    for (Slot& slot : slots_)
        if (const Result<void> done = wait(slot); !done) all = done;
    return all;
}

Result<std::byte*> DirectoryTarget::room() {
    assert_state();
    TRY(wait(slots_[next_]));
    DCHECK(!slots_[next_].busy && slots_[next_].memory != nullptr);
    return slots_[next_].memory.get();
}

Result<void> DirectoryTarget::write(std::string_view name, uint64_t offset, Slice bytes) {
    DCHECK(offset % threads::kIoAlignment == 0 && bytes.size() % threads::kIoAlignment == 0);
    const threads::FileId id = TRY(file(name));
    while (!bytes.empty()) {
        Slot& slot = slots_[next_];
        next_ = (next_ + 1) % kSlots;
        TRY(wait(slot));
        const size_t piece = std::min<size_t>(bytes.size(), kRoomBytes);
        DCHECK(!slot.busy && slot.memory != nullptr);
        if (bytes.data() != reinterpret_cast<const char*>(slot.memory.get()))
            std::memcpy(slot.memory.get(), bytes.data(), piece);
        slot.request = {};
        slot.request.kind = threads::IoKind::write;
        slot.request.io_class = threads::IoClass::write_back;
        slot.request.file = id;
        slot.request.offset = offset;
        slot.request.iov[0] = {slot.memory.get(), piece};
        slot.request.iov_count = 1;
        slot.busy = true;
        threads::io_start(slot.request);
        offset += piece;
        bytes.remove_prefix(piece);
    }
    return {};
}

// BM-1.
Result<void> DirectoryTarget::finish(const ManifestBlock& manifest) {
    assert_state();
    TRY(wait_all());
    for (const File& of : files_)
        if (of.name != kManifestName) TRY(threads::io_sync(of.id, "file of backup"));
    TRY(disk_.sync_directory(directory_.here()));
    TRY(write(kManifestName, 0,
              {reinterpret_cast<const char*>(manifest.bytes), sizeof manifest.bytes}));
    TRY(wait_all());
    TRY(threads::io_sync(TRY(file(kManifestName)), "file backup"));
    close_files();
    return {};
}

void DirectoryTarget::close_files() {
    for (const File& of : files_) disk_.close(of.id);
    files_.clear();
}

// The manifest goes last, so the rest is never taken for a store.
void DirectoryTarget::give_up() {
    (void)wait_all();
    std::vector<std::string> names;
    names.reserve(files_.size());
    for (const File& of : files_) names.push_back(of.name);
    close_files();
    for (size_t i = names.size(); i-- > 0;) (void)disk_.unlink(directory_ / names[i]);
}

Result<void> SinkTarget::begin() {
    room_ = TRY(threads::make_aligned_buffer(kRoomBytes, threads::PageSize::huge));
    return call(kManifestName, 0, {});
}

Result<void> SinkTarget::call(std::string_view file, uint64_t offset, Slice bytes) {
    const threads::InCallback inside;
    return sink_(file, offset, bytes);
}

Result<void> SinkTarget::finish(const ManifestBlock& manifest) {
    return call(kManifestName, 0,
                {reinterpret_cast<const char*>(manifest.bytes), sizeof manifest.bytes});
}

}  // namespace lockstep::sm
