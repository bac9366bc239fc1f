// handlers.h - one function for each command; see Command::run.
#pragma once

#include "commands.h"

namespace kv {

// handlers.cc: commands on keys.
lockstep::Result<void> run_get(Call& call);
lockstep::Result<void> run_set(Call& call);
lockstep::Result<void> run_del(Call& call);
lockstep::Result<void> run_exists(Call& call);
lockstep::Result<void> run_mget(Call& call);
lockstep::Result<void> run_mset(Call& call);
lockstep::Result<void> run_incr(Call& call);
lockstep::Result<void> run_decr(Call& call);
lockstep::Result<void> run_incrby(Call& call);
lockstep::Result<void> run_decrby(Call& call);
lockstep::Result<void> run_scan(Call& call);
lockstep::Result<void> run_flushall(Call& call);

// handlers_server.cc: commands about the server.
lockstep::Result<void> run_ping(Call& call);
lockstep::Result<void> run_echo(Call& call);
lockstep::Result<void> run_select(Call& call);
lockstep::Result<void> run_dbsize(Call& call);
lockstep::Result<void> run_info(Call& call);
lockstep::Result<void> run_config(Call& call);
lockstep::Result<void> run_command_list(Call& call);

// Commands in the table.
size_t command_count();

}  // namespace kv
