// Fuzzes the reader of HTTP requests: any bytes are a request or are refused with a status, and how
// the bytes are cut into pieces does not change what is read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "http/request_reader.h"

namespace reprise {
namespace {

using Progress = RequestReader::Progress;

constexpr std::size_t kHeaderMax = 1024;
constexpr std::size_t kBodyMax = 2000;

struct Outcome {
  Progress progress = Progress::need_more;
  ServiceRequest request;
  std::size_t consumed = 0;
};

void check_trouble(const RequestTrouble& trouble) {
  CHECK(trouble.status >= 400 && trouble.status < 600);
  CHECK(!trouble.code.empty() && !trouble.message.empty());
  for (const char c : trouble.message) CHECK(c >= ' ' && c <= '~');
}

// As a connection does it: what was not consumed is given again, with more behind it.
Outcome read(std::string_view bytes, std::size_t piece) {
  RequestReader reader(kHeaderMax, kBodyMax);
  Outcome outcome;
  std::string unread;
  while (outcome.progress != Progress::done && outcome.progress != Progress::failed) {
    if (bytes.empty()) return outcome;
    unread += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    do {
      std::size_t consumed = 0;
      outcome.progress = reader.feed(unread, consumed);
      CHECK(consumed <= unread.size());
      unread.erase(0, consumed);
      outcome.consumed += consumed;
    } while (outcome.progress == Progress::header_done && !unread.empty());
    // What waits unread is bounded: a line of a chunk's header, never a body.
    if (outcome.progress == Progress::need_more) CHECK(unread.size() <= 2 * kHeaderMax + piece);
  }
  if (outcome.progress == Progress::failed) {
    check_trouble(reader.trouble());
    reader.drop_body();
    return outcome;
  }
  static_cast<void>(reader.keep_alive());
  outcome.request = reader.take();
  CHECK(outcome.request.body.size() <= kBodyMax);
  CHECK(!outcome.request.method.empty() && !outcome.request.target.empty());
  return outcome;
}

void exercise(std::string_view bytes, std::size_t piece) {
  const Outcome whole = read(bytes, bytes.size() + 1);
  const Outcome pieces = read(bytes, piece);
  if (whole.progress != Progress::done || pieces.progress != Progress::done) return;
  CHECK(whole.consumed == pieces.consumed);
  CHECK(whole.request.method == pieces.request.method);
  CHECK(whole.request.target == pieces.request.target);
  CHECK(whole.request.headers == pieces.request.headers);
  CHECK(whole.request.body == pieces.request.body);
}

}  // namespace
}  // namespace reprise

// The first byte says how long the pieces are.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  reprise::exercise({reinterpret_cast<const char*>(data) + 1, size - 1}, 1 + data[0] % 64);
  return 0;
}
