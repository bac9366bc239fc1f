// own_directory.h - an empty directory for one test, under the system's place for such: what a
// killed test leaves lies there, too.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "threads/base/check.h"

namespace lockstep {

inline std::string make_own_directory(const std::string& name) {
    std::string path =
        (std::filesystem::temp_directory_path() / ("lockstep-" + name + "-XXXXXX")).string();
    CHECK(mkdtemp(path.data()) != nullptr);
    return path;
}

}  // namespace lockstep
