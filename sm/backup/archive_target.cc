// archive_target.cc - see archive_target.h.
#include "sm/backup/archive_target.h"

#include <algorithm>
#include <utility>

#include "threads/base/check.h"
#include "threads/base/mutants.h"
#include "threads/io/aligned_buffer.h"
#include "threads/thread/between_calls.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

using threads::Disk;

Result<Lsn> DirectoryArchive::look(const Superblock& store) {
    TRY(disk_.make_directory(directory_));
    // A run that was killed may not have synced the last name, and log is recycled by what is here.
    if (sync_ && !MUTANT(archive_names_unsynced)) TRY(disk_.sync_directory(directory_));
    const std::vector<std::string> names = TRY(disk_.list(directory_));
    if (std::ranges::find(names, kArchiveName) == names.end()) {
        const auto block = std::make_unique<ArchiveBlock>();
        encode_archive(archive_header(store, ArchiveKind::store), {}, *block);
        TRY(begin(kArchiveName));
        TRY(finish(*block));
    } else if (!TRY(read_archive_file(disk_, directory_, kArchiveName)).header.of(store)) {
        return bad_archive("option archive",
                           directory_ + " has the log of another store: name another directory");
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
    // What a crash has left of it would be longer.
    if (disk_.exists(directory_ + "/" + name + ".new"))
        TRY(disk_.unlink(directory_ + "/" + name + ".new"));
    file_ = TRY(disk_.open(directory_ + "/" + name + ".new", Disk::kCreate | Disk::kDirect));
    name_ = name;
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
    if (sync_ && !MUTANT(archive_unsynced)) TRY(threads::io_sync(file_, "file of the archive"));
    disk_.close(std::exchange(file_, threads::FileId{-1}));
    const std::string whole = path();
    name_.clear();
    TRY(disk_.rename(whole + ".new", whole));
    return disk_.sync_directory(directory_);
}

void DirectoryArchive::give_up() {
    if (file_.value < 0) return;
    disk_.close(std::exchange(file_, threads::FileId{-1}));
    (void)disk_.unlink(path() + ".new");
    name_.clear();
}

Result<void> SinkArchive::write(uint64_t offset, Slice bytes) {
    const threads::InCallback inside;
    DCHECK(!name_.empty());
    return sink_(name_, offset, bytes);
}

}  // namespace lockstep::sm
