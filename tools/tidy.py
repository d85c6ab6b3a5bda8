#!/usr/bin/env python3
"""Checks the house rules that a compiler does not: tidy.py [--root FOLDER] [--self-test]

One line per finding, `file:line: rule: what`, and exit status 1 when there is any. The rules:

includes      rooms include only what lies further down (ROOM_REACH); Boost.Asio and Beast only in
              http, Boost.JSON only in base and api; quoted paths start at src/ (in tests also at
              tests/ or beside the file)
size          a file has at most 600 lines, a function at most 70 (in tests 120)
columns       a line has at most 100 characters, unless it is one string literal
first-line    every source file starts with a comment that says what it is
shared-ptr    std::shared_ptr and its kin only around the stream channel: in api, http and their
              tests, in files that include api/stream_channel.h, directly or through other headers
banned        std::cout, std::regex, assert, throw, new, delete, using namespace; notes to do
listed        every .cpp under src/ and tests/ is named in a CMakeLists.txt or .cmake file
tracked-text  no absolute paths of a work machine, no host names of package registries
contraction   -ffp-contract=off for every target, and no flag that takes it back
"""
import argparse
import ast
import re
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
TEST_FUNCTION_LINES_MAX = 120  # tables of cases
COLUMNS_MAX = 100
# A line of test data: one string literal, whole. Cutting it would hide what is tested.
TEXT_LINE = re.compile(r"""\s*(\w+ = |\(?r?"\w+"[:,] )?[rbf]?(["']).*\2[,)]*""")
ROOM_REACH = {
    "base": ["base"],
    "kernels": ["kernels", "base"],
    "kv": ["kv", "kernels", "base"],
    "model": ["model", "kv", "kernels", "base"],
    "engine": ["engine", "model", "kv", "kernels", "base"],
    "text": ["text", "base"],
    "api": ["api", "engine", "text", "model", "kv", "kernels", "base"],
    "http": ["http", "api", "engine", "text", "model", "kv", "kernels", "base"],
    "cli": ["cli", "http", "api", "engine", "text", "model", "kv", "kernels", "base"],
}
FOREIGN_HEADERS = {"text": ["text_ffi.h"]}  # headers of our own that live outside src/
# Library headers -> the places that may include them.
FENCED_LIBRARIES = {
    r"<boost/(asio|beast)\b": ["src/http/", "tests/unit/http/"],
    r"<boost/json\b": ["src/base/", "src/api/", "tests/unit/base/", "tests/unit/api/"],
}
CPP_SUFFIXES = {".h", ".cpp", ".inc"}
SHARED = re.compile(r"\b(shared_ptr|make_shared|enable_shared_from_this|shared_from_this)\b")
SHARED_PLACES = ("src/api/", "src/http/", "tests/unit/api/", "tests/unit/http/")
STREAM_CHANNEL = "src/api/stream_channel.h"
BANNED_IN_CPP = [
    (re.compile(r"\bstd::cout\b"), "std::cout"),
    (re.compile(r"\bstd::(basic_)?regex\b"), "std::regex"),
    (re.compile(r"(?<!\w)assert\s*\("), "assert"),
    (re.compile(r"\bthrow\b"), "throw"),
    (re.compile(r"(?<!operator )\bnew\b"), "naked new"),
    (re.compile(r"(?<!operator )(?<!= )\bdelete\b"), "naked delete"),
    (re.compile(r"\busing\s+namespace\b"), "using namespace"),
]
# Split, so that this file does not find itself.
NOTE_WORDS = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(wo" r"rk|ro" r"ot)/\w")
REGISTRY_HOSTS = re.compile(
    r"\b(pypi\." r"org|pythonhosted\." r"org|index\.crates\." r"io|static\.crates\." r"io|"
    r"registry\.npmjs\." r"org|proxy\.golang\." r"org|docker\." r"io)\b")
CONTRACTION_OFF = "-ffp-contract=off"
CONTRACTION_BACK = re.compile(r"-ffp-contract=(fast|on)|-Ofast|-ffast-math|-funsafe-math")
SKIPPED_FOLDERS = {".git", "build", "target", "node_modules", "__pycache__", ".venv", ".cache"}


class Tree:
    """The files that are or may be committed: paths from the root, and their texts."""

    def __init__(self, root):
        self.root = Path(root)
        self.texts = {}
        for path in self._list():
            try:
                self.texts[path] = (self.root / path).read_text(encoding="utf-8")
            except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
                continue  # binary, a submodule, or removed but still in the index

    def _list(self):
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others",
                   "--exclude-standard"]
        if (self.root / ".git").exists():
            listing = subprocess.run(command, capture_output=True, text=True, check=False)
            if listing.returncode == 0:
                return sorted(set(listing.stdout.split("\0")) - {""})
        return sorted(
            str(path.relative_to(self.root)) for path in self.root.rglob("*")
            if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(self.root).parts))


def is_cpp(path):
    return PurePosixPath(path).suffix in CPP_SUFFIXES


def is_cmake(path):
    return path.endswith(".cmake") or PurePosixPath(path).name == "CMakeLists.txt"


def is_python(path, text):
    return path.endswith(".py") or (text.startswith("#!") and "python" in text.split("\n", 1)[0])


def is_source(path, text):
    return is_cpp(path) or is_cmake(path) or path.endswith(".rs") or is_python(path, text)


# ---- code without comments and strings -----------------------------------------------------------

# Rust's lifetimes ('a) are no character literals; C++ has digit separators (1'000).
CPP_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<raw>[^\s()\\]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'", re.S)
RUST_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|r(?P<raw>#*)".*?"(?P=raw)|"(?:\\.|[^"\\])*"|'
    r"'(?:\\[^\n']+|[^'\\\n])'", re.S)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_of(path, text):
    """The text with comments and literals blanked out; lines and columns stay."""
    tokens = RUST_TOKENS if path.endswith(".rs") else CPP_TOKENS
    return tokens.sub(lambda match: blank(match.group()), text)


def without_preprocessor(code):
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: blank(match.group()), code,
                  flags=re.M)


# ---- functions -----------------------------------------------------------------------------------

LABELS = re.compile(r"\A(\s*(public|private|protected)\s*:)*\s*")


def without_template_head(header):
    """Without the leading template<...>, whose angle brackets may hold classes and defaults."""
    while match := re.match(r"\s*template\s*<", header):
        depth, i = 1, match.end()
        while i < len(header) and depth > 0:
            depth += {"<": 1, ">": -1}.get(header[i], 0)
            i += 1
        header = header[i:]
    return header


def kind_of_block(header):
    """What the block after `header` is: scope (of declarations), function, or inner (the rest)."""
    header = without_template_head(LABELS.sub("", header, count=1))
    header = re.sub(r"\b(alignas|__attribute__|requires)\s*\((?:[^()]|\([^()]*\))*\)", " ", header)
    if "(" not in header:
        if re.search(r"\benum\b", header):
            return "inner"
        scopes = r"\b(namespace|class|struct|union|extern)\b"
        return "scope" if re.search(scopes, header) else "inner"
    header = re.sub(r"\boperator\s*[^\s\w(]+", "operator", header)
    outside = header
    while (shorter := re.sub(r"\([^()]*\)", "", outside)) != outside:
        outside = shorter
    return "inner" if "=" in outside else "function"


def cpp_functions(code):
    """(first line, lines) of every function, by matching braces; lambdas count to theirs."""
    code = without_preprocessor(code)
    found, blocks = [], []  # a block: (kind, paren depth outside, where its header began)
    paren, header_begin = 0, 0
    for i, char in enumerate(code):
        in_scope = not blocks or blocks[-1][0] == "scope"
        if char in "([":
            paren += 1
        elif char in ")]":
            paren = max(0, paren - 1)
        elif char == "{":
            kind = kind_of_block(code[header_begin:i]) if in_scope and paren == 0 else "inner"
            blocks.append((kind, paren, header_begin))
            paren = 0
            if kind == "scope":
                header_begin = i + 1
        elif char == "}" and blocks:
            kind, paren, begin = blocks.pop()
            if kind == "function":
                if re.match(r"\s*[,{]", code[i + 1:i + 200]):  # a member initialiser: x_{1}, ...
                    header_begin = begin
                    continue
                first = begin + LABELS.match(code[begin:i]).end()
                line = code.count("\n", 0, first) + 1
                found.append((line, code.count("\n", first, i) + 1))
            if kind != "inner":
                header_begin = i + 1
        elif char == ";" and in_scope and paren == 0:
            header_begin = i + 1
    return found


def rust_functions(code):
    found = []
    for match in re.finditer(r"\bfn\s+\w+", code):
        opening = re.compile(r"[{;]").search(code, match.end())
        if opening is None or opening.group() == ";":
            continue
        depth, i = 1, opening.end()
        while i < len(code) and depth > 0:
            depth += {"{": 1, "}": -1}.get(code[i], 0)
            i += 1
        line = code.count("\n", 0, match.start()) + 1
        found.append((line, code.count("\n", match.start(), i) + 1))
    return found


def python_functions(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(node.lineno, node.end_lineno - node.lineno + 1)
            for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]


# ---- rules: each yields (path, line, rule, what) -------------------------------------------------

def includes_of(text):
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r'\s*#\s*include\s*([<"][^>"]+)[>"]', line):
            yield number, match.group(1)


def check_includes(tree):
    for path, text in tree.texts.items():
        if not is_cpp(path) or not path.startswith(("src/", "tests/")):
            continue
        for line, included in includes_of(text):
            for library, places in FENCED_LIBRARIES.items():
                if re.match(library, included) and not path.startswith(tuple(places)):
                    yield path, line, "includes", f"{included}> belongs in {', '.join(places)} only"
            if included.startswith('"'):
                yield from check_quoted_include(tree, path, line, included[1:])


def check_quoted_include(tree, path, line, name):
    if path.startswith("tests/"):
        beside = str(PurePosixPath(path).parent / name)
        if not {f"src/{name}", f"tests/{name}", beside, f"text-ffi/{name}"} & tree.texts.keys():
            yield path, line, "includes", f'"{name}" is not under src/, tests/ or beside the file'
        return
    room, target = path.split("/")[1], name.split("/")[0]
    if name in FOREIGN_HEADERS.get(room, []):
        return
    reach = ROOM_REACH.get(room)
    if reach is None:
        yield path, line, "includes", f"src/{room} is no room; rooms are {', '.join(ROOM_REACH)}"
    elif target not in reach or "/" not in name:
        yield (path, line, "includes",
               f'{room} may not include "{name}"; it reaches {", ".join(reach)}')


def check_sizes(tree):
    for path, text in tree.texts.items():
        if not is_source(path, text):
            continue
        count = len(text.splitlines())
        if count > FILE_LINES_MAX:
            yield path, 1, "size", f"{count} lines, at most {FILE_LINES_MAX}"
        functions = []
        if is_cpp(path):
            functions = cpp_functions(code_of(path, text))
        elif path.endswith(".rs"):
            functions = rust_functions(code_of(path, text))
        elif is_python(path, text):
            functions = python_functions(text)
        for line, lines in functions:
            most = TEST_FUNCTION_LINES_MAX if path.startswith("tests/") else FUNCTION_LINES_MAX
            if lines > most:
                yield path, line, "size", f"a function of {lines} lines, at most {most}"


def check_columns(tree):
    for path, text in tree.texts.items():
        if not is_source(path, text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > COLUMNS_MAX and not TEXT_LINE.fullmatch(line):
                yield path, number, "columns", f"{len(line)} columns, at most {COLUMNS_MAX}"


def check_first_lines(tree):
    for path, text in tree.texts.items():
        if not is_source(path, text):
            continue
        lines = text.splitlines() or [""]
        first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
        starts = ("//", "/*") if is_cpp(path) or path.endswith(".rs") else ("#",)
        if is_python(path, text):
            starts = ("#", '"""', 'r"""')
        if not first.startswith(starts) or len(first.strip('/*#!" ')) < 8:
            yield path, 1, "first-line", "the first line is no comment that says what the file is"


def check_shared_pointers(tree):
    for path, text in tree.texts.items():
        if not is_cpp(path):
            continue
        uses = [(number, match.group())
                for number, line in enumerate(code_of(path, text).splitlines(), 1)
                if (match := SHARED.search(line))]
        if uses and not may_share(tree, path):
            for number, word in uses:
                yield path, number, "shared-ptr", f"{word} is for the stream channel only"


def may_share(tree, path):
    """Whether the file lies in api or http and reaches the stream channel's header."""
    if not path.startswith(SHARED_PLACES):
        return False
    waiting, seen = [path], set()
    while waiting:
        current = waiting.pop()
        if current == STREAM_CHANNEL:
            return True
        if current in seen or current not in tree.texts:
            continue
        seen.add(current)
        for _, included in includes_of(tree.texts[current]):
            name = included[1:]
            waiting += [f"src/{name}", f"tests/{name}", str(PurePosixPath(current).parent / name)]
    return False


def check_banned(tree):
    for path, text in tree.texts.items():
        if not is_source(path, text):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := NOTE_WORDS.search(line):
                yield path, number, "banned", f"{match.group()}: do it, or file an issue"
        if not is_cpp(path):
            continue
        code = without_preprocessor(code_of(path, text))
        for number, line in enumerate(code.splitlines(), 1):
            for pattern, name in BANNED_IN_CPP:
                if pattern.search(line):
                    yield path, number, "banned", name


def check_listed(tree):
    """A list may name a file by variables: matmul_${isa}.cpp stands for every matmul_*.cpp."""
    lists = [(PurePosixPath(path).parent, re.sub(r"#[^\n]*", "", text))
             for path, text in tree.texts.items() if is_cmake(path)]
    patterns = []
    for folder, text in lists:
        for token in re.findall(r"[\w./${}+-]+\.cpp", text):
            token = re.sub(r"^\$\{(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}/", "", token)
            if token.startswith("${CMAKE_SOURCE_DIR}/"):
                token = token.removeprefix("${CMAKE_SOURCE_DIR}/")
            else:
                token = str(folder / token)
            pattern = re.sub(r"\\\$\\\{\w+\\\}", r"\\w+", re.escape(token))
            patterns.append(re.compile(pattern))
    for path in tree.texts:
        if path.endswith(".cpp") and path.startswith(("src/", "tests/")):
            if not any(pattern.fullmatch(path) for pattern in patterns):
                yield path, 1, "listed", "no CMakeLists.txt or .cmake file names it"


def check_tracked_text(tree):
    for path, text in tree.texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if match := MACHINE_PATHS.search(line):
                yield path, number, "tracked-text", f"a path of a work machine: {match.group()}..."
            if match := REGISTRY_HOSTS.search(line):
                yield path, number, "tracked-text", f"a registry's host name: {match.group()}"


def check_contraction(tree):
    options = re.compile(r"target_compile_options\(\s*reprise_options\s+INTERFACE([^)]*)\)")
    makers = {path: text for path, text in tree.texts.items()
              if is_cmake(path) or PurePosixPath(path).name in ("CMakePresets.json", "Makefile")}
    stated = any(CONTRACTION_OFF in re.sub(r"#[^\n]*", "", match.group(1))
                 for text in makers.values() for match in options.finditer(strip_parens(text)))
    if not stated:
        yield ("cmake/RepriseRoom.cmake", 1, "contraction",
               f"reprise_options does not carry {CONTRACTION_OFF}")
    for path, text in makers.items():
        for number, line in enumerate(text.splitlines(), 1):
            if match := CONTRACTION_BACK.search(line.split("#")[0]):
                yield (path, number, "contraction",
                       f"{match.group()} lets results differ between ISAs")


def strip_parens(text):
    """CMake text without parentheses inside comments, so that a call ends at its own."""
    return re.sub(r"#[^\n]*", "", text)


RULES = [check_includes, check_sizes, check_columns, check_first_lines, check_shared_pointers,
         check_banned, check_listed, check_tracked_text, check_contraction]


def findings_of(root):
    tree = Tree(root)
    return sorted(finding for rule in RULES for finding in rule(tree))


# ---- self-test -----------------------------------------------------------------------------------

GOOD_CMAKE = """# Options.
target_compile_options(reprise_options INTERFACE
  -Wall  # all (of them)
  -ffp-contract=off)
"""
GOOD_TREE = {
    "cmake/RepriseRoom.cmake": GOOD_CMAKE,
    "src/kv/CMakeLists.txt": "# The kv room.\nreprise_room(kv SOURCES page.cpp ${MORE})\n",
    "src/kv/more.cmake": "# More sources.\nforeach(t a b)\nlist(APPEND MORE x_${t}.cpp)\n",
    "src/kv/x_a.cpp": "// Made by a loop in the list.\n",
    "src/kv/page.cpp": "// Pages: no assert( or throw here.\n#include \"kv/page.h\"\n"
                       "#include \"base/error.h\"\n#include <new>\n\nnamespace a {\n"
                       "Page::Page() : a_{1}, b_(2) {\n}\nstatic_assert(true);\n"
                       "void* operator new(unsigned long);\nint n = 1'000'000;\n}\n",
    "src/kv/page.h": "// A page of keys and values.\nstruct Page {\n  Page(const Page&) = delete;\n"
                     "  const char* text = \"throw new\";\n};\n",
    "src/api/desk.cpp": "// The desk, which shares stream channels.\n"
                        "#include \"api/stream_channel.h\"\nstd::shared_ptr<int> p;\n",
    "src/api/CMakeLists.txt": "# The api room.\nreprise_room(api SOURCES desk.cpp)\n",
    "src/base/error.h": "// Errors as values.\n",
    "src/api/stream_channel.h": "// The stream channel.\n",
    "tests/unit/kv/CMakeLists.txt": "# Tests of kv.\nreprise_test(kv SOURCES page_test.cpp)\n",
    "tests/unit/kv/page_test.cpp": "// Pages are pages.\n#include \"compare.h\"\n",
    "tests/unit/kv/compare.h": "// Compares pages.\n",
    "tools/run.py": "#!/usr/bin/env python3\n\"\"\"Runs the program.\"\"\"\n",
    "text-ffi/src/lib.rs": "//! The tokenizer library.\nfn f<'a>(s: &'a str) -> char { '{' }\n",
}


def function_of(lines, head="void f(int a) {"):
    return "\n".join([head] + ["  a();"] * (lines - 2) + ["}"]) + "\n"


def planted():
    """(path, text, rule): each text alone must bring exactly that rule to speak."""
    head = "// A planted violation.\n"
    kv = "src/kv/page.cpp"
    yield kv, head + '#include "model/model.h"\n', "includes"
    yield kv, head + '#include "page.h"\n', "includes"
    yield kv, head + "#include <boost/asio/post.hpp>\n", "includes"
    yield kv, head + "#include <boost/json.hpp>\n", "includes"
    yield "src/base/error.h", head + '#include "kernels/math.h"\n', "includes"
    yield "src/api/stream_channel.h", head + '#include "http/server.h"\n', "includes"
    yield "tests/unit/kv/page_test.cpp", head + '#include "nowhere.h"\n', "includes"
    yield kv, head * 601, "size"
    yield kv, head + function_of(71), "size"
    inside = "namespace a {\nclass B : public C {\n public:\n" + function_of(71) + "};\n}\n"
    yield kv, head + inside, "size"
    yield kv, head + function_of(71, "template <class T = int>\nA::A(T a) : a_{a}, b_(a) {"), "size"
    yield kv, head + function_of(71, "bool operator==(const A& a, const A& b) {"), "size"
    yield "text-ffi/src/lib.rs", head + function_of(71, "fn f<'a>(s: &'a str) {"), "size"
    yield "tools/run.py", "# Planted.....\ndef f():\n" + "    f()\n" * 70, "size"
    yield kv, head + "// " + "x" * 98 + "\n", "columns"
    yield kv, "#include <vector>\n", "first-line"
    yield "src/base/error.h", "// x\n", "first-line"
    yield "tools/run.py", "#!/usr/bin/env python3\nimport os\n", "first-line"
    yield "src/kv/CMakeLists.txt", "reprise_room(kv SOURCES page.cpp x_a.cpp)\n", "first-line"
    yield kv, head + "std::shared_ptr<int> p;\n", "shared-ptr"
    yield "src/api/desk.cpp", head + "auto p = std::make_shared<int>(1);\n", "shared-ptr"
    for word in ("std::cout << 1;", "std::regex r;", "assert(true);", "throw 1;",
                 "int* p = new int;", "delete p;", "using namespace std;", "// TO" "DO: later",
                 "// FIX" "ME"):
        yield kv, head + word + "\n", "banned"
    yield "src/kv/lost.cpp", head, "listed"
    yield "tests/unit/kv/lost_test.cpp", head, "listed"
    yield "src/kv/CMakeLists.txt", "# The list, with # page.cpp\n# page.cpp\n", "listed"
    yield "README.md", "see /wo" "rk/shared\n", "tracked-text"
    yield "Makefile", "\tpip install -i https://pypi." "org/simple x\n", "tracked-text"
    yield "cmake/RepriseRoom.cmake", GOOD_CMAKE.replace("-ffp-contract=off", "-O2"), "contraction"
    yield "cmake/RepriseRoom.cmake", GOOD_CMAKE.replace("-ffp", "# -ffp") + ")\n", "contraction"
    yield "src/api/CMakeLists.txt", "# Fast api.\nadd(desk.cpp -ffast-math)\n", "contraction"


def findings_of_texts(texts):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in texts.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return findings_of(folder)


def self_test():
    failures = [f"clean tree: {finding}" for finding in findings_of_texts(GOOD_TREE)]
    edge = {"src/kv/page.cpp": "// At the limits.\n" + function_of(70)}
    failures += [f"limits: {finding}" for finding in findings_of_texts(GOOD_TREE | edge)]
    count = 0
    for path, text, rule in planted():
        count += 1
        rules = {finding[2] for finding in findings_of_texts(GOOD_TREE | {path: text})}
        if rules != {rule}:
            failures.append(f"planted {path} {text[:90]!r}: found {sorted(rules)}, expected {rule}")
    print("\n".join(failures) or f"self-test: {count} planted violations found, clean trees pass")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    findings = findings_of(options.root)
    for path, line, rule, what in findings:
        print(f"{path}:{line}: {rule}: {what}")
    if not findings:
        print("tidy: no finding")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
