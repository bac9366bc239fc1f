// fuse_passthrough.h - a FUSE file system that passes everything on to a directory and counts the
// syncs that reach it.
//
// Concepts   The kernel hands each request of the mounted directory to a child process, which
//            speaks the kernel's protocol (linux/fuse.h) without a library. The counters lie in
//            memory that both processes share. It knows what a store needs: regular files and one
//            level of directories.
// Blocking   The constructor mounts and starts the child; the destructor unmounts and waits for it.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include <linux/fuse.h>

namespace lockstep {

class FusePassthrough {
public:
    struct Shared {
        std::atomic<uint64_t> writes{0}, syncs{0};
        std::atomic<bool> syncs_fail{false};  // EIO, the file is not synced
    };

    FusePassthrough();
    ~FusePassthrough();
    FusePassthrough(const FusePassthrough&) = delete;
    FusePassthrough& operator=(const FusePassthrough&) = delete;

    // Why it could not be mounted; empty if it is. Needs /dev/fuse and the right to mount.
    const std::string& why_not() const { return why_not_; }
    // Where it is mounted.
    const std::string& path() const { return mounted_; }
    Shared& shared() { return *shared_; }

private:
    struct Request;

    void serve();
    void answer(const Request& request);
    void reply(const Request& request, int error, const void* data = nullptr, size_t bytes = 0);
    void reply_entry(const Request& request, const std::string& path, int fd = -1);
    void reply_attributes(const Request& request, const std::string& path);
    void list(const Request& request);
    void init(const Request& request);
    void open_file(const Request& request);
    void change(const Request& request);
    void transfer(const Request& request);
    void rename_file(const Request& request);
    std::string child_of(const Request& request, const char* name) const;
    uint64_t node_of(const std::string& path);

    std::string why_not_, base_, behind_, mounted_;
    int fd_ = -1, child_ = -1;
    Shared* shared_ = nullptr;
    std::vector<std::string> paths_;  // by node; [0] is unused, [1] is the root
    std::vector<char> buffer_;
};

}  // namespace lockstep
