// durable_writes.h - which file systems make a write durable because the request says so.
//
// Concepts   RWF_DSYNC asks for a write that completes when its bytes are durable. The kernel hands
//            the request to the file system, and a file system may ignore it without a word: FUSE
//            does for direct files. A durable commit would then be lost with the machine. No call
//            tells whether the request is honoured. So a list names the file systems that are known
//            to honour it, and behind a durable write to any other one the queues sync the file.
// Blocking   durable_writes_need_sync() makes two system calls.
#pragma once

#include <cstdint>

namespace lockstep::threads {

// True for the file systems whose direct and buffered writes honour RWF_DSYNC. `magic` is f_type of
// statfs(2). Others may honour it as well; they only cost a second request.
bool honours_durable_writes(uint64_t magic);

// True if durable writes to this open file need a sync behind them: its file system is not known to
// honour RWF_DSYNC, or cannot be asked, or no write can ask for it. `fd` stays the caller's.
bool durable_writes_need_sync(int fd);

}  // namespace lockstep::threads
