// labels: unit
// posix_disk_test.cc - each system call of the disk refused in turn: the error says
// what and why, and files are as they were.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/threads/io/io_test_util.h"

namespace lockstep::threads::posix_disk_test {

struct Refusal {
    unsigned call;
    int err;
    int argument = -1;  // only where this argument
    unsigned bits = 0;  // has one of these bits
};

// From now on, in the calling kernel thread only.
void refuse(const Refusal& r) {
    const unsigned at =
        offsetof(seccomp_data, args) + 8 * static_cast<unsigned>(std::max(r.argument, 0));
    const unsigned bits = r.argument < 0 ? 0 : r.bits;
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, r.call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, static_cast<unsigned char>(0),
                 static_cast<unsigned char>(bits == 0 ? 0 : 1)),
        BPF_STMT(BPF_RET | BPF_K,
                 SECCOMP_RET_ERRNO | (static_cast<unsigned>(r.err) & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
    ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

class PosixDiskRefused : public ::testing::Test {
protected:
    // Runs fn where the calls are refused. A filter stays with its thread, so the thread goes with
    // it.
    static void without(std::vector<Refusal> refusals, const std::function<void()>& fn) {
        std::thread([&] {
            for (const Refusal& r : refusals) ASSERT_NO_FATAL_FAILURE(refuse(r));
            fn();
        }).join();
    }
    template <class T>
    static void expect(const Result<T>& result, ErrorCode code, int err, const char* what) {
        ASSERT_FALSE(result) << what;
        EXPECT_EQ(result.error().code, code) << result.error().text();
        EXPECT_EQ(result.error().os, err) << result.error().text();
        EXPECT_NE(result.error().text().find(what), std::string::npos) << result.error().text();
    }
    // A file of 12,288 bytes 'f'.
    FileId make_file(const char* name, uint32_t flags = Disk::kCreate) {
        const FileId file = rig.open(name, flags);
        const std::string text(12'288, 'f');
        EXPECT_TRUE(disk.write_now(file, 0, text.data(), text.size()));
        return file;
    }
    std::string content(FileId file) {
        std::string text(disk.size(file).value_or(0), '\0');
        EXPECT_EQ(disk.read_now(file, 0, text.data(), text.size()).value_or(0), text.size());
        return text;
    }

    Rig rig{RigKind::pool};
    Disk& disk = *rig.disk;
};

TEST_F(PosixDiskRefused, OpenSaysWhatKindOfErrorItIs) {
    const std::pair<int, ErrorCode> kinds[] = {
        {ENOSPC, ErrorCode::no_space},       {EDQUOT, ErrorCode::no_space},
        {EFBIG, ErrorCode::no_space},        {ENOMEM, ErrorCode::out_of_memory},
        {EMFILE, ErrorCode::too_many},       {ENFILE, ErrorCode::too_many},
        {ENOENT, ErrorCode::bad_path},       {EACCES, ErrorCode::bad_path},
        {EPERM, ErrorCode::bad_path},        {EROFS, ErrorCode::bad_path},
        {ENOTDIR, ErrorCode::bad_path},      {EISDIR, ErrorCode::bad_path},
        {ENAMETOOLONG, ErrorCode::bad_path}, {ELOOP, ErrorCode::bad_path},
        {EEXIST, ErrorCode::bad_path},       {ENXIO, ErrorCode::bad_path},
        {ETXTBSY, ErrorCode::bad_path},      {EXDEV, ErrorCode::bad_path},
        {ENOTEMPTY, ErrorCode::bad_path},    {EBUSY, ErrorCode::bad_path},
        {EIO, ErrorCode::io_error},          {EINVAL, ErrorCode::io_error},
    };
    for (const auto& [err, code] : kinds)
        without({{__NR_openat, err}}, [&, err = err, code = code] {
            expect(disk.open(rig.path("f"), Disk::kCreate | Disk::kDirect), code, err, "open");
        });
    EXPECT_FALSE(disk.exists(rig.path("f")));
}

// Some file systems know no direct I/O: the file is opened all the same, and a creation is still
// the first.
TEST_F(PosixDiskRefused, DirectIoRefusedIsDoneWithout) {
    without({{__NR_openat, EINVAL, 2, O_DIRECT}}, [&] {
        const auto file =
            disk.open(rig.path("f"), Disk::kCreate | Disk::kExclusive | Disk::kDirect);
        ASSERT_TRUE(file) << file.error().text();
        EXPECT_EQ(fcntl(file->value, F_GETFL) & O_DIRECT, 0);
        EXPECT_TRUE(disk.write_now(*file, 1, "xyz", 3));
        EXPECT_EQ(content(*file), std::string("\0xyz", 4));
        disk.close(*file);
    });
}

// Whatever the umask is. A file that cannot get its permissions is not left behind.
TEST_F(PosixDiskRefused, FilesAndDirectoriesGetTheirPermissions) {
    const auto mode = [&](const char* name) {
        struct stat status {};
        EXPECT_EQ(::stat(rig.path(name).c_str(), &status), 0);
        return status.st_mode & 07777;
    };
    const auto make = [&](const char* name) {
        return disk.open(rig.path(name), Disk::kCreate | Disk::kDirect);
    };
    for (const mode_t mask : {0, 022, 077}) {
        const mode_t before = umask(mask);
        disk.set_file_mode(0600);
        disk.close(*make("own"));
        EXPECT_TRUE(disk.make_directory(rig.path("own.d")));
        disk.set_file_mode(0664);
        const FileId shared = *make("shared");
        EXPECT_TRUE(disk.make_directory(rig.path("shared.d")));
        disk.set_file_mode(0600);
        disk.close(*make("shared"));  // exists
        ASSERT_TRUE(disk.make_files_like(shared));
        disk.close(*make("like it"));
        disk.close(shared);
        umask(before);
        EXPECT_EQ(mode("own"), 0600u);
        EXPECT_EQ(mode("own.d"), 0700u);
        EXPECT_EQ(mode("shared"), 0664u);
        EXPECT_EQ(mode("shared.d"), 0775u);
        EXPECT_EQ(mode("like it"), 0664u);
        for (const char* name : {"own", "shared", "like it"}) ::unlink(rig.path(name).c_str());
        for (const char* name : {"own.d", "shared.d"}) ::rmdir(rig.path(name).c_str());
    }
    without({{__NR_fchmod, EIO}, {__NR_fchmodat, EIO}}, [&] {
        disk.set_file_mode(0666);
        expect(make("none"), ErrorCode::io_error, EIO, "open");
        EXPECT_FALSE(disk.make_directory(rig.path("none.d")));
    });
    EXPECT_FALSE(disk.exists(rig.path("none")));
    EXPECT_FALSE(disk.exists(rig.path("none.d")));
    // A file system without permissions is no fault.
    without({{__NR_fchmod, EPERM}}, [&] { disk.close(*make("plain")); });
    EXPECT_TRUE(disk.exists(rig.path("plain")));
}

// Also for root, whom the rights of the file do not stop.
TEST_F(PosixDiskRefused, ReadOnlyFilesStayAsTheyAre) {
    disk.close(make_file("f"));
    const FileId file = *disk.open(rig.path("f"), Disk::kReadOnly);
    const std::string before = content(file);
    EXPECT_EQ(before, std::string(12'288, 'f'));
    expect(disk.write_now(file, 0, "x", 1), ErrorCode::io_error, EBADF, "write");
    EXPECT_FALSE(disk.truncate(file, 1));
    EXPECT_FALSE(disk.allocate(file, 1 << 20));
    EXPECT_EQ(content(file), before);
    disk.close(file);
    expect(disk.open(rig.path("none"), Disk::kReadOnly), ErrorCode::bad_path, ENOENT, "open");
    EXPECT_FALSE(disk.exists(rig.path("none")));
}

TEST_F(PosixDiskRefused, AllocateLeavesTheFileAsItWas) {
    const FileId file = make_file("f");
    const std::string before = content(file);
    without({{__NR_fallocate, ENOSPC}},
            [&] { expect(disk.allocate(file, 1 << 20), ErrorCode::no_space, ENOSPC, "allocate"); });
    EXPECT_EQ(content(file), before);
    // Zeros instead, which may not fit either.
    for (const int err : {EOPNOTSUPP, ENOSYS}) {
        without({{__NR_fallocate, err}, {__NR_pwrite64, ENOSPC}}, [&] {
            expect(disk.allocate(file, 1 << 20), ErrorCode::no_space, ENOSPC, "write");
        });
        EXPECT_EQ(content(file), before);
        without({{__NR_fallocate, err}},
                [&] { EXPECT_TRUE(disk.allocate(file, (5 << 19) + 100)); });
        EXPECT_EQ(content(file), before + std::string((5 << 19) + 100 - before.size(), '\0'));
        ASSERT_TRUE(disk.truncate(file, before.size()));
    }
    without({{__NR_fallocate, ENOSPC}, {__NR_ftruncate, EIO}}, [&] {
        expect(disk.allocate(file, 1 << 20), ErrorCode::io_error, EIO, "allocate: undo");
    });
    without({{__NR_newfstatat, EIO}, {__NR_fstat, EIO}},
            [&] { expect(disk.allocate(file, 1 << 20), ErrorCode::io_error, EIO, "file size"); });
    EXPECT_EQ(content(file), before);
    disk.close(file);
}

TEST_F(PosixDiskRefused, TransfersAndSyncs) {
    for (const uint32_t flags : {uint32_t{Disk::kCreate}, Disk::kCreate | Disk::kDirect}) {
        const FileId file = make_file(flags & Disk::kDirect ? "direct" : "plain", flags);
        char text[8192 + 1] = {};
        const AlignedBuffer aligned = std::move(*make_aligned_buffer(8192));
        without({{__NR_pread64, EIO}}, [&] {
            expect(disk.read_now(file, 0, aligned.get(), 8192), ErrorCode::io_error, EIO, "read");
            expect(disk.read_now(file, 3, text + 1, 5000), ErrorCode::io_error, EIO, "read");
        });
        without({{__NR_pwrite64, ENOSPC}}, [&] {
            expect(disk.write_now(file, 4096, aligned.get(), 4096), ErrorCode::no_space, ENOSPC,
                   "write");
            expect(disk.write_now(file, 512, text + 1, 512), ErrorCode::no_space, ENOSPC, "write");
        });
        // Nothing moves.
        without({{__NR_pwrite64, 0}}, [&] {
            expect(disk.write_now(file, 4096, aligned.get(), 4096), ErrorCode::io_error, EIO,
                   "write");
        });
        without({{__NR_fdatasync, EIO}},
                [&] { expect(disk.sync_now(file), ErrorCode::io_error, EIO, "sync"); });
        without({{__NR_ftruncate, EFBIG}},
                [&] { expect(disk.truncate(file, 100), ErrorCode::no_space, EFBIG, "truncate"); });
        without({{__NR_flock, ENOLCK}}, [&] {
            expect(disk.lock_exclusive(file), ErrorCode::io_error, ENOLCK, "lock file");
        });
        EXPECT_EQ(content(file), std::string(12'288, 'f'));
        disk.close(file);
    }
}

// A message on stderr would be written into the file.
TEST_F(PosixDiskRefused, NumbersOfStandardStreams) {
    const int kept = dup(STDERR_FILENO);
    ASSERT_GT(kept, STDERR_FILENO);
    ASSERT_EQ(::close(STDERR_FILENO), 0);
    const auto file = disk.open(rig.path("f"), Disk::kCreate);
    const bool is_free = fcntl(STDERR_FILENO, F_GETFD) == -1;
    ASSERT_EQ(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    ::close(kept);
    ASSERT_TRUE(file);
    EXPECT_GT(file->value, STDERR_FILENO);
    EXPECT_TRUE(is_free);
    EXPECT_EQ(fcntl(file->value, F_GETFD), FD_CLOEXEC);
    disk.close(*file);
}

// Longer than the bounce buffer, at any place and in any memory.
TEST_F(PosixDiskRefused, NothingLongTransfersOfUnalignedMemoryToADirectFile) {
    const FileId file = rig.open("f", Disk::kCreate | Disk::kDirect);
    std::string text(3'000'832, '\0'), seen(text.size() + 1, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i / 7 % 26);
    ASSERT_TRUE(disk.write_now(file, 4096, text.data(), text.size()));
    for (const size_t skip : {0u, 1u, 4095u, 1'000'000u}) {
        // The rest lies behind the end.
        ASSERT_EQ(disk.read_now(file, 4096 + skip, seen.data() + 1, text.size()).value_or(0),
                  text.size() - skip);
        EXPECT_EQ(std::memcmp(seen.data() + 1, text.data() + skip, text.size() - skip), 0) << skip;
    }
    EXPECT_EQ(disk.read_now(file, 4096 + text.size() + 10, seen.data(), 100).value_or(1), 0u);
    disk.close(file);
}

TEST_F(PosixDiskRefused, Directories) {
    without({{__NR_mkdirat, EROFS}}, [&] {
        expect(disk.make_directory(rig.path("d")), ErrorCode::bad_path, EROFS, "make directory");
    });
    // Its parent is synced, if it may be read.
    without({{__NR_fsync, EIO}}, [&] {
        expect(disk.make_directory(rig.path("d")), ErrorCode::io_error, EIO, "sync directory");
    });
    EXPECT_FALSE(disk.exists(rig.path("d")));  // the next call is to sync its parent, too
    without({{__NR_openat, EACCES}}, [&] { EXPECT_TRUE(disk.make_directory(rig.path("e"))); });
    expect(disk.make_directory(rig.path("none/d")), ErrorCode::bad_path, ENOENT, "make directory");
    disk.close(make_file("f"));
    expect(disk.make_directory(rig.path("f")), ErrorCode::bad_path, ENOTDIR, "make directory");
    expect(disk.list(rig.path("f")), ErrorCode::bad_path, ENOTDIR, "list directory");
    without({{__NR_getdents64, EIO}},
            [&] { expect(disk.list(rig.dir), ErrorCode::io_error, EIO, "list directory"); });
    without({{__NR_fsync, EIO}}, [&] {
        expect(disk.sync_directory(rig.dir), ErrorCode::io_error, EIO, "sync directory");
    });
    expect(disk.sync_directory(rig.path("f")), ErrorCode::bad_path, ENOTDIR, "sync directory");
    EXPECT_TRUE(disk.sync_directory(""));  // the current one
    expect(disk.rename(rig.path("none"), rig.path("f")), ErrorCode::bad_path, ENOENT, "rename");
    expect(disk.unlink(rig.path("none")), ErrorCode::bad_path, ENOENT, "unlink");
    expect(disk.open(rig.dir, 0), ErrorCode::bad_path, EISDIR, "open");
    const auto device = disk.open("/dev/null", 0);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code, ErrorCode::bad_path);
}

TEST_F(PosixDiskRefused, NoThreadForThePool) {
    MonotonicClock clock;
    without({{__NR_clone3, EAGAIN}, {__NR_clone, EAGAIN}},
            [&] { expect(disk.make_queue(0, clock), ErrorCode::too_many, EAGAIN, "I/O thread"); });
    EXPECT_TRUE(disk.make_queue(0, clock));
}

}  // namespace lockstep::threads::posix_disk_test
