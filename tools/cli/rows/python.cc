// python.cc - starting the interpreter.
#include "tools/cli/rows/python.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tools/cli/commands.h"

namespace lockstep::cli {

int run_python(const char* command, const char* program, const std::vector<std::string>& arguments,
               const char* needs) {
    std::vector<const char*> words = {"python3", "-c", program};
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    words.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawnp(&child, words[0], nullptr, nullptr, const_cast<char**>(words.data()),
                     environ) != 0) {
        complain(command, std::string("there is no python3; it needs Python 3.11, ") + needs);
        return kAbsent;
    }
    int status = 0;
    std::signal(SIGINT, SIG_IGN);  // the child ends, and the copy is deleted
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace lockstep::cli
