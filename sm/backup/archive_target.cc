// archive_target.cc - see archive_target.h.
#include "sm/backup/archive_target.h"

#include <algorithm>
#include <utility>

#include "threads/base/check.h"
#include "threads/io/aligned_buffer.h"
#include "threads/thread/between_calls.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

using threads::Directory, threads::Disk, threads::Place;

ArchivePlace::ArchivePlace(Disk& disk, std::string path)
    : disk_(disk),
      path_(std::move(path)),
      begin_(path_.starts_with('/') ? Directory() : Directory::opened(disk, ".")) {
    DCHECK(!path_.empty());
}

Place ArchivePlace::place() const { return begin_.is_open() ? begin_ / path_ : Place(path_); }

Result<Directory> ArchivePlace::open() {
    {
        const SpinGuard guard(lock_);
        if (directory_.is_open()) return directory_;
    }
    const Directory found = TRY(Directory::open(disk_, place()));
    const SpinGuard guard(lock_);
    if (!directory_.is_open()) directory_ = found;
    return directory_;
}

Result<Directory> ArchivePlace::make() {
    if (const auto known = open()) return known;
    TRY(disk_.make_directory(place()));
    return open();
}

void ArchivePlace::look_again() {
    const auto known = open();
    if (!known || disk_.exists(*known / kArchiveName)) return;
    const SpinGuard guard(lock_);
    if (directory_.id() == known->id()) directory_ = {};
}

Result<Lsn> DirectoryArchive::look(const Superblock& store) {
    directory_ = TRY(place_.make());
    store_ = store;
    // A run that was killed may not have synced the last name, and log is recycled by what is here.
    if (sync_) TRY(disk_.sync_directory(directory_.here()));
    const std::vector<std::string> names = TRY(disk_.list(directory_.here()));
    if (std::ranges::find(names, kArchiveName) == names.end()) {
        const auto block = std::make_unique<ArchiveBlock>();
        encode_archive(archive_header(store, ArchiveKind::store), {}, *block);
        TRY(begin(kArchiveName));
        TRY(finish(*block));
    } else if (!TRY(read_archive_file(disk_, directory_, kArchiveName)).header.of(store)) {
        return bad_archive(
            "option archive",
            directory_.path() + " has the log of another store: name another directory");
    }
    DCHECK(file_.value < 0);
    uint64_t end = 0;
    for (const std::string& name : names)
        if (const auto piece = PieceName::parse(name); piece && piece->history == store.history)
            end = std::max(end, piece->end);
    return Lsn{end};
}

Result<void> DirectoryArchive::begin(const std::string& name) {
    give_up();
    DCHECK(!name.empty() && name.find('/') == std::string::npos);
    const Directory now = TRY(place_.open());
    // Another directory than the one that look() has seen.
    if (store_ && now.id() != directory_.id()) (void)TRY(look(*store_));
    DCHECK(now.is_open() && file_.value < 0);
    directory_ = now;
    name_ = name;
    // What a crash has left of it would be longer.
    Result<void> free;
    if (disk_.exists(directory_ / new_name())) free = disk_.unlink(directory_ / new_name());
    auto file = free ? disk_.open(directory_ / new_name(), Disk::kCreate | Disk::kDirect)
                     : Result<threads::FileId>(std::unexpected(free.error()));
    if (!file) {
        name_.clear();
        place_.look_again();
        return std::unexpected(file.error());
    }
    file_ = *file;
    assert_state();
    return {};
}

Result<void> DirectoryArchive::write(uint64_t offset, Slice bytes) {
    assert_state();
    DCHECK(offset % threads::kIoAlignment == 0 && bytes.size() % threads::kIoAlignment == 0);
    return threads::io_write(file_, offset, bytes.data(), bytes.size(),
                             threads::IoClass::write_back, "file of the archive");
}

Result<void> DirectoryArchive::finish(const ArchiveBlock& first) {
    assert_state();
    DCHECK(file_.value >= 0);
    TRY(write(0, first.slice()));
    if (sync_) TRY(threads::io_sync(file_, "file of the archive"));
    DCHECK(directory_.is_open() && !name_.empty());
    disk_.close(std::exchange(file_, threads::FileId{-1}));
    const std::string name = std::exchange(name_, {});
    TRY(disk_.rename(directory_ / (name + ".new"), directory_ / name));
    return disk_.sync_directory(directory_.here());
}

void DirectoryArchive::give_up() {
    if (file_.value < 0) return;
    disk_.close(std::exchange(file_, threads::FileId{-1}));
    (void)disk_.unlink(directory_ / new_name());
    name_.clear();
}

Result<void> SinkArchive::write(uint64_t offset, Slice bytes) {
    const threads::InCallback inside;
    DCHECK(!name_.empty());
    return sink_(name_, offset, bytes);
}

}  // namespace lockstep::sm
