//! Added tokens (special and user-defined): found in the raw text before it is split any further,
//! leftmost first, the longest of several, as in Hugging Face's AddedVocabulary.
use crate::boundary::{Outcome, corrupt};
use crate::vocabulary::Vocabulary;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

pub enum Piece<'a> {
    Text(&'a str),
    Token(u32),
}

pub struct AddedTokens {
    spellings: AhoCorasick,
    tokens: Vec<(u32, bool)>, // id and whether it is special, by pattern
}

impl AddedTokens {
    pub fn new(vocabulary: &Vocabulary) -> Outcome<Self> {
        let (mut tokens, mut patterns) = (Vec::new(), Vec::new());
        for (id, (token, kind)) in vocabulary.tokens.iter().zip(&vocabulary.types).enumerate() {
            if kind.is_added() && !token.is_empty() {
                tokens.push((id as u32, kind.is_special()));
                patterns.push(token.as_ref());
            }
        }
        let spellings = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(AhoCorasickKind::ContiguousNFA)) // a DFA of 6,000 spellings takes 20 MB
            .build(patterns)
            .map_err(|error| corrupt(format!("added tokens: {error}")))?;
        Ok(AddedTokens { spellings, tokens })
    }

    /// Cuts `text` at its added tokens. Special ones stay text unless `parse_special`.
    pub fn split<'a>(&self, text: &'a str, parse_special: bool) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut end = 0;
        for found in self.spellings.find_iter(text) {
            let (id, special) = self.tokens[found.pattern().as_usize()];
            if special && !parse_special {
                continue;
            }
            if end < found.start() {
                pieces.push(Piece::Text(&text[end..found.start()]));
            }
            pieces.push(Piece::Token(id));
            end = found.end();
        }
        if end < text.len() {
            pieces.push(Piece::Text(&text[end..]));
        }
        pieces
    }
}
