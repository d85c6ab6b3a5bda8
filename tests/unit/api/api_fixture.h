// A whole desk over a tiny random model: file, bundle, engine, service, and a client without
// sockets.
#pragma once
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "api/bundle.h"
#include "api/service.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/engine.h"
#include "support/tiny_model.h"

namespace reprise::testing {

// Our own parser refuses NUL characters, which a random model may well say: they are read as
// U+0001.
inline std::string without_nul(std::string_view json) {
  std::string text;
  for (std::size_t at = 0; at < json.size(); at++) {
    text += json[at];
    if (json[at] != '\\' || at + 1 == json.size()) continue;
    text += json[++at];
    if (json[at] != 'u' || json.substr(at + 1, 4) != "0000") continue;
    text += "0001";
    at += 4;
  }
  return text;
}

struct Reply {
  ReplyHead head;
  std::string body;
  int heads = 0, ends = 0;

  std::string header(std::string_view name) const {
    for (const auto& [key, value] : head.headers) {
      if (key == name) return value;
    }
    return "(none)";
  }
  JsonValue json() const {
    Result<JsonValue> value = parse_json(without_nul(body));
    EXPECT_TRUE(value) << body;
    return value ? std::move(*value) : JsonValue();
  }
  std::string error_code() const {
    const JsonValue value = json();
    const JsonValue* error = value.is_object() ? value.get_object().if_contains("error") : nullptr;
    return error ? std::string(error->at("code").as_string()) : "(no error) " + body;
  }
};

// The consumer's side of one reply.
class Listener {
 public:
  Listener() {
    channel->set_wake([this] {
      const std::lock_guard lock(mutex_);
      woken_ = true;
      wake_.notify_one();
    });
  }
  ~Listener() { channel->abandon(); }

  // Reads events until `enough` says so or the reply has ended. False after `seconds` without one.
  template <class Enough>
  bool read_until(Enough enough, int seconds = 60) {
    while (true) {
      while (std::optional<ReplyEvent> event = channel->pop()) {
        take(std::move(*event));
        if (reply.ends > 0 || enough(reply)) return true;
      }
      std::unique_lock lock(mutex_);
      if (!wake_.wait_for(lock, std::chrono::seconds(seconds), [&] { return woken_; }))
        return false;
      woken_ = false;
    }
  }
  bool read_all() {
    return read_until([](const Reply&) { return false; });
  }

  std::shared_ptr<StreamChannel> channel = std::make_shared<StreamChannel>();
  Reply reply;

 private:
  void take(ReplyEvent event) {
    if (ReplyHead* head = std::get_if<ReplyHead>(&event)) {
      EXPECT_EQ(reply.heads++, 0) << "the head comes first and once";
      EXPECT_TRUE(reply.body.empty());
      reply.head = std::move(*head);
    } else if (const ReplyData* data = std::get_if<ReplyData>(&event)) {
      EXPECT_EQ(reply.heads, 1);
      reply.body += data->bytes;
    } else {
      EXPECT_EQ(reply.heads, 1);
      reply.ends++;
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
};

class ApiTest : public ::testing::Test {
 protected:
  void SetUp() override { start(TinyModelOptions(), EngineOptions(), ServiceOptions()); }
  void TearDown() override {
    service.reset();
    engine.reset();
  }

  static EngineOptions engine_defaults(EngineOptions options) {
    if (options.context_length == 0) options.context_length = 512;
    if (options.kv_budget_bytes == 0) options.kv_budget_bytes = std::size_t{64} << 20;
    options.check_invariants = true;
    return options;
  }

  void start(const TinyModelOptions& model, EngineOptions engine_options,
             ServiceOptions service_options) {
    TearDown();
    bundle = load(model);
    if (!bundle) return;
    engine = std::make_unique<Engine>(bundle->model(), *kernels::choose_kernels("").value(), pool,
                                      engine_defaults(std::move(engine_options)));
    if (service_options.model_alias.empty()) service_options.model_alias = "tiny";
    service = std::make_unique<Service>(*bundle, *engine, std::move(service_options));
  }

  std::unique_ptr<Bundle> load(const TinyModelOptions& model) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                       ("reprise_api_test_" + std::to_string(::getpid()) + ".gguf");
    const std::vector<std::byte> bytes = tiny_gguf(model);
    EXPECT_TRUE(write_file_atomic(
        path, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
    Result<Bundle> loaded = Bundle::load(path, pool, {});
    std::filesystem::remove(path);  // the bundle must not need it any more
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
    return loaded ? std::make_unique<Bundle>(std::move(*loaded)) : nullptr;
  }

  using Headers = std::vector<std::pair<std::string, std::string>>;

  void send(Listener& listener, std::string method, std::string target, std::string body,
            Headers headers = {}) {
    service->handle({std::move(method), std::move(target), std::move(headers), std::move(body)},
                    listener.channel);
  }
  Reply ask(std::string method, std::string target, std::string body = "", Headers headers = {}) {
    Listener listener;
    send(listener, std::move(method), std::move(target), std::move(body), std::move(headers));
    EXPECT_TRUE(listener.read_all()) << "the reply did not end";
    EXPECT_EQ(listener.reply.ends, 1);
    return std::move(listener.reply);
  }
  Reply chat(std::string body) { return ask("POST", "/v1/chat/completions", std::move(body)); }
  Reply complete(std::string body) { return ask("POST", "/v1/completions", std::move(body)); }

  ThreadPool pool{1};
  std::unique_ptr<Bundle> bundle;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Service> service;
};

}  // namespace reprise::testing
