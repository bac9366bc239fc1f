// local_socket.cc - makes, finds and removes sockets in a directory.
#include "threads/io/local_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep::threads {
namespace {

// Owned until it is taken.
class Descriptor {
public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) close(fd_);
    }
    int get() const { return fd_; }
    int take() { return std::exchange(fd_, -1); }
    bool valid() const { return fd_ >= 0; }

private:
    int fd_;
};

// `directory`: its descriptor. `path`: if there is no /proc.
sockaddr_un address_of(int directory, const std::string& path, const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string text = "/proc/self/fd/" + std::to_string(directory);
    if (access(text.c_str(), F_OK) != 0 && path.size() + 1 + name.size() < sizeof address.sun_path)
        text = path;
    text += "/" + name;
    CHECK(text.size() < sizeof address.sun_path);  // names are short literals
    std::memcpy(address.sun_path, text.c_str(), text.size() + 1);
    return address;
}

}  // namespace

Result<int> listen_local(const Directory& directory, const std::string& name) {
    DCHECK(directory.is_open());
    const int place = directory.id().value;
    struct stat old {};
    if (fstatat(place, name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISSOCK(old.st_mode)) {
            auto error = fail(ErrorCode::bad_path, "socket");
            set_error_detail(error.error(),
                             directory.path(name) + " is no socket; move it out of the directory");
            return error;
        }
        (void)unlinkat(place, name.c_str(), 0);  // else bind says why
    }
    Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return fail_os(ErrorCode::io_error, errno, "socket");
    // bind() gives the file the mode of the descriptor, less the umask. So it is never wider.
    if (fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0)
        return fail_os(ErrorCode::io_error, errno, "mode of a socket");
    const sockaddr_un address = address_of(place, directory.path(), name);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return fail_os(errno == ENOSPC ? ErrorCode::no_space : ErrorCode::io_error, errno,
                       "bind of a socket");
    struct stat made {};
    const bool ok = fstatat(place, name.c_str(), &made, AT_SYMLINK_NOFOLLOW) == 0 &&
                    (made.st_mode & (S_IRWXG | S_IRWXO)) == 0 &&
                    // A umask may have taken the owner's rights as well.
                    fchmodat(place, name.c_str(), S_IRUSR | S_IWUSR, 0) == 0 &&
                    listen(fd.get(), SOMAXCONN) == 0;
    if (ok) return fd.take();
    const int why = errno;
    (void)unlinkat(place, name.c_str(), 0);
    return fail_os(ErrorCode::io_error, why, "listen on a socket");
}

Result<int> connect_local(const std::string& directory, const std::string& name) {
    const Descriptor place(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!place.valid()) return fail_os(ErrorCode::io_error, errno, "directory of a socket");
    Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return fail_os(ErrorCode::io_error, errno, "socket");
    const sockaddr_un address = address_of(place.get(), directory, name);
    // Not blocking while it connects: the listener's queue may be full.
    if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 ||
        connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        fcntl(fd.get(), F_SETFL, 0) != 0)
        return fail_os(ErrorCode::io_error, errno, "connect to a socket");
    return fd.take();
}

void unlink_local(const Directory& directory, const std::string& name) {
    DCHECK(directory.is_open());
    (void)unlinkat(directory.id().value, name.c_str(), 0);
}

}  // namespace lockstep::threads
