// directory.h - the directory that files are named in.
//
// Concepts   An open Directory stays the same one, whatever happens to its names: it may be moved
//            or replaced, a symbolic link on the way may change, the process may change its
//            directory. A store opens its directory once, and names all its files in it. A
//            Directory that is not open is a path, and each use looks it up anew: for tools, which
//            end soon.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "threads/base/check.h"
#include "threads/io/io.h"

namespace lockstep::threads {

class Directory {
public:
    // Not open.
    Directory(std::string path) : path_(std::move(path)) {}  // NOLINT(google-explicit-constructor)
    Directory(std::string_view path) : path_(path) {}        // NOLINT(google-explicit-constructor)
    Directory(const char* path = "") : path_(path) {}        // NOLINT(google-explicit-constructor)
    // Copies share what is open, and the last one closes it. The disk outlives them. Error:
    // bad_path.
    static Result<Directory> open(Disk& disk, const Place& place) {
        const DirectoryId id = TRY(disk.open_directory(place));
        Directory directory(place.name);
        directory.open_ = std::make_shared<const Open>(disk, id);
        return directory;
    }
    // Open if that is possible, else the path: the error then comes from the use.
    static Directory opened(Disk& disk, std::string_view path) {
        return path.empty() ? Directory() : open(disk, path).value_or(Directory(path));
    }
    bool is_open() const { return open_ != nullptr; }
    DirectoryId id() const { return open_ ? open_->id : kNoDirectory; }

    // The directory itself, and a file in it.
    Place here() const {
        return open_ ? Place(open_->id, ".") : Place(path_.empty() ? "." : path_);
    }
    friend Place operator/(const Directory& directory, std::string_view name) {
        DCHECK(!name.empty());
        if (directory.open_) return {directory.open_->id, name};
        return directory.path_ + "/" + std::string(name);
    }
    // For texts, and for what needs a path: where it is now, and a file in it.
    std::string path() const { return open_ ? open_->disk.path_of(open_->id) : path_; }
    std::string path(std::string_view name) const { return path() + "/" + std::string(name); }

private:
    struct Open {
        Open(Disk& of, DirectoryId opened) : disk(of), id(opened) { DCHECK(id != kNoDirectory); }
        Open(const Open&) = delete;
        Open& operator=(const Open&) = delete;
        ~Open() { disk.close_directory(id); }
        Disk& disk;
        const DirectoryId id;
    };
    std::string path_;  // as given
    std::shared_ptr<const Open> open_;
};

}  // namespace lockstep::threads
