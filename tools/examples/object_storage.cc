// object_storage.cc - a backup whose files go to object storage as parts, and come back from there.
//
// Here the object storage is a directory with an object a file, so that the program runs anywhere.
// Replace ObjectStorage::put() and its likes by the calls of your provider's library.
//
// The comments with arrows mark the parts that the documentation shows.
#include <lockstep/backup.h>
#include <lockstep/offload.h>
#include <lockstep/store.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

using namespace lockstep;

namespace {

class ObjectStorage {
public:
    explicit ObjectStorage(std::filesystem::path place) : place_(std::move(place)) {
        std::filesystem::create_directories(place_);
    }
    // Blocks the kernel thread, as each call over a network does.
    bool put(const std::string& name, const std::string& bytes) const {
        std::ofstream out(place_ / name, std::ios::binary);
        return static_cast<bool>(out.write(bytes.data(), static_cast<long>(bytes.size())).flush());
    }
    std::filesystem::path path(const std::string& name) const { return place_ / name; }
    const std::filesystem::path& place() const { return place_; }

private:
    std::filesystem::path place_;
};

// --8<-- [start:sink]
// Collects the pieces of a backup into objects named FILE@OFFSET, of at most 8 MB each. An object
// is complete when it is put: there is no change of one, as object storage wants it.
class Upload {
public:
    explicit Upload(const ObjectStorage& storage) : storage_(storage) {}

    Result<void> piece(std::string_view file, uint64_t offset, Slice bytes) {
        Part& part = parts_[std::string(file)];
        if (offset != part.begin + part.bytes.size() || part.bytes.size() >= kPartBytes) {
            LOCKSTEP_TRY(send(std::string(file), part));
            part.begin = offset;
        }
        part.bytes += bytes;
        return {};
    }
    // The object of the file `backup` goes last: without it a backup is incomplete.
    Result<void> finish() {
        for (auto& [file, part] : parts_)
            if (file != "backup") LOCKSTEP_TRY(send(file, part));
        return send("backup", parts_["backup"]);
    }

private:
    static constexpr size_t kPartBytes = 8 << 20;
    struct Part {
        uint64_t begin = 0;
        std::string bytes;
    };

    // A sink runs on a user thread, so what blocks goes to a kernel thread of its own.
    Result<void> send(const std::string& file, Part& part) {
        if (part.bytes.empty()) return {};
        const std::string name = file + "@" + std::to_string(part.begin);
        const bool done = LOCKSTEP_TRY(offload([&] { return storage_.put(name, part.bytes); }));
        part.bytes.clear();
        return done ? Result<void>() : fail(ErrorCode::rolled_back, "the upload failed");
    }

    const ObjectStorage& storage_;
    std::map<std::string, Part> parts_;
};

Result<BackupInfo> back_up(Store& store, const ObjectStorage& storage) {
    Upload upload(storage);
    const auto piece = [&](std::string_view file, uint64_t offset, Slice bytes) {
        return upload.piece(file, offset, bytes);
    };
    const BackupInfo info = LOCKSTEP_TRY(store.backup(BackupSink(piece)));
    LOCKSTEP_TRY(upload.finish());
    return info;
}
// --8<-- [end:sink]

// --8<-- [start:fetch]
// Puts the objects together as the files of a backup. What lies between them is zeros.
void fetch(const ObjectStorage& storage, const std::filesystem::path& backup) {
    std::filesystem::create_directories(backup);
    for (const auto& object : std::filesystem::directory_iterator(storage.place())) {
        const std::string name = object.path().filename();
        const size_t at = name.find('@');
        const auto file = backup / name.substr(0, at);
        const std::ifstream in(object.path(), std::ios::binary);
        if (!std::filesystem::exists(file)) std::ofstream(file).flush();
        std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
        out.seekp(std::stol(name.substr(at + 1)));
        out << in.rdbuf();
    }
}
// --8<-- [end:fetch]

Result<void> use(const std::string& directory) {
    const ObjectStorage storage(directory + "/bucket");
    {
        Store store = LOCKSTEP_TRY(Store::open(directory + "/store"));
        Index cities = LOCKSTEP_TRY(
            store.run([&](Txn& txn) { return store.open_or_create_index(txn, "cities"); }));
        LOCKSTEP_TRY(cities.put("Lisbon", "Portugal"));
        // On a user thread, which offload() needs.
        LOCKSTEP_TRY(store.start([&] { return back_up(store, storage); }).join());
    }
    fetch(storage, directory + "/fetched");
    const auto faults = LOCKSTEP_TRY(verify_backup(directory + "/fetched"));
    for (const std::string& fault : faults) std::printf("fault: %s\n", fault.c_str());
    Store again = LOCKSTEP_TRY(Store::open(directory + "/fetched"));
    std::string country;
    if (LOCKSTEP_TRY(LOCKSTEP_TRY(again.index("cities")).get("Lisbon", country)))
        std::printf("from the bucket: Lisbon is in %s\n", country.c_str());
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    const Result<void> done = use(argc > 1 ? argv[1] : "object_storage");
    if (done) return 0;
    std::fprintf(stderr, "%s\n", done.error().text().c_str());
    return 1;
}
