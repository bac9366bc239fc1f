// passthrough.cc - the requests of the FUSE protocol, one after the other.
#include "tools/faultfs/passthrough.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include "threads/base/check.h"

namespace lockstep::faultfs {
namespace {

constexpr size_t kTransferMax = 128 * 1024;
constexpr size_t kRequestMax = kTransferMax + 4096;

fuse_attr attributes_of(const struct stat& s) {
    fuse_attr a{};
    a.ino = s.st_ino;
    a.size = static_cast<uint64_t>(s.st_size);
    a.blocks = static_cast<uint64_t>(s.st_blocks);
    a.mtime = static_cast<uint64_t>(s.st_mtime);
    a.mode = s.st_mode;
    a.nlink = static_cast<uint32_t>(s.st_nlink);
    a.blksize = 4096;
    return a;
}

std::string make_directory() {
    std::string path = (std::filesystem::temp_directory_path() / "lockstep-fuse-XXXXXX").string();
    CHECK(mkdtemp(path.data()) != nullptr);
    return path;
}

}  // namespace

struct Passthrough::Request {
    const fuse_in_header* header;
    const char* body;

    template <class T>
    const T& as() const {
        return *reinterpret_cast<const T*>(body);
    }
    template <class T>
    const char* behind() const {
        return body + sizeof(T);
    }
};

Passthrough::Passthrough() : base_(make_directory()), paths_(2) {
    behind_ = paths_[1] = base_ + "/behind";
    mounted_ = base_ + "/mounted";
    std::filesystem::create_directory(behind_);
    std::filesystem::create_directory(mounted_);
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared_ = new (memory) Shared;
    fd_ = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd_ < 0) {
        why_not_ = std::string("/dev/fuse: ") + std::strerror(errno);
        return;
    }
    const std::string options =
        "fd=" + std::to_string(fd_) + ",rootmode=40755,user_id=0,group_id=0";
    if (mount("lockstep-faultfs", mounted_.c_str(), "fuse", MS_NODEV | MS_NOSUID,
              options.c_str()) != 0) {
        why_not_ = std::string("mount of a FUSE file system: ") + std::strerror(errno);
        return;
    }
    child_ = fork();
    CHECK(child_ >= 0);
    if (child_ == 0) {
        serve();
        _exit(0);
    }
    close(std::exchange(fd_, -1));
}

Passthrough::~Passthrough() {
    unmount();
    if (fd_ >= 0) close(fd_);
    munmap(shared_, sizeof(Shared));
    std::filesystem::remove_all(base_);
}

void Passthrough::unmount() {
    if (child_ <= 0) return;
    umount2(mounted_.c_str(), MNT_DETACH);
    // A namespace that somebody made meanwhile may have the mount too, and keep it.
    kill(child_, SIGKILL);
    waitpid(std::exchange(child_, -1), nullptr, 0);
}

void Passthrough::set_plan(const FaultPlan& plan) {
    for (auto& count : shared_->counts) count.store(0);
    shared_->failed.store(0);
    shared_->plan = plan;
}

void Passthrough::serve() {
    std::vector<char> request(kRequestMax);
    buffer_.resize(kTransferMax);
    for (;;) {
        const ssize_t got = read(fd_, request.data(), request.size());
        if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
        if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // ENODEV: unmounted
        answer({reinterpret_cast<const fuse_in_header*>(request.data()),
                request.data() + sizeof(fuse_in_header)});
    }
}

void Passthrough::reply(const Request& request, int error, const void* data, size_t bytes) {
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof header + bytes);
    header.error = -error;
    header.unique = request.header->unique;
    const iovec pieces[] = {{&header, sizeof header}, {const_cast<void*>(data), bytes}};
    (void)writev(fd_, pieces, bytes > 0 ? 2 : 1);
}

void Passthrough::answer(const Request& request) {
    const std::string& path = paths_[request.header->nodeid];
    const auto done = [&](int result) { reply(request, result < 0 ? errno : 0); };
    switch (request.header->opcode) {
        case FUSE_INIT: return init(request);
        case FUSE_LOOKUP: return reply_entry(request, child_of(request, request.body));
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: return;  // have no answer
        case FUSE_GETATTR: return reply_attributes(request, path);
        case FUSE_OPEN:
        case FUSE_OPENDIR:
        case FUSE_CREATE: return open_file(request);
        case FUSE_READ: return read_file(request);
        case FUSE_WRITE: return write_file(request);
        case FUSE_SETATTR:
        case FUSE_MKDIR: return change(request);
        case FUSE_READDIR: return list(request);
        case FUSE_RENAME:
        case FUSE_RENAME2: return rename_file(request);
        case FUSE_UNLINK:
            if (fails(request, Operation::name)) return;
            return done(unlink(child_of(request, request.body).c_str()));
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
            return done(close(static_cast<int>(request.as<fuse_release_in>().fh)));
        case FUSE_FSYNC:
        case FUSE_FSYNCDIR: return sync_file(request);
        case FUSE_FALLOCATE: {
            const auto& in = request.as<fuse_fallocate_in>();
            if (fails(request, Operation::size)) return;
            return done(fallocate(static_cast<int>(in.fh), static_cast<int>(in.mode),
                                  static_cast<off_t>(in.offset), static_cast<off_t>(in.length)));
        }
        case FUSE_FLUSH:
        case FUSE_ACCESS:
        case FUSE_DESTROY: return reply(request, 0);
        default: return reply(request, ENOSYS);
    }
}

void Passthrough::init(const Request& request) {
    const auto& in = request.as<fuse_init_in>();
    fuse_init_out out{};
    out.major = FUSE_KERNEL_VERSION;
    out.minor = std::min<uint32_t>(in.minor, FUSE_KERNEL_MINOR_VERSION);
    out.max_readahead = in.max_readahead;
    out.flags = in.flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES);
    out.max_background = 64;
    out.congestion_threshold = 48;
    out.max_write = kTransferMax;
    reply(request, 0, &out, sizeof out);
}

std::string Passthrough::child_of(const Request& request, const char* name) const {
    return paths_[request.header->nodeid] + "/" + name;
}

uint64_t Passthrough::node_of(const std::string& path) {
    for (size_t n = 1; n < paths_.size(); ++n)
        if (paths_[n] == path) return n;
    paths_.push_back(path);
    return paths_.size() - 1;
}

// Nothing is cached, so the kernel asks again for everything.
void Passthrough::reply_entry(const Request& request, const std::string& path, int fd) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return reply(request, errno);
    struct {
        fuse_entry_out entry{};
        fuse_open_out open{};
    } out;
    out.entry.nodeid = node_of(path);
    out.entry.attr = attributes_of(status);
    out.open.fh = static_cast<uint64_t>(fd);
    reply(request, 0, &out, fd >= 0 ? sizeof out : sizeof out.entry);
}

void Passthrough::reply_attributes(const Request& request, const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) return reply(request, errno);
    fuse_attr_out out{};
    out.attr = attributes_of(status);
    reply(request, 0, &out, sizeof out);
}

// The kernel has checked the flags; a direct file is direct for the kernel only.
void Passthrough::open_file(const Request& request) {
    const bool create = request.header->opcode == FUSE_CREATE;
    const bool directory = request.header->opcode == FUSE_OPENDIR;
    const std::string path = create ? child_of(request, request.behind<fuse_create_in>())
                                    : paths_[request.header->nodeid];
    if (create && fails(request, Operation::name)) return;
    const int flags = directory ? O_RDONLY | O_DIRECTORY : O_RDWR;
    const int fd = open(path.c_str(), flags | O_CLOEXEC | (create ? O_CREAT : 0), 0644);
    if (fd < 0) return reply(request, errno);
    if (create) return reply_entry(request, path, fd);
    fuse_open_out out{};
    out.fh = static_cast<uint64_t>(fd);
    reply(request, 0, &out, sizeof out);
}

void Passthrough::change(const Request& request) {
    if (request.header->opcode == FUSE_MKDIR) {
        if (fails(request, Operation::name)) return;
        const std::string path = child_of(request, request.behind<fuse_mkdir_in>());
        if (mkdir(path.c_str(), 0755) != 0) return reply(request, errno);
        return reply_entry(request, path);
    }
    const auto& in = request.as<fuse_setattr_in>();
    const std::string& path = paths_[request.header->nodeid];
    if ((in.valid & FATTR_SIZE) && fails(request, Operation::size)) return;
    if ((in.valid & FATTR_SIZE) && truncate(path.c_str(), static_cast<off_t>(in.size)) != 0)
        return reply(request, errno);
    reply_attributes(request, path);
}

// Counts the operation; how it fails.
Fault Passthrough::count_operation(Operation operation) {
    const uint64_t number = shared_->counts[static_cast<size_t>(operation)].fetch_add(1) + 1;
    const FaultPlan& plan = shared_->plan;
    if (plan.fault == Fault::none || plan.operation != operation) return Fault::none;
    if (number != plan.nth && !(plan.lasts && number > plan.nth)) return Fault::none;
    shared_->failed.fetch_add(1);
    return plan.fault;
}

// Of an operation that is done whole or not at all. True: the error has been replied.
bool Passthrough::fails(const Request& request, Operation operation) {
    const Fault fault = count_operation(operation);
    if (fault != Fault::none) reply(request, fault == Fault::no_space ? ENOSPC : EIO);
    return fault != Fault::none;
}

void Passthrough::read_file(const Request& request) {
    const auto& in = request.as<fuse_read_in>();
    size_t bytes = std::min<size_t>(in.size, buffer_.size());
    const Fault fault = count_operation(Operation::read);
    if (fault == Fault::short_transfer) bytes /= 2;
    else if (fault != Fault::none) return reply(request, EIO);
    const ssize_t got =
        pread(static_cast<int>(in.fh), buffer_.data(), bytes, static_cast<off_t>(in.offset));
    if (got < 0) return reply(request, errno);
    reply(request, 0, buffer_.data(), static_cast<size_t>(got));
}

void Passthrough::write_file(const Request& request) {
    const auto& in = request.as<fuse_write_in>();
    const Fault fault = count_operation(Operation::write);
    if (fault == Fault::io_error) return reply(request, EIO);
    if (fault == Fault::no_space) return reply(request, ENOSPC);
    const size_t bytes = fault == Fault::short_transfer ? in.size / 2 : in.size;
    auto put = static_cast<ssize_t>(bytes);
    if (fault == Fault::lost_write) unsynced_.insert(request.header->nodeid);
    else
        put = pwrite(static_cast<int>(in.fh), request.behind<fuse_write_in>(), bytes,
                     static_cast<off_t>(in.offset));
    if (put < 0) return reply(request, errno);
    fuse_write_out out{};
    out.size = static_cast<uint32_t>(put);
    reply(request, 0, &out, sizeof out);
}

void Passthrough::sync_file(const Request& request) {
    if (fails(request, Operation::sync)) return;
    if (unsynced_.erase(request.header->nodeid) > 0) return reply(request, EIO);
    const int result = fsync(static_cast<int>(request.as<fuse_fsync_in>().fh));
    reply(request, result < 0 ? errno : 0);
}

void Passthrough::rename_file(const Request& request) {
    if (fails(request, Operation::name)) return;
    const bool two = request.header->opcode == FUSE_RENAME2;
    const uint64_t to_node =
        two ? request.as<fuse_rename2_in>().newdir : request.as<fuse_rename_in>().newdir;
    const char* name = two ? request.behind<fuse_rename2_in>() : request.behind<fuse_rename_in>();
    const std::string from = child_of(request, name);
    const std::string to = paths_[to_node] + "/" + (name + std::strlen(name) + 1);
    if (rename(from.c_str(), to.c_str()) != 0) return reply(request, errno);
    for (std::string& path : paths_)
        if (path == to) path.clear();  // the file that had the name before
    for (std::string& path : paths_)
        if (path == from) path = to;
    reply(request, 0);
}

// The whole directory is read again for each request; the offset counts its entries.
void Passthrough::list(const Request& request) {
    const auto& in = request.as<fuse_read_in>();
    DIR* dir = opendir(paths_[request.header->nodeid].c_str());
    if (dir == nullptr) return reply(request, errno);
    std::string out;
    uint64_t number = 0;
    while (const dirent* found = readdir(dir)) {
        if (number++ < in.offset) continue;
        fuse_dirent entry{};
        entry.ino = found->d_ino;
        entry.off = number;
        entry.type = found->d_type;
        entry.namelen = static_cast<uint32_t>(std::strlen(found->d_name));
        const size_t bytes = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + entry.namelen);
        if (out.size() + bytes > in.size) break;
        const size_t at = out.size();
        out.resize(at + bytes);
        std::memcpy(out.data() + at, &entry, FUSE_NAME_OFFSET);
        std::memcpy(out.data() + at + FUSE_NAME_OFFSET, found->d_name, entry.namelen);
    }
    closedir(dir);
    reply(request, 0, out.data(), out.size());
}

}  // namespace lockstep::faultfs
