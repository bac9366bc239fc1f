// own_directory.h - makes an empty directory for one test in the system's temporary directory.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "threads/base/check.h"

namespace lockstep {

// A killed test leaves its directory there. Stops the process if the directory cannot be made.
inline std::string make_own_directory(const std::string& name) {
    std::string path =
        (std::filesystem::temp_directory_path() / ("lockstep-" + name + "-XXXXXX")).string();
    CHECK(mkdtemp(path.data()) != nullptr);
    return path;
}

}  // namespace lockstep
