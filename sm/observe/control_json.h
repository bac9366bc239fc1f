// control_json.h - what the control socket sends, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include <lockstep/backup.h>
#include <lockstep/changes.h>
#include <lockstep/prepared.h>
#include <lockstep/report.h>
#include <lockstep/stats.h>
#include <lockstep/transaction_info.h>
#include "txn/lock/lock_manager.h"

namespace lockstep::sm {

using Json = nlohmann::ordered_json;

Json json_of(const StoreStats& stats);
Json json_of(const StepsStats& stats);
Json json_of(const ReportStats& stats);
Json json_of(const TransactionInfo& transaction);
Json json_of(const PreparedInfo& transaction);
Json json_of(const BackupInfo& backup);
// Bytes are a string if they are printable ASCII, else {"hex": "00ff"}. What a change of its kind
// does not have is left out.
Json json_of(const Change& of);
Json json_of(const std::vector<txn::LockManager::HotLock>& locks, Nanos looks_back);
// {"error": ...} of an operation.
Json json_of(const Error& error);
// {"error": ...} of a request that is refused.
Json refusal_json(const char* code, const std::string& thing, const std::string& reason,
                  const std::string& remedy);
// One line. Bytes that are no UTF-8 become U+FFFD.
std::string line_of(const Json& json);

}  // namespace lockstep::sm
