// server.h - the listening socket, and a user thread for each connection.
#pragma once

#include "database.h"

namespace kv {

// A listening, non-blocking socket. `port` 0 becomes the one that the system chose. Errors:
// bad_argument (the address is no IPv4 address), io_error with the errno.
lockstep::Result<int> listen_on(const std::string& address, uint16_t& port);

// Accepts connections until the store closes, and serves each on a user thread of its own. Runs on
// a user thread. At the limit of connections the next ones get an error and are closed. Error:
// io_error of the listening socket.
lockstep::Result<void> serve(Database& database, int listener);

// Raises the process's limit of descriptors, so that `connections` fit. Returns how many do.
uint32_t fit_descriptors(uint32_t connections);

}  // namespace kv
