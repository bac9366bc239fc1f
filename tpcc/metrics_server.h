// metrics_server.h - answers GET /metrics with the store's metrics, for a Prometheus server or a
// browser.
#pragma once

#include <memory>

#include <lockstep/store.h>
#include "tpcc/settings.h"

namespace lockstep::tpcc {

// Listens while it lives, with a kernel thread of its own. Only numbers that the store has counted
// anyway are read, so its workers do not notice.
class MetricsServer {
public:
    // The store must outlive the server. Errors: io_error with the errno, bad_argument.
    static Result<MetricsServer> start(const Store& store, const MetricsAddress& address);
    MetricsServer(MetricsServer&&) noexcept;
    MetricsServer& operator=(MetricsServer&&) noexcept;
    ~MetricsServer();  // waits for the answer that is being sent
    uint16_t port() const;

private:
    struct Daemon;
    explicit MetricsServer(std::unique_ptr<Daemon> daemon);
    std::unique_ptr<Daemon> daemon_;
};

}  // namespace lockstep::tpcc
