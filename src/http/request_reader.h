// Bytes of a connection to one request, with limits. No sockets: the connection feeds what it read.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/service.h"

namespace reprise {

// Why a request is refused before the service sees it: the reply's status, code and message.
struct RequestTrouble {
  int status = 0;
  std::string code;
  std::string message;
};

// Reads one request; a new one for each. Framing follows RFC 9112: a request with both
// Content-Length and Transfer-Encoding, or with a transfer coding that we do not know, is refused,
// never guessed at.
class RequestReader {
 public:
  enum class Progress { need_more, header_done, done, failed };

  RequestReader(std::size_t header_bytes_max, std::size_t body_bytes_max);
  ~RequestReader();

  // Takes what it can of `bytes` and says how many in `consumed`; the rest must be given again,
  // with more behind it. header_done is returned once, before a body; done and failed are final.
  Progress feed(std::string_view bytes, std::size_t& consumed);

  bool started() const;                   // a byte of this request has come
  const RequestTrouble& trouble() const;  // after failed
  // The rest is known after header_done or done.
  bool keep_alive() const;
  bool is_http_1_0() const;
  bool is_head() const;
  bool expects_continue() const;  // the client waits for "100 Continue" before it sends the body
  // Gives back the memory of what has come of the body; nothing is fed afterwards.
  void drop_body();
  // After done. A HEAD request becomes a GET: whoever sends the reply leaves its body out.
  ServiceRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise
