// asio_server - a server with Boost.Asio: one coroutine for each connection, which co_awaits the
// store's answer on the thread of the io_context.
//
//   asio_server DIRECTORY PORT
//
// The protocol is in line_protocol.h. SIGTERM ends the server and closes the store.
#include <utility>  // keep: Boost 1.74 needs it here

#include <boost/asio.hpp>

#include <string>

#include "line_protocol.h"
#include "server.h"

using namespace lockstep;
using namespace example;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

// The adaptor: an asynchronous operation of Asio that completes with the result of a handle, on the
// executor of whatever awaits it.
template <class T, class Token>
auto async_join(Handle<T> handle, Token&& token) {
    const auto begin = [](auto handler, Handle<T> running) {
        auto work = asio::make_work_guard(handler);
        (void)running.then([handler = std::move(handler), work](Result<T> result) mutable {
            asio::post(work.get_executor(),
                       [handler = std::move(handler), result = std::move(result)]() mutable {
                           handler(std::move(result));
                       });
        });
    };
    return asio::async_initiate<Token, void(Result<T>)>(begin, token, std::move(handle));
}

struct Session {
    Store& store;
    const Index index;
    tcp::socket socket;

    asio::awaitable<void> run() {
        boost::system::error_code error;
        for (std::string input;;) {
            const size_t bytes = co_await asio::async_read_until(
                socket, asio::dynamic_buffer(input, Input::kBytes), '\n',
                asio::redirect_error(asio::use_awaitable, error));
            std::string output;
            const bool too_long = error == asio::error::not_found;
            if (error && !too_long) co_return;
            if (too_long) output = error_line("line too long");
            else output = co_await answer(input.substr(0, bytes - 1));
            co_await asio::async_write(socket, asio::buffer(output),
                                       asio::redirect_error(asio::use_awaitable, error));
            if (error || too_long) co_return;
            input.erase(0, bytes);
        }
    }
    asio::awaitable<std::string> answer(std::string line) {
        if (line.ends_with('\r')) line.pop_back();
        Request request = parse(line);
        if (request.fault != nullptr) co_return error_line(request.fault);
        auto handle = store.spawn([index = index, request = std::move(request)](Txn& txn) {
            return serve(txn, index, request);
        });
        co_return answer_line(co_await async_join(std::move(handle), asio::use_awaitable));
    }
};

asio::awaitable<void> session(Store& store, Index index, tcp::socket socket) {
    socket.set_option(tcp::no_delay(true));
    Session session{store, index, std::move(socket)};
    co_await session.run();
}

asio::awaitable<void> accept_all(Store& store, Index index, tcp::acceptor& acceptor) {
    int open = 0;
    for (;;) {
        tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
        if (open == kConnectionsMax) continue;  // the socket closes
        ++open;
        asio::co_spawn(acceptor.get_executor(), session(store, index, std::move(socket)),
                       [&open](const std::exception_ptr&) { --open; });
    }
}

Result<void> run(Store& store, Index index, int listener, int signals) {
    asio::io_context context(1);
    tcp::acceptor acceptor(context, tcp::v4(), listener);
    asio::posix::stream_descriptor end(context, signals);
    end.async_wait(asio::posix::stream_descriptor::wait_read,
                   [&](const boost::system::error_code&) { context.stop(); });
    asio::co_spawn(context, accept_all(store, index, acceptor), asio::detached);
    context.run();
    // Callbacks still post to the context; it drops what it does not run, and ends after them.
    return store.close();
}

}  // namespace

int main(int argc, char** argv) { return run_server(argc, argv, run); }
