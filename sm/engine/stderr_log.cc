// stderr_log.cc - the logger of a store that was given none.
#include <unistd.h>

#include <string>

#include <lockstep/options.h>
#include "threads/base/check.h"
#include "threads/io/size_signal.h"

namespace lockstep::detail {

// One call of write(): lines of several kernel threads and processes do not mix.
void log_to_stderr(int level, std::string_view text) {
    DCHECK(level >= 0 && level <= 2);
    if (level > 1) return;
    std::string line = level == 0 ? "lockstep: error: " : "lockstep: warning: ";
    line += text;
    line += '\n';
    const threads::SizeSignalBlocked blocked;  // it may be a file
    (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lockstep::detail
