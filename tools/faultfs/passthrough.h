// passthrough.h - a FUSE file system that passes everything on to a directory, counts operations,
// and fails those that a plan names.
//
// Concepts   The kernel hands each request of the mounted directory to a child process, which
//            speaks the kernel's protocol (linux/fuse.h) without a library. The counters lie in
//            memory that both processes share. It knows what a store needs: regular files and one
//            level of directories.
//            A plan (fault_plan.h) is set while nothing runs on the file system.
// Blocking   The constructor mounts and starts the child; unmount() waits for it.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include <linux/fuse.h>

#include "tools/faultfs/fault_plan.h"

namespace lockstep::faultfs {

class Passthrough {
public:
    // Lies in memory of both processes.
    struct Shared {
        std::array<std::atomic<uint64_t>, kOperations> counts{};
        std::atomic<uint64_t> failed{0};  // operations that the plan has failed
        FaultPlan plan;
    };

    Passthrough();
    ~Passthrough();
    Passthrough(const Passthrough&) = delete;
    Passthrough& operator=(const Passthrough&) = delete;

    // Why it could not be mounted; empty if it is. Needs /dev/fuse and the right to mount.
    const std::string& why_not() const { return why_not_; }
    // Where it is mounted.
    const std::string& path() const { return mounted_; }
    // The directory behind it.
    const std::string& behind() const { return behind_; }
    uint64_t count(Operation operation) const {
        return shared_->counts[static_cast<size_t>(operation)].load();
    }
    uint64_t failed() const { return shared_->failed.load(); }
    // Counts begin anew.
    void set_plan(const FaultPlan& plan);
    // Afterwards nothing changes the directory behind it any more, also if a process was killed
    // while it used the file system. A second call does nothing.
    void unmount();

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
    void read_file(const Request& request);
    void write_file(const Request& request);
    void sync_file(const Request& request);
    Fault count_operation(Operation operation);
    bool fails(const Request& request, Operation operation);
    void rename_file(const Request& request);
    std::string child_of(const Request& request, const char* name) const;
    uint64_t node_of(const std::string& path);

    std::string why_not_, base_, behind_, mounted_;
    int fd_ = -1, child_ = -1;
    Shared* shared_ = nullptr;
    std::vector<std::string> paths_;  // by node; [0] is unused, [1] is the root
    std::vector<char> buffer_;
    std::set<uint64_t> unsynced_;  // nodes that have lost a write; of the child
};

}  // namespace lockstep::faultfs
