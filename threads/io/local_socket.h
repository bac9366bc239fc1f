// local_socket.h - Unix sockets in a directory, for programs of the same user on the same machine.
//
// Concepts   A socket's address is a path with room for 107 bytes, and no call takes a name in a
//            directory. So the directory's descriptor is named by its path in /proc/self/fd.
//            Without /proc the address is the directory's present path.
// Source     unix(7).
// Blocking   Never for long: a connection waits in the listener's queue.
#pragma once

#include <string>

#include <lockstep/result.h>
#include "threads/io/directory.h"

namespace lockstep::threads {

// A listening stream socket `name` in `directory`, which is open; not blocking and closed on exec.
// Its mode is 0600 from its first moment on. Takes the place of a socket that another process has
// left behind: the caller makes sure that no process uses it. Errors: bad_path (a file of that name
// is no socket), io_error, no_space.
Result<int> listen_local(const Directory& directory, const std::string& name);
// A connection to such a socket in the directory of that path, closed on exec. Error: io_error with
// ENOENT if there is no socket, ECONNREFUSED if no process listens, EACCES if it belongs to another
// user.
Result<int> connect_local(const std::string& directory, const std::string& name);
// Removes the socket. A name that does not exist is no error.
void unlink_local(const Directory& directory, const std::string& name);

}  // namespace lockstep::threads
