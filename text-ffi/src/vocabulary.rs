//! A vocabulary as the caller lends it (`TextVocabulary` in the header), and its checked form.
use crate::boundary::{Outcome, TextSlice, corrupt, lent, unsupported};
use std::borrow::Cow;

/// SentencePiece's stand-in for a space.
pub const SPACE_MARK: char = '▁';

#[repr(C)]
pub struct TextVocabulary {
    kind: u8,
    add_bos: bool,
    add_eos: bool,
    add_space_prefix: bool,
    bos: i32,
    eos: i32,
    unknown: i32,
    tokens: *const TextSlice,
    token_count: usize,
    scores: *const f32,
    score_count: usize,
    types: *const u8,
    type_count: usize,
    merges: *const TextSlice,
    merge_count: usize,
    pre_tokenizer: TextSlice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Scores,
    Merges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenType {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenType {
    fn from_number(number: u8) -> Option<Self> {
        use TokenType::*;
        [Normal, Unknown, Control, UserDefined, Unused, Byte]
            .get(usize::from(number).checked_sub(1)?)
            .copied()
    }

    /// Special tokens stand for no text.
    pub fn is_special(self) -> bool {
        matches!(self, TokenType::Control | TokenType::Unknown)
    }

    /// Added tokens are found in the text before anything else looks at it.
    pub fn is_added(self) -> bool {
        self.is_special() || self == TokenType::UserDefined
    }
}

/// Counts agree, every text is UTF-8, every id names a token, every score is finite.
pub struct Vocabulary<'a> {
    pub kind: Kind,
    pub tokens: Vec<Cow<'a, str>>, // spelled as Hugging Face spells them
    pub types: Vec<TokenType>,
    pub scores: Cow<'a, [f32]>, // empty for merges
    pub merges: Vec<&'a str>,   // empty for scores
    pub pre_tokenizer: &'a str,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub add_bos: bool,
    pub add_eos: bool,
    pub add_space_prefix: bool,
}

impl<'a> Vocabulary<'a> {
    pub unsafe fn from_lent(lent_form: &TextVocabulary) -> Outcome<Self> {
        let kind = match lent_form.kind {
            0 => Kind::Scores,
            1 => Kind::Merges,
            other => {
                return Err(unsupported(format!(
                    "vocabulary kind {other}, expected 0 or 1"
                )));
            }
        };
        let count = lent_form.token_count;
        if count == 0 || i32::try_from(count).is_err() {
            return Err(corrupt(format!(
                "vocabulary of {count} tokens, expected 1 to 2147483647"
            )));
        }
        let (token_slices, type_numbers) = unsafe {
            (
                lent(lent_form.tokens, count),
                lent(lent_form.types, lent_form.type_count),
            )
        };
        let mut vocabulary = Vocabulary {
            kind,
            tokens: unsafe { texts(token_slices, "token")? }
                .into_iter()
                .map(Cow::Borrowed)
                .collect(),
            types: token_types(type_numbers, count)?,
            scores: Cow::Borrowed(&[]),
            merges: Vec::new(),
            pre_tokenizer: unsafe {
                lent_form
                    .pre_tokenizer
                    .text(&|| "pre-tokenizer name".into())
            }?,
            bos: token_id(lent_form.bos, count, "bos")?,
            eos: token_id(lent_form.eos, count, "eos")?,
            unknown: token_id(lent_form.unknown, count, "unknown")?,
            add_bos: lent_form.add_bos,
            add_eos: lent_form.add_eos,
            add_space_prefix: lent_form.add_space_prefix,
        };
        match kind {
            Kind::Scores => {
                let scores = unsafe { lent(lent_form.scores, lent_form.score_count) };
                check_scores(scores, count)?;
                vocabulary.scores = Cow::Borrowed(scores);
                vocabulary.respell_user_defined();
            }
            Kind::Merges => {
                let merges = unsafe { lent(lent_form.merges, lent_form.merge_count) };
                vocabulary.merges = unsafe { texts(merges, "merge")? };
            }
        }
        Ok(vocabulary)
    }

    /// GGUF keeps SentencePiece's user-defined tokens with plain spaces and a score far below all
    /// others; in Hugging Face's form they carry the space mark and their merges come first.
    fn respell_user_defined(&mut self) {
        for id in 0..self.tokens.len() {
            if self.types[id] != TokenType::UserDefined {
                continue;
            }
            self.scores.to_mut()[id] = 0.0;
            if self.tokens[id].contains(' ') {
                let respelled = self.tokens[id].replace(' ', "▁");
                self.tokens[id] = Cow::Owned(respelled);
            }
        }
    }
}

unsafe fn texts<'a>(slices: &[TextSlice], what: &str) -> Outcome<Vec<&'a str>> {
    slices
        .iter()
        .enumerate()
        .map(|(index, slice)| {
            unsafe { slice.text(&|| format!("{what} {index}")) }.map_err(|f| corrupt(f.message))
        })
        .collect()
}

fn token_types(numbers: &[u8], count: usize) -> Outcome<Vec<TokenType>> {
    if numbers.len() != count {
        return Err(corrupt(format!(
            "{} token types for {count} tokens",
            numbers.len()
        )));
    }
    numbers
        .iter()
        .enumerate()
        .map(|(id, &number)| {
            TokenType::from_number(number)
                .ok_or_else(|| corrupt(format!("token {id} has type {number}, expected 1 to 6")))
        })
        .collect()
}

fn token_id(id: i32, count: usize, name: &str) -> Outcome<Option<u32>> {
    match u32::try_from(id) {
        Err(_) => Ok(None),
        Ok(id) if (id as usize) < count => Ok(Some(id)),
        Ok(id) => Err(corrupt(format!(
            "{name} token is {id}, but there are {count} tokens"
        ))),
    }
}

fn check_scores(scores: &[f32], count: usize) -> Outcome<()> {
    if scores.len() != count {
        return Err(corrupt(format!(
            "{} scores for {count} tokens",
            scores.len()
        )));
    }
    match scores.iter().position(|score| !score.is_finite()) {
        Some(id) => Err(corrupt(format!("token {id} has the score {}", scores[id]))),
        None => Ok(()),
    }
}
