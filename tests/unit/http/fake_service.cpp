// The Service's members, as a desk that asks the test.
#include "fake_service.h"

#include <utility>

#include <fmt/core.h>

namespace reprise {

using test_support::FakeDesk;

struct Service::State {
  FakeDesk& desk;
  ServiceOptions options;
};

// make_fake_service passes the desk as the engine; bundle and engine are never looked at.
Service::Service(const Bundle&, Engine& engine, ServiceOptions options)
    : state_(std::make_unique<State>(reinterpret_cast<FakeDesk&>(engine), std::move(options))) {}
Service::~Service() = default;

const ServiceOptions& Service::options() const {
  return state_->options;
}

void Service::handle(ServiceRequest request, std::shared_ptr<StreamChannel> channel) {
  state_->desk.answer(std::move(request), std::move(channel));
}

ReplyHead Service::error_reply(int status, std::string_view code, std::string_view message,
                               std::string& body) const {
  body = fmt::format(R"({{"error":{{"code":"{}","message":"{}"}}}})", code, message);
  ReplyHead head;
  head.status = status;
  if (!state_->options.allowed_origin.empty()) {
    head.headers.emplace_back("access-control-allow-origin", state_->options.allowed_origin);
  }
  return head;
}

void Service::begin_drain() {
  ++state_->desk.drains;
}

}  // namespace reprise

namespace reprise::test_support {

void FakeDesk::push_reply(StreamChannel& channel, int status, std::string body) {
  ReplyHead head;
  head.status = status;
  channel.push(std::move(head));
  channel.push(ReplyData{std::move(body)});
  channel.push(ReplyEnd{});
}

ReplyHead FakeDesk::stream_head() {
  ReplyHead head;
  head.content_type = "text/event-stream";
  head.streamed = true;
  return head;
}

std::unique_ptr<Service> make_fake_service(FakeDesk& desk, ServiceOptions options) {
  return std::make_unique<Service>(reinterpret_cast<const Bundle&>(desk),
                                   reinterpret_cast<Engine&>(desk), std::move(options));
}

}  // namespace reprise::test_support
