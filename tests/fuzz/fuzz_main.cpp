// A main for fuzz targets where libFuzzer is not at hand (g++): replays the files and folders it
// is given and, with --seconds N, mutates them at random for N seconds (--seed S: other ones).
// An input that brings the program down is written to <program>_crash.bin in the working directory.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <fmt/core.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Make the sanitizers end in abort(), so that the handler below sees their findings too.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1";
}
extern "C" const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

namespace {

using Input = std::vector<std::uint8_t>;
constexpr std::size_t kInputBytesMax = std::size_t{1} << 16;

struct Current {
  std::string crash_file;
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
};

// What the target reads right now; a signal handler has no other way to know.
Current& current() {
  static Current instance;
  return instance;
}

extern "C" void save_current_input(int signal_number) {
  const int file = open(current().crash_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file >= 0) {
    if (write(file, current().data, current().size) < 0) _exit(3);
    close(file);
  }
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run(const Input& input) {
  // An exact copy, so that a sanitizer sees a read past the end.
  const Input exact(input.begin(), input.end());
  current().data = exact.data();
  current().size = exact.size();
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current().size = 0;
}

Input read_input(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

// Files in the order of their names, so that a seed means the same on every machine.
std::vector<Input> read_corpus(const std::vector<std::filesystem::path>& places) {
  std::vector<std::filesystem::path> files;
  for (const auto& place : places) {
    if (!std::filesystem::is_directory(place)) {
      files.push_back(place);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) corpus.push_back(read_input(file));
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<Input>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  Input next() {
    Input input = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(5); changes > 0; changes--) change(input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  void change(Input& input) {
    if (input.empty()) {
      input.push_back(static_cast<std::uint8_t>(random_()));
      return;
    }
    const std::size_t at = below(input.size());
    switch (below(8)) {
      case 0:
        input[at] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:
        input[at] = static_cast<std::uint8_t>(random_());
        break;
      case 2:
        overwrite_integer(input, at);
        break;
      case 3:
        input.resize(at);
        break;
      case 4:
        insert_part_of(input, at, input);
        break;
      case 5:
        insert_part_of(input, at, corpus_[below(corpus_.size())]);
        break;
      case 6:
        erase_part(input, at);
        break;
      default:
        input[at] = input[below(input.size())];
        break;
    }
  }
  // Integers at the edges of their ranges, or near the sizes that a file really has.
  void overwrite_integer(Input& input, std::size_t at) {
    constexpr std::uint64_t kEdges[] = {
        0,     1,     4,          5,          31,         32,         33,         255,
        65535, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ull << 60, ~0ull >> 1, ~0ull};
    const std::uint64_t value =
        below(3) == 0 ? below(2 * input.size()) : kEdges[below(std::size(kEdges))];
    const std::size_t width = std::size_t{1} << below(4);
    std::memcpy(input.data() + at, &value, std::min(width, input.size() - at));
  }
  void insert_part_of(Input& input, std::size_t at, const Input& other) {
    if (other.empty()) return;
    const std::size_t begin = below(other.size());
    const std::size_t size = 1 + below(std::min<std::size_t>(other.size() - begin, 64));
    const Input part(other.begin() + static_cast<std::ptrdiff_t>(begin),
                     other.begin() + static_cast<std::ptrdiff_t>(begin + size));
    input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), part.begin(), part.end());
  }
  void erase_part(Input& input, std::size_t at) {
    const std::size_t size = 1 + below(std::min<std::size_t>(input.size() - at, 64));
    const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
    input.erase(begin, begin + static_cast<std::ptrdiff_t>(size));
  }

  const std::vector<Input>& corpus_;
  std::mt19937_64 random_;
};

std::uint64_t fuzz(const std::vector<Input>& corpus, long seconds, std::uint64_t seed) {
  Mutator mutator(corpus, seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::uint64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 64; i++, runs++) run(mutator.next());
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  long seconds = 0;
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> places;
  for (int i = 1; i < argc; i++) {
    const std::string_view argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      seconds = std::strtol(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      places.emplace_back(argument);
    }
  }
  current().crash_file = std::filesystem::path(argv[0]).filename().string() + "_crash.bin";
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    signal(signal_number, save_current_input);
  }
  const std::vector<Input> corpus = read_corpus(places);
  if (corpus.empty()) {
    fmt::print(stderr, "usage: {} [--seconds N] [--seed S] FILE_OR_FOLDER...\n", argv[0]);
    return 2;
  }
  for (const Input& input : corpus) run(input);
  const std::uint64_t runs = seconds > 0 ? fuzz(corpus, seconds, seed) : 0;
  fmt::print("{} corpus files, {} mutations, seed {}: no finding\n", corpus.size(), runs, seed);
  return 0;
}
