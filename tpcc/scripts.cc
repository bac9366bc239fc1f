// scripts.cc - where the Python scripts lie that the programs start.
#include "tpcc/scripts.h"

namespace lockstep::tpcc {

std::filesystem::path script_path(std::string_view script) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    const auto installed = self.parent_path().parent_path() / "share" / "lockstep" / script;
    if (!error && std::filesystem::exists(installed, error)) return installed;
    return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / script;
}

}  // namespace lockstep::tpcc
