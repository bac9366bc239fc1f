// metrics_server.cc - the HTTP side, by libmicrohttpd.
#include "tpcc/metrics_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>

#include <cerrno>

namespace lockstep::tpcc {

struct MetricsServer::Daemon {
    const Store& store;
    MHD_Daemon* http = nullptr;
    ~Daemon() {
        if (http != nullptr) MHD_stop_daemon(http);
    }
};

namespace {

constexpr unsigned kIdleSecondsMax = 10, kConnectionsMax = 32;

MHD_Result reply(MHD_Connection* to, unsigned status, const char* type, const std::string& body) {
    MHD_Response* response = MHD_create_response_from_buffer(
        body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    const bool refused = status == MHD_HTTP_METHOD_NOT_ALLOWED;
    if (refused) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const MHD_Result queued = MHD_queue_response(to, status, response);
    MHD_destroy_response(response);
    return queued;
}

// The signature that libmicrohttpd asks for. A HEAD is answered without the body by the library.
MHD_Result answer(void* store, MHD_Connection* to, const char* url, const char* method,
                  const char* /*version*/, const char* /*upload*/, size_t* upload_bytes,
                  void** /*request*/) {
    const std::string_view path = url, verb = method;
    if (*upload_bytes != 0) {
        *upload_bytes = 0;  // dropped
        return MHD_YES;
    }
    if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
        return reply(to, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", "use GET /metrics\n");
    if (path != "/metrics")
        return reply(to, MHD_HTTP_NOT_FOUND, "text/plain", "the metrics are at /metrics\n");
    return reply(to, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8",
                 static_cast<const Store*>(store)->metrics());
}

}  // namespace

Result<MetricsServer> MetricsServer::start(const Store& store, const MetricsAddress& address) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(address.port);
    if (inet_pton(AF_INET, address.host.c_str(), &where.sin_addr) != 1)
        return fail(ErrorCode::bad_argument, "--metrics: no IPv4 address");
    auto daemon = std::make_unique<Daemon>(store);
    errno = 0;
    daemon->http = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, address.port, nullptr, nullptr,
                                    answer, const_cast<Store*>(&store), MHD_OPTION_SOCK_ADDR,
                                    reinterpret_cast<sockaddr*>(&where),
                                    MHD_OPTION_CONNECTION_TIMEOUT, kIdleSecondsMax,
                                    MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax, MHD_OPTION_END);
    if (daemon->http == nullptr)
        return fail_os(ErrorCode::io_error, errno, "--metrics: cannot listen on the port",
                       address.port);
    return MetricsServer(std::move(daemon));
}

MetricsServer::MetricsServer(std::unique_ptr<Daemon> daemon) : daemon_(std::move(daemon)) {}
MetricsServer::MetricsServer(MetricsServer&&) noexcept = default;
MetricsServer& MetricsServer::operator=(MetricsServer&&) noexcept = default;
MetricsServer::~MetricsServer() = default;

uint16_t MetricsServer::port() const {
    return MHD_get_daemon_info(daemon_->http, MHD_DAEMON_INFO_BIND_PORT)->port;
}

}  // namespace lockstep::tpcc
