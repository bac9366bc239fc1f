// sim_disk.cc - names, blocking transfers and crash images of the simulated disk.
#include "threads/io/sim_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "threads/base/check.h"
#include "threads/io/posix_disk.h"
#include "threads/io/sim_queue.h"

namespace lockstep::threads {
namespace {

std::string parent(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// One spelling per path: no trailing and no doubled slashes, and no "." or ".." at the end of a
// longer one.
std::string normal(std::string_view path) {
    std::string out;
    for (const char c : path) {
        if (c != '/' || out.empty() || out.back() != '/') out += c;
    }
    if (out.size() > 1 && out.back() == '/') out.pop_back();
    if (out.ends_with("/.")) return parent(out);
    return out.ends_with("/..") ? parent(parent(out)) : out;
}

std::string prefix_of(const std::string& directory) {
    return directory == "." || directory.empty() ? "" : directory == "/" ? "/" : directory + "/";
}

}  // namespace

SimDisk::SimDisk(SimOptions options)
    : options_(options),
      faults_(options.seed ^ 0xfa),
      schedule_(options.seed ^ 0x5c),
      crash_(options.seed ^ 0xc5) {
    CHECK(options.latency_min <= options.latency_max);
}

SimDisk::~SimDisk() { CHECK(queues_.empty()); }  // queues end before their disk

SimDisk::OpenFile& SimDisk::of(FileId file) {
    CHECK(file.value >= 0 && static_cast<size_t>(file.value) < open_.size());
    OpenFile& open = open_[static_cast<size_t>(file.value)];
    CHECK(open.file != nullptr);  // not closed
    return open;
}

void SimDisk::happened(SimEvent event) {
    {
        std::lock_guard lock(mutex_);
        event.number = ++events_;
        const uint64_t words[] = {event.number, event.kind,  static_cast<uint64_t>(event.io),
                                  event.offset, event.bytes, static_cast<uint64_t>(event.result)};
        event_digest_ = sim_hash(sim_hash(event_digest_, words, sizeof(words)), event.path.data(),
                                 event.path.size());
    }
    if (observer_) observer_(event);
}

// Where it is now.
std::string SimDisk::full(const Place& place) const {
    if (place.name.starts_with('/')) return normal(place.name);
    std::string from = begin_;
    if (place.in != kNoDirectory) {
        CHECK(static_cast<size_t>(place.in.value) < open_directories_.size());
        from = open_directories_[static_cast<size_t>(place.in.value)];
        CHECK(!from.empty());  // not closed
    }
    if (from.empty() || from == ".") return normal(place.name);
    return normal(place.name.empty() ? from : from + "/" + place.name);
}

Result<FileId> SimDisk::open(const Place& place, uint32_t flags) {
    std::unique_lock lock(mutex_);
    const std::string name = full(place);
    const auto found = names_.find(name);
    if (found == names_.end() && is_directory(name)) return fail_file(EISDIR, "open");
    if (found == names_.end() && !(flags & kCreate)) return fail_file(ENOENT, "open");
    if (found != names_.end() && (flags & kExclusive)) return fail_file(EEXIST, "open");
    const bool created = found == names_.end();
    FilePtr file = created ? std::make_shared<SimFile>(name) : found->second;
    if (created) change_names(parent(name), {.gone = "", .name = name, .file = file});
    // Ids are never reused, so a stale one is noticed.
    open_.push_back({file, (flags & kDirect) != 0});
    const FileId id{static_cast<int32_t>(open_.size() - 1)};
    lock.unlock();
    if (created) happened({.kind = SimEvent::renamed, .path = name});
    return id;
}

void SimDisk::close(FileId file) {
    std::lock_guard lock(mutex_);
    OpenFile& open = of(file);
    if (open.file->locked_by == file.value) open.file->locked_by = -1;
    open.file = nullptr;
}

void SimDisk::close_all() {
    std::lock_guard lock(mutex_);
    for (OpenFile& open : open_) {
        if (open.file != nullptr) open.file->locked_by = -1;
        open.file = nullptr;
    }
    for (std::string& directory : open_directories_) directory.clear();
}

Result<uint64_t> SimDisk::size(FileId file) {
    std::lock_guard lock(mutex_);
    return of(file).file->length();
}

bool SimDisk::room_for(const SimFile& file, uint64_t length) const {
    if (length <= file.length() || options_.capacity_bytes == UINT64_MAX) return true;
    uint64_t used = length - file.length();
    for (const auto& [name, other] : names_) used += other->length();
    refusals_ += used > options_.capacity_bytes;
    return used <= options_.capacity_bytes;
}

uint64_t SimDisk::bytes_used() const {
    std::lock_guard lock(mutex_);
    uint64_t used = 0;
    for (const auto& [name, file] : names_) used += file->length();
    return used;
}

Result<void> SimDisk::resize(FileId file, uint64_t bytes) {
    std::unique_lock lock(mutex_);
    const FilePtr target = of(file).file;
    if (!room_for(*target, bytes)) return fail_file(ENOSPC, "resize", bytes);
    target->set_length(bytes);
    lock.unlock();
    happened({.kind = SimEvent::renamed, .path = target->path, .bytes = bytes});
    return {};
}

Result<void> SimDisk::allocate(FileId file, uint64_t bytes) {
    {
        std::lock_guard lock(mutex_);
        const FilePtr target = of(file).file;
        if (bytes <= target->length()) return {};
        if (faults_.strikes(SimFault::no_space_allocate, target->path))
            return fail_file(ENOSPC, "allocate", bytes);
    }
    return resize(file, bytes);
}

Result<void> SimDisk::truncate(FileId file, uint64_t bytes) { return resize(file, bytes); }

void SimDisk::apply(Names& names, const NameChange& change) {
    if (!change.gone.empty()) names.erase(change.gone);
    if (!change.name.empty()) names[change.name] = change.file;
}

void SimDisk::change_names(const std::string& directory, NameChange change) {
    DCHECK(!directory.empty() && change.name.empty() == (change.file == nullptr));
    DCHECK(!change.name.empty() || !change.gone.empty());
    apply(names_, change);
    unsynced_names_[directory].push_back(std::move(change));
}

// A rename within one directory is atomic. This disk refuses one between directories, as a real one
// does between file systems.
Result<void> SimDisk::rename(const Place& from, const Place& to) {
    std::string new_name;
    {
        std::lock_guard lock(mutex_);
        const std::string old_name = full(from);
        new_name = full(to);
        const auto found = names_.find(old_name);
        if (found == names_.end()) return fail_file(ENOENT, "rename");
        if (parent(old_name) != parent(new_name)) return fail_file(EXDEV, "rename");
        if (old_name == new_name) return {};
        if (faults_.strikes(SimFault::rename_error, new_name)) return fail_file(EIO, "rename");
        const FilePtr file = found->second;
        file->path = new_name;
        change_names(parent(new_name), {.gone = old_name, .name = new_name, .file = file});
    }
    happened({.kind = SimEvent::renamed, .path = new_name});
    return {};
}

Result<void> SimDisk::unlink(const Place& place) {
    std::string name;
    {
        std::lock_guard lock(mutex_);
        name = full(place);
        if (!names_.contains(name)) return fail_file(ENOENT, "unlink");
        if (faults_.strikes(SimFault::unlink_error, name)) return fail_file(EIO, "unlink");
        change_names(parent(name), {.gone = name, .name = "", .file = nullptr});
    }
    happened({.kind = SimEvent::renamed, .path = name});
    return {};
}

Result<void> SimDisk::make_directory(const Place& place) {
    std::lock_guard lock(mutex_);
    const std::string name = full(place);
    if (names_.contains(name)) return fail_file(ENOTDIR, "make directory");
    directories_.insert(name);
    return {};
}

Result<DirectoryId> SimDisk::open_directory(const Place& directory) {
    std::lock_guard lock(mutex_);
    const std::string name = full(directory);
    if (names_.contains(name)) return fail_file(ENOTDIR, "open directory");
    if (!is_directory(name)) return fail_file(ENOENT, "open directory");
    open_directories_.push_back(name);
    return DirectoryId{static_cast<int32_t>(open_directories_.size() - 1)};
}

void SimDisk::close_directory(DirectoryId directory) {
    std::lock_guard lock(mutex_);
    DCHECK(directory != kNoDirectory);
    CHECK(static_cast<size_t>(directory.value) < open_directories_.size());
    open_directories_[static_cast<size_t>(directory.value)].clear();
}

std::string SimDisk::path_of(DirectoryId directory) {
    std::lock_guard lock(mutex_);
    return full({directory, "."});
}

void SimDisk::change_directory(std::string_view path) {
    std::lock_guard lock(mutex_);
    begin_ = full(path);
    DCHECK(is_directory(begin_));
}

void SimDisk::move_directory(std::string_view from, std::string_view to) {
    {
        std::lock_guard lock(mutex_);
        const std::string old_name = full(from), new_name = full(to);
        CHECK(is_directory(old_name) && !is_directory(new_name) && !names_.contains(new_name));
        const auto move = [&](std::string& path) {
            if (path == old_name || path.starts_with(prefix_of(old_name)))
                path.replace(0, old_name.size(), new_name);
        };
        const auto move_names = [&](Names& names) {
            Names moved;
            for (const auto& [name, file] : names) {
                std::string path = name;
                move(path);
                moved.emplace(std::move(path), file);
            }
            names = std::move(moved);
        };
        move_names(names_);
        move_names(durable_names_);
        std::map<std::string, std::vector<NameChange>> unsynced;
        for (auto& [name, changes] : unsynced_names_) {
            std::string path = name;
            move(path);
            for (NameChange& change : changes) {
                move(change.gone);
                move(change.name);
            }
            unsynced.emplace(std::move(path), std::move(changes));
        }
        unsynced_names_ = std::move(unsynced);
        std::set<std::string> directories;
        for (std::string path : directories_) {
            move(path);
            directories.insert(std::move(path));
        }
        directories_ = std::move(directories);
        for (std::string& path : open_directories_) move(path);
        for (const auto& [name, file] : names_) file->path = name;
    }
    happened({.kind = SimEvent::renamed, .path = to});
}

bool SimDisk::is_directory(const std::string& path) const {
    if (directories_.contains(path) || path == "." || path == "/") return true;
    const std::string prefix = prefix_of(path);
    const auto below = directories_.lower_bound(prefix);
    if (below != directories_.end() && below->starts_with(prefix)) return true;
    const auto first = names_.lower_bound(prefix);
    return first != names_.end() && first->first.starts_with(prefix);
}

Result<std::vector<std::string>> SimDisk::list(const Place& directory) {
    std::lock_guard lock(mutex_);
    const std::string name = full(directory);
    if (names_.contains(name)) return fail_file(ENOTDIR, "list directory");
    if (!is_directory(name)) return fail_file(ENOENT, "list directory");
    const std::string prefix = prefix_of(name);
    std::set<std::string> found;
    const auto add = [&](const std::string& path) {
        if (path.size() <= prefix.size() || !path.starts_with(prefix)) return;
        found.insert(path.substr(prefix.size(), path.find('/', prefix.size()) - prefix.size()));
    };
    for (const auto& [path, file] : names_) add(path);
    for (const std::string& path : directories_) add(path);
    return std::vector<std::string>(found.begin(), found.end());
}

bool SimDisk::exists(const Place& place) {
    std::lock_guard lock(mutex_);
    const std::string name = full(place);
    return names_.contains(name) || is_directory(name);
}

Result<void> SimDisk::sync_directory(const Place& directory) {
    std::string name;
    {
        std::lock_guard lock(mutex_);
        name = directory.name.empty() ? "." : full(directory);
        if (!is_directory(name)) return fail_file(ENOENT, "sync directory");
        if (faults_.strikes(SimFault::sync_error, name))
            return fail_os(ErrorCode::io_error, EIO, "sync directory");
        for (const NameChange& change : unsynced_names_[name]) apply(durable_names_, change);
        unsynced_names_.erase(name);
    }
    happened({.kind = SimEvent::renamed, .io = IoKind::sync, .path = name});
    return {};
}

Result<void> SimDisk::lock_exclusive(FileId file) {
    std::lock_guard lock(mutex_);
    int32_t& holder = of(file).file->locked_by;
    if (holder >= 0 && holder != file.value) return fail(ErrorCode::store_locked, "lock file");
    holder = file.value;
    return {};
}

Result<size_t> SimDisk::read_now(FileId file, uint64_t offset, void* data, size_t bytes) {
    std::unique_lock lock(mutex_);
    const FilePtr target = of(file).file;
    bool bad = faults_.strikes(SimFault::read_error, target->path) ||
               target->has_bad_sector(offset, bytes);
    if (faults_.strikes(SimFault::read_error_forever, target->path)) {
        target->spoil_sector(offset);
        bad = true;
    }
    if (bad) return fail_file(EIO, "read", offset, bytes);
    const size_t got = target->read(offset, static_cast<std::byte*>(data), bytes);
    DCHECK(got <= bytes && (got == 0 || offset + got <= target->length()));
    if (got > 0 && target->is_written(offset, got) &&
        faults_.strikes(SimFault::torn_read, target->path))
        target->tear(offset, static_cast<std::byte*>(data), got, faults_.shape());
    if (got > 0 && faults_.strikes(SimFault::bit_flip, target->path)) {
        static_cast<std::byte*>(data)[faults_.shape().below(got)] ^= std::byte{1}
                                                                     << faults_.shape().below(8);
    }
    lock.unlock();
    happened({.kind = SimEvent::completed,
              .io = IoKind::read,
              .path = target->path,
              .offset = offset,
              .bytes = bytes,
              .result = static_cast<int64_t>(got)});
    return got;
}

// ENOSPC if the disk is full or a fault demands it; EIO if a fault demands it.
int SimDisk::write_fault(SimFile& file, uint64_t end) {
    if (!room_for(file, end) || faults_.strikes(SimFault::no_space_write, file.path)) return ENOSPC;
    return faults_.strikes(SimFault::write_error, file.path) ? EIO : 0;
}

Result<void> SimDisk::write_now(FileId file, uint64_t offset, const void* data, size_t bytes) {
    std::unique_lock lock(mutex_);
    const OpenFile open = of(file);
    if (open.direct && (offset | bytes) % kSectorBytes != 0) {
        return fail(ErrorCode::bad_argument, "write to a direct file", offset, bytes);
    }
    if (const int err = write_fault(*open.file, offset + bytes); err != 0)
        return fail_file(err, "write", offset, bytes);
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes]);
    if (bytes != 0) std::memcpy(copy.get(), data, bytes);
    open.file->end_write(open.file->begin_write(offset, std::move(copy), bytes), bytes, offset);
    lock.unlock();
    happened({.kind = SimEvent::completed,
              .io = IoKind::write,
              .path = open.file->path,
              .offset = offset,
              .bytes = bytes,
              .result = static_cast<int64_t>(bytes)});
    return {};
}

Result<void> SimDisk::sync_now(FileId file) {
    std::unique_lock lock(mutex_);
    const FilePtr target = of(file).file;
    if (faults_.strikes(SimFault::sync_error, target->path)) {
        target->sync_failed(target->sync_point());
        return fail_file(EIO, "sync");
    }
    target->synced(target->sync_point(), crash_);
    lock.unlock();
    happened({.kind = SimEvent::completed, .io = IoKind::sync, .path = target->path});
    return {};
}

Result<std::unique_ptr<IoQueue>> SimDisk::make_queue(uint32_t, const Clock& clock) {
    auto queue = std::make_unique<SimQueue>(*this, clock);
    std::lock_guard lock(mutex_);
    DCHECK(std::find(queues_.begin(), queues_.end(), queue.get()) == queues_.end());
    queues_.push_back(queue.get());
    return queue;
}

Nanos SimDisk::next_event_time() const {
    std::lock_guard lock(mutex_);
    Nanos earliest = kNever;
    for (const SimQueue* queue : queues_) earliest = std::min(earliest, queue->next_due());
    return earliest != kNever && options_.polls_max > 0 ? 0 : earliest;
}

bool SimDisk::advance(ManualClock& clock) const {
    const Nanos next = next_event_time();
    if (next == kNever) return false;
    if (next > clock.now()) clock.advance(next - clock.now());
    return true;
}

// A directory loses a tail of its unsynced changes. File systems keep the order of name changes,
// but not all of them.
std::unique_ptr<SimDisk> SimDisk::image(uint64_t seed, SimCrash mode) const {
    SimOptions options = options_;
    options.seed = seed;
    auto image = std::make_unique<SimDisk>(options);
    Rng rng(seed ^ 0x1ac3);
    std::lock_guard lock(mutex_);
    Names names = durable_names_;
    for (const auto& [directory, changes] : unsynced_names_) {
        const uint64_t kept = mode == SimCrash::drop_unsynced ? 0
                              : mode == SimCrash::keep_all    ? changes.size()
                                                              : rng.below(changes.size() + 1);
        for (uint64_t i = 0; i < kept; ++i) apply(names, changes[i]);
    }
    for (const auto& [name, file] : names) {
        FilePtr copy = file->after_crash(rng, mode);
        copy->path = name;
        image->names_[name] = std::move(copy);
    }
    image->durable_names_ = image->names_;
    image->directories_ = directories_;
    return image;
}

std::vector<SimDisk::LostBytes> SimDisk::lost_bytes(std::string_view path) const {
    std::lock_guard lock(mutex_);
    std::vector<LostBytes> lost;
    if (const auto found = names_.find(normal(path)); found != names_.end())
        for (const SimFile::Lost& l : found->second->lost())
            lost.push_back({l.offset, l.bytes, l.data});
    return lost;
}

void SimDisk::spoil_sector(std::string_view path, uint64_t offset) {
    std::lock_guard lock(mutex_);
    if (const auto found = names_.find(normal(path)); found != names_.end())
        found->second->spoil_sector(offset);
}

void SimDisk::mend_sectors() {
    std::lock_guard lock(mutex_);
    for (const auto& [name, file] : names_) file->mend_sectors();
}

uint64_t SimDisk::digest() const {
    std::lock_guard lock(mutex_);
    uint64_t hash = 0;
    for (const auto& [name, file] : names_)
        hash = file->digest(sim_hash(hash, name.data(), name.size()));
    return hash;
}

uint64_t SimDisk::pages_in_memory() const {
    std::lock_guard lock(mutex_);
    uint64_t pages = 0;
    for (const auto& [name, file] : names_) pages += file->pages();
    return pages;
}

}  // namespace lockstep::threads
