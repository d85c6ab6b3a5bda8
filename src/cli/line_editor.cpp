// Keys bound to functions of ours, characters read by a function of ours: signals come in between.
#include "cli/line_editor.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <histedit.h>
#include <locale.h>
#include <optional>
#include <poll.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "cli/terminal_session.h"
#include "cli/typed_text.h"

namespace reprise {
namespace {

constexpr int kHistoryLines = 500;
constexpr wchar_t kInterrupt = 0x03;
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";
// The key that ends a line in libedit's own way; ours push it when they are done.
constexpr wchar_t kAccept[] = L"\x1e";
constexpr wchar_t* kEndOfList = nullptr;

// libedit asks the thread's locale how wide characters are and how they are written. Terminals are
// UTF-8 nowadays, whatever the environment says (in containers, mostly nothing).
class Utf8Locale {
 public:
  Utf8Locale() : mine_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (mine_ != nullptr) former_ = ::uselocale(mine_);
  }
  ~Utf8Locale() {
    if (mine_ == nullptr) return;
    ::uselocale(former_);
    ::freelocale(mine_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t mine_, former_ = nullptr;
};

struct EndEditor {
  void operator()(EditLine* line) const { ::el_end(line); }
};
struct EndHistory {
  void operator()(HistoryW* history) const { ::history_wend(history); }
};

wchar_t* prompt_text(EditLine*) {
  static wchar_t text[] = L"> ";
  return text;
}

bool can_mark_pastes() {
  const char* const name = std::getenv("TERM");
  return name != nullptr && *name != '\0' && std::string_view(name) != "dumb";
}

}  // namespace

struct LineEditor::State {
  explicit State(FILE* drawn_on) : screen(drawn_on), session(STDIN_FILENO, ::fileno(drawn_on)) {}

  bool start();
  int next_character(wchar_t& character);

  static State& of(EditLine* line);
  static int read_character(EditLine* line, wchar_t* character);
  static unsigned char on_enter(EditLine* line, wint_t key);
  static unsigned char on_other_line(EditLine* line, wint_t key);
  static unsigned char on_interrupt(EditLine* line, wint_t key);
  static unsigned char on_stop(EditLine* line, wint_t key);
  static unsigned char on_paste(EditLine* line, wint_t key);

  FILE* screen;
  Utf8Locale locale;
  TerminalSession session;
  std::unique_ptr<HistoryW, EndHistory> history;
  std::unique_ptr<EditLine, EndEditor> line;
  std::string typed;  // bytes that were read and not asked for yet
  bool interrupted = false;
};

LineEditor::State& LineEditor::State::of(EditLine* line) {
  State* state = nullptr;
  ::el_wget(line, EL_CLIENTDATA, &state);
  return *state;
}

bool LineEditor::State::start() {
  history.reset(::history_winit());
  line.reset(::el_init("reprise", stdin, screen, stderr));
  if (history == nullptr || line == nullptr) return false;
  EditLine* const editor = line.get();
  int can_edit = 0;  // not inside Emacs, which edits by itself
  if (::el_wget(editor, EL_EDITMODE, &can_edit) != 0 || can_edit == 0) return false;
  HistEventW event = {};
  ::history_w(history.get(), &event, H_SETSIZE, kHistoryLines);
  ::history_w(history.get(), &event, H_SETUNIQUE, 1);
  ::el_wset(editor, EL_CLIENTDATA, this);
  ::el_wset(editor, EL_HIST, ::history_w, history.get());
  ::el_wset(editor, EL_PROMPT, prompt_text);
  ::el_wset(editor, EL_EDITOR, L"emacs");
  ::el_wset(editor, EL_GETCFN, read_character);
  // Between two messages, while a reply is printed, what is typed waits unseen until it is asked
  // for; lines of the kernel's would end at 4095 bytes.
  ::el_wset(editor, EL_SETTY, L"-x", L"-icanon", L"-echo", kEndOfList);
  // At the prompt Ctrl-C and Ctrl-Z are keys, and line ends come as they are.
  ::el_wset(editor, EL_SETTY, L"-d", L"-isig", L"-inlcr", L"-icrnl", kEndOfList);
  ::el_wset(editor, EL_ADDFN, L"reprise-enter", L"End the message", on_enter);
  ::el_wset(editor, EL_ADDFN, L"reprise-line", L"Begin another line", on_other_line);
  ::el_wset(editor, EL_ADDFN, L"reprise-interrupt", L"Clear the message", on_interrupt);
  ::el_wset(editor, EL_ADDFN, L"reprise-stop", L"Back to the shell for a while", on_stop);
  ::el_wset(editor, EL_ADDFN, L"reprise-paste", L"Insert pasted text", on_paste);
  constexpr std::pair<const wchar_t*, const wchar_t*> kKeys[] = {
      {L"\\036", L"ed-newline"},         {L"^M", L"reprise-enter"},
      {L"^J", L"reprise-enter"},         {L"\\e^M", L"reprise-line"},
      {L"\\e^J", L"reprise-line"},       {L"^C", L"reprise-interrupt"},
      {L"^Z", L"reprise-stop"},          {L"\\e[200~", L"reprise-paste"},
      {L"^R", L"em-inc-search-prev"},    {L"\\e[3~", L"ed-delete-next-char"},
      {L"\\e[1~", L"ed-move-to-beg"},    {L"\\e[4~", L"ed-move-to-end"},
      {L"\\e[1;5C", L"em-next-word"},    {L"\\e[1;5D", L"ed-prev-word"},
      {L"\\eb", L"ed-prev-word"},        {L"\\ef", L"em-next-word"},
      {L"\\ed", L"em-delete-next-word"},
  };
  for (const auto& [key, function] : kKeys) ::el_wset(editor, EL_BIND, key, function, kEndOfList);
  // Otherwise letters such as an e with an accent would be what Alt and another letter are.
  for (wchar_t letter = 0xA0; letter <= 0xFF; letter++) {
    const wchar_t key[] = {letter, L'\0'};
    ::el_wset(editor, EL_BIND, key, L"ed-insert", kEndOfList);
  }
  return true;
}

// 1, or 0 at the end of what is typed, or -1.
int LineEditor::State::next_character(wchar_t& character) {
  while (!take_character(typed, character)) {
    pollfd ends[] = {{session.input(), POLLIN, 0}, {session.notices(), POLLIN, 0}};
    if (::poll(ends, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    const int notice = session.take_notice();
    if (notice == SIGINT) {
      character = kInterrupt;
      return 1;
    }
    if (notice == SIGWINCH) {
      ::el_resize(line.get());
      ::el_wset(line.get(), EL_REFRESH);
    }
    if (ends[0].revents == 0) continue;
    char bytes[4096];
    const ssize_t count = ::read(session.input(), bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return static_cast<int>(count);
    typed.append(bytes, static_cast<std::size_t>(count));
  }
  return 1;
}

int LineEditor::State::read_character(EditLine* line, wchar_t* character) {
  return of(line).next_character(*character);
}

unsigned char LineEditor::State::on_enter(EditLine* line, wint_t) {
  const LineInfoW* const info = ::el_wline(line);
  if (info->cursor == info->lastchar && info->cursor > info->buffer && info->cursor[-1] == L'\\') {
    el_wdeletestr(line, 1);
    ::el_winsertstr(line, L"\n");
    return CC_REFRESH;
  }
  ::el_wpush(line, kAccept);
  return CC_NORM;
}

unsigned char LineEditor::State::on_other_line(EditLine* line, wint_t) {
  return ::el_winsertstr(line, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::on_interrupt(EditLine* line, wint_t) {
  of(line).interrupted = true;
  ::el_wpush(line, kAccept);
  return CC_NORM;
}

// What the terminal does elsewhere; TerminalSession knows how to stop.
unsigned char LineEditor::State::on_stop(EditLine*, wint_t) {
  ::kill(0, SIGTSTP);
  return CC_NORM;
}

// All up to the mark that ends a paste. Ctrl-C gives one up whose end does not come.
unsigned char LineEditor::State::on_paste(EditLine* line, wint_t key) {
  std::wstring text;
  wchar_t character = 0;
  while (!text.ends_with(kPasteEnd)) {
    if (::el_wgetc(line, &character) != 1) return CC_EOF;
    if (character == kInterrupt) return on_interrupt(line, key);
    text += character;
  }
  text.resize(text.size() - kPasteEnd.size());
  text = pasted_text(text);
  if (text.empty()) return CC_NORM;
  return ::el_winsertstr(line, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

LineEditor::LineEditor(std::unique_ptr<State> state) : state_(std::move(state)) {}
LineEditor::~LineEditor() = default;

std::unique_ptr<LineEditor> LineEditor::open() {
  if (::isatty(STDIN_FILENO) != 1) return nullptr;
  FILE* const screen = ::isatty(STDOUT_FILENO) == 1   ? stdout
                       : ::isatty(STDERR_FILENO) == 1 ? stderr
                                                      : nullptr;
  if (screen == nullptr) return nullptr;
  auto state = std::make_unique<State>(screen);
  if (!state->start()) return nullptr;
  return std::make_unique<LineEditor>(std::move(state));
}

LineEditor::Input LineEditor::read() {
  State& state = *state_;
  state.session.forget_notices();
  state.interrupted = false;
  say("\n");
  if (can_mark_pastes()) state.session.mark_pastes(true);
  int count = 0;
  const wchar_t* const found = ::el_wgets(state.line.get(), &count);
  state.session.mark_pastes(false);
  if (found == nullptr || count <= 0) {
    say("\n");
    return {};
  }
  std::wstring text(found, static_cast<std::size_t>(count));
  if (text.ends_with(L'\n')) text.pop_back();
  if (state.interrupted) return {Event::interrupted, utf8_of(text)};
  HistEventW event = {};
  if (!is_blank(utf8_of(text))) ::history_w(state.history.get(), &event, H_ENTER, text.c_str());
  return {Event::line, utf8_of(text)};
}

void LineEditor::say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), state_->screen);
  std::fflush(state_->screen);
}

}  // namespace reprise
