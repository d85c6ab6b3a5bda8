//! What each token stands for, laid out so that the caller can read it without a call per token.
use crate::boundary::{Outcome, corrupt};
use crate::byte_level::ByteLevelAlphabet;
use crate::vocabulary::{Kind, SPACE_MARK, TokenType, Vocabulary};

/// Many byte strings, one after the other; string i is `bytes[offsets[i]..offsets[i + 1]]`.
pub struct PackedStrings {
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl PackedStrings {
    fn pack<S: AsRef<[u8]>>(strings: impl Iterator<Item = S>) -> Outcome<Self> {
        let mut packed = PackedStrings {
            bytes: Vec::new(),
            offsets: vec![0],
        };
        for string in strings {
            packed.bytes.extend_from_slice(string.as_ref());
            let offset = u32::try_from(packed.bytes.len())
                .map_err(|_| corrupt("the tokens take more than 4294967295 bytes"))?;
            packed.offsets.push(offset);
        }
        packed.bytes.shrink_to_fit();
        packed.offsets.shrink_to_fit();
        Ok(packed)
    }

    fn longest(&self) -> u32 {
        let sizes = self.offsets.windows(2).map(|pair| pair[1] - pair[0]);
        sizes.max().unwrap_or(0)
    }

    fn get(&self, index: u32) -> &[u8] {
        let index = index as usize;
        &self.bytes[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }
}

pub struct TokenTable {
    texts: PackedStrings,
    spellings: PackedStrings,
    by_spelling: Vec<u32>,
    special: Vec<u8>,
    missing: Vec<u32>,
    longest_text: u32,
}

/// One token of a `tokenizer.json`.
pub struct TokenEntry {
    pub spelling: String,
    pub text: Vec<u8>,
    pub special: bool,
}

/// `TextTokenTable` in the header.
#[repr(C)]
pub struct TextTokenTable {
    count: usize,
    bytes: *const u8,
    offsets: *const u32,
    special: *const u8,
    missing: *const u32,
    missing_count: usize,
    longest_text: u32,
}

impl TokenTable {
    pub fn new(vocabulary: &Vocabulary) -> Outcome<Self> {
        let alphabet = ByteLevelAlphabet::new();
        let texts = vocabulary
            .tokens
            .iter()
            .zip(&vocabulary.types)
            .map(|(token, &kind)| token_text(token, kind, vocabulary.kind, &alphabet));
        let texts = PackedStrings::pack(texts)?;
        // Two spellings in a text, " " and the longer one of the vocabulary, are the same to it.
        let longest_text = match vocabulary.kind {
            Kind::Merges => texts.longest(),
            Kind::Scores => vocabulary.tokens.iter().map(|t| t.len()).max().unwrap_or(0) as u32,
        };
        let mut by_spelling: Vec<u32> = (0..vocabulary.tokens.len() as u32).collect();
        by_spelling.sort_by_key(|&id| vocabulary.tokens[id as usize].as_bytes());
        Ok(TokenTable {
            texts,
            spellings: PackedStrings::pack(vocabulary.tokens.iter().map(|token| token.as_bytes()))?,
            by_spelling,
            special: vocabulary
                .types
                .iter()
                .map(|kind| u8::from(kind.is_special()))
                .collect(),
            missing: Vec::new(),
            longest_text,
        })
    }

    /// By id; holes have no token. `longest_text` as in the header.
    pub fn from_entries(entries: &[Option<TokenEntry>], longest_text: u32) -> Outcome<Self> {
        let (mut by_spelling, mut missing) = (Vec::new(), Vec::new());
        for (entry, id) in entries.iter().zip(0u32..) {
            let list = match entry {
                Some(_) => &mut by_spelling,
                None => &mut missing,
            };
            list.push(id);
        }
        let spelling = |id: u32| entries[id as usize].as_ref().map(|e| e.spelling.as_bytes());
        by_spelling.sort_by(|&a, &b| spelling(a).cmp(&spelling(b)));
        let texts = entries.iter().map(|entry| match entry {
            Some(entry) => entry.text.as_slice(),
            None => &[],
        });
        let is_special = |entry: &TokenEntry| u8::from(entry.special);
        Ok(TokenTable {
            texts: PackedStrings::pack(texts)?,
            spellings: PackedStrings::pack(
                (0..entries.len() as u32).map(|id| spelling(id).unwrap_or_default()),
            )?,
            by_spelling,
            special: entries
                .iter()
                .map(|entry| entry.as_ref().map_or(0, is_special))
                .collect(),
            missing,
            longest_text,
        })
    }

    /// The lowest id with exactly this spelling.
    pub fn find(&self, spelling: &[u8]) -> Option<u32> {
        let index = self
            .by_spelling
            .partition_point(|&id| self.spellings.get(id) < spelling);
        let id = *self.by_spelling.get(index)?;
        (self.spellings.get(id) == spelling).then_some(id)
    }

    pub fn lend(&self) -> TextTokenTable {
        TextTokenTable {
            count: self.special.len(),
            bytes: self.texts.bytes.as_ptr(),
            offsets: self.texts.offsets.as_ptr(),
            special: self.special.as_ptr(),
            missing: self.missing.as_ptr(),
            missing_count: self.missing.len(),
            longest_text: self.longest_text,
        }
    }
}

fn token_text(token: &str, kind: TokenType, form: Kind, alphabet: &ByteLevelAlphabet) -> Vec<u8> {
    if kind.is_special() {
        return token.as_bytes().to_vec();
    }
    match form {
        Kind::Merges if kind.is_added() => token.as_bytes().to_vec(),
        Kind::Merges => alphabet.decode(token),
        Kind::Scores => match byte_of(token) {
            Some(byte) => vec![byte],
            None => token.replace(SPACE_MARK, " ").into_bytes(),
        },
    }
}

/// The byte that a byte-fallback token such as `<0x0A>` stands for.
pub fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hexadecimal {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}
