"""The strings that tokenizer goldens are made of: hand-picked corners and seeded random mixtures."""

import random

CORNERS = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\n\n\n\n",
    "\t",
    "\t\t\t",
    "\r\n",
    " \n ",
    "\n \n",
    "a",
    " a",
    "a ",
    "  a  ",
    "Hello, world!",
    "hello world",
    "HELLO WORLD",
    "The quick brown fox jumps over the lazy dog.",
    "I'm you're he'll we've they'd it's don't I'M IT'S",
    "don’t “quote” ‘single’ – dash — em…",
    "0",
    "1",
    "12",
    "123",
    "1234",
    "1234567890",
    "3.14159",
    "1,000,000",
    "1e-10",
    "0xDEADBEEF",
    "2024-11-30T12:34:56Z",
    "٠١٢٣٤٥",
    "１２３",
    "½ ⅓ ²³ ₁₂",
    "Ⅷ",
    "def f(x):\n    return x ** 2\n",
    "\tif (a) {\n\t\tb();\n\t}\n",
    "for(int i=0;i<n;++i){a[i]+=b[i];}",
    "<html><body><h1>Title</h1></body></html>",
    '{"key": [1, 2.5, null, true]}',
    "SELECT * FROM t WHERE a='b';",
    "https://example.com/a/b?c=d&e=f#g",
    "user.name+tag@example.co.uk",
    "C:\\Windows\\System32",
    "/usr/bin/env python3",
    "日本語のテキストです。",
    "中文文本，没有空格。",
    "한국어 문장입니다.",
    "Привет, мир!",
    "Γειά σου Κόσμε",
    "שלום עולם",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "ภาษาไทยไม่มีช่องว่าง",
    "Tiếng Việt có dấu",
    "ქართული",
    "አማርኛ",
    "བོད་ཡིག",
    "ᚠᛇᚻ",
    "𐎀𐎁𐎂",
    "𓂀 hieroglyph",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "naïve café",
    "nai\u0308ve cafe\u0301",
    "ﬁ ﬂ ligatures",
    "Å Å Å",
    "e\u0301\u0327\u0323",
    "ǅ ß ẞ İ ı",
    "😀",
    "😀😃😄",
    "👩‍🚀",
    "👨‍👩‍👧‍👦",
    "🧑🏽‍🔬",
    "🏳️‍🌈",
    "🇩🇪🇫🇷",
    "1️⃣",
    "a😀b",
    " 😀 ",
    "\u00a0non\u00a0breaking",
    "\u200bzero\u200bwidth",
    "\u2028line\u2029para",
    "\ufeffbom",
    "\u202ertl\u202c",
    "\u3000wide",
    "\u0001\u0002\u001f",
    "\u007f\u0080\u009f",
    "\ud7ff\ue000\uffff",
    "\U0010ffff",
    "\U000e0001\U000e0041",
    "\u2581",
    "a\u2581b",
    "\u2581\u2581",
    "\u0120x",
    "Ġ Ċ",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "x<unk>y",
    "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n",
    "<bos><bos>",
    "a<eos>b",
    " <eos> ",
    "<start_of_turn",
    "<start_of_turn><",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>",
    "a<|im_end|>b",
    "<|im_start|",
    "<|IM_START|>",
    "<0x41>",
    "<0x0A><0xFF>",
    "<unused5>",
    "<unused",
    "[multimodal]",
    "<start_of_image>",
    "<mask>",
    "<table><tr><td>x</td></tr></table>",
    "<h1> <h2>",
    "<repo_name>",
    "<file_sep>x",
    "<gh_stars>",
    "=" * 40,
    "-" * 100,
    "." * 33,
    "a" * 100,
    "ab" * 60,
    " " * 31,
    " " * 32,
    " " * 100,
    "\n" * 31,
    "\n" * 40,
    "\t" * 40,
    "!" * 17,
    "word" * 30,
    "😀" * 12,
    "日" * 40,
    "x " * 40,
    "\n " * 20,
    " \t\n" * 10,
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "CamelCaseIdentifier snake_case_identifier kebab-case",
    "MiXeD CaSe TeXt",
    "A.B.C.",
    "U.S.A. e.g. i.e. etc.",
    "$100.00 €50 £20 ¥1000 ₿",
    "50% off!!!",
    "a/b\\c|d",
    "~`@#$%^&*()_+-=[]{}|;':\",./<>?",
    "x² + y² = z²",
    "∀x∈ℝ: ∃y ≥ x",
    "∫₀^∞ e^{-x²} dx = √π/2",
    "H₂O → 2H⁺ + O²⁻",
    "→←↑↓⇒⇔",
    "♠♥♦♣ ♔♕♖",
    "░▒▓█▄▀",
    "①②③ ㈱ ㎏",
    'Dr. Smith\'s dog (aged 7½) barked; "Woof!" it said.',
    "1st 2nd 3rd 4th",
    "v1.2.3-rc.4+build.5",
    "__init__.py",
    "a\u0000".replace("\u0000", "\u0003"),
]

WORDS = (
    "the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you "
    "were all her she there would their we him been has when who will no more if out so up said what its about than into them "
    "can only other time new some could these two may first then do any like my now over such our man me even most made after "
    "Paris London Müller São Zürich naïve résumé coöperate 東京 北京 Москва Αθήνα القاهرة दिल्ली 서울 tokenization cache prefix "
    "window attention kernel snapshot restore int void return const std::vector self.weights np.array fn main() => {} [] () "
    "http://a.b 192.168.0.1 #include <stdio.h> print(f\"{x:.2f}\") 42 3.14 1000000 0b1010 100% C++ C# .NET I'm don't we'll"
).split(" ")
SPACES = [" "] * 12 + [
    "  ",
    "   ",
    "\n",
    "\n\n",
    "\t",
    "\n    ",
    "\r\n",
    " \n",
    "\u00a0",
    "",
    "",
    ", ",
    ". ",
    "-",
    "_",
]
RANGES = [
    (0x20, 0x7E),
    (0x20, 0x7E),
    (0xA0, 0xFF),
    (0x100, 0x17F),
    (0x370, 0x3FF),
    (0x400, 0x4FF),
    (0x590, 0x5FF),
    (0x600, 0x6FF),
    (0x900, 0x97F),
    (0xE00, 0xE7F),
    (0x1E00, 0x1EFF),
    (0x2000, 0x206F),
    (0x2190, 0x22FF),
    (0x2500, 0x25FF),
    (0x3040, 0x30FF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
    (0x1F300, 0x1F64F),
    (0x1F900, 0x1F9FF),
    (0x10000, 0x100FF),
    (0xE000, 0xE0FF),
    (0x20000, 0x200FF),
]


def make_strings(count, seed):
    """`count` different strings: the corners, then words, characters of one script, and of all."""
    generator = random.Random(seed)

    def words():
        return "".join(
            generator.choice(WORDS) + generator.choice(SPACES)
            for _ in range(generator.randint(2, 12))
        )

    def one_script():
        first, last = generator.choice(RANGES)
        return "".join(
            " " if generator.random() < 0.15 else chr(generator.randint(first, last))
            for _ in range(generator.randint(1, 24))
        )

    def all_scripts():
        return "".join(
            chr(generator.randint(*generator.choice(RANGES)))
            for _ in range(generator.randint(1, 16))
        )

    def mixed():
        return "".join(generator.choice([words, one_script, all_scripts])() for _ in range(2))

    strings = list(dict.fromkeys(CORNERS))
    seen = set(strings)
    while len(strings) < count:
        string = generator.choice([words, words, one_script, all_scripts, mixed])()
        if string not in seen:
            seen.add(string)
            strings.append(string)
    return strings
