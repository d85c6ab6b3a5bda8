//! Text to token ids: added tokens are cut out first, the rest goes to the vocabulary's encoder.
use crate::added_tokens::{AddedTokens, Piece};
use crate::boundary::{Outcome, TextBuffer, TextIds, TextSlice, guard, invalid_argument};
use crate::json_tokenizer::{JsonEncoder, JsonTokenizer};
use crate::merge_encoder::MergeEncoder;
use crate::score_encoder::{ScoreEncoder, WordCache};
use crate::token_table::{TextTokenTable, TokenTable};
use crate::vocabulary::{Kind, TextVocabulary, Vocabulary};
use std::sync::Arc;

pub enum Encoder {
    Scores(AddedTokens, ScoreEncoder),
    Merges(AddedTokens, MergeEncoder),
    Json(Box<JsonEncoder>),
}

impl Encoder {
    pub fn of(vocabulary: &Vocabulary) -> Outcome<Self> {
        let added = AddedTokens::new(vocabulary)?;
        Ok(match vocabulary.kind {
            Kind::Scores => Encoder::Scores(added, ScoreEncoder::new(vocabulary)),
            Kind::Merges => Encoder::Merges(added, MergeEncoder::new(vocabulary)?),
        })
    }

    /// Nothing is put around the text.
    pub fn encode(&self, text: &str, parse_special: bool, ids: &mut Vec<u32>) -> Outcome<()> {
        match self {
            Encoder::Json(encoder) => encoder.encode(text, parse_special, ids)?,
            Encoder::Merges(added, encoder) => {
                for piece in added.split(text, parse_special) {
                    match piece {
                        Piece::Token(id) => ids.push(id),
                        Piece::Text(text) => encoder.encode(text, ids)?,
                    }
                }
            }
            Encoder::Scores(added, encoder) => {
                let mut words = WordCache::default();
                for piece in added.split(text, parse_special) {
                    match piece {
                        Piece::Token(id) => ids.push(id),
                        Piece::Text(text) => encoder.encode(text, &mut words, ids),
                    }
                }
            }
        }
        Ok(())
    }
}

pub struct TextTokenizer {
    encoder: Arc<Encoder>,
    table: TokenTable,
    before: Vec<u32>, // put around a text when special tokens are asked for
    after: Vec<u32>,
}

impl TextTokenizer {
    fn new(vocabulary: &Vocabulary) -> Outcome<Self> {
        Ok(TextTokenizer {
            encoder: Arc::new(Encoder::of(vocabulary)?),
            table: TokenTable::new(vocabulary)?,
            before: Vec::from_iter(vocabulary.bos.filter(|_| vocabulary.add_bos)),
            after: Vec::from_iter(vocabulary.eos.filter(|_| vocabulary.add_eos)),
        })
    }

    fn from_json(json: &[u8]) -> Outcome<Self> {
        let JsonTokenizer {
            encoder,
            table,
            before,
            after,
        } = JsonTokenizer::parse(json)?;
        Ok(TextTokenizer {
            encoder: Arc::new(Encoder::Json(Box::new(encoder))),
            table,
            before,
            after,
        })
    }

    pub fn encoder(&self) -> Arc<Encoder> {
        self.encoder.clone()
    }

    fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Outcome<Vec<u32>> {
        if i32::try_from(text.len()).is_err() {
            return Err(invalid_argument(format!(
                "text of {} bytes, expected at most 2147483647",
                text.len()
            )));
        }
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        if add_special {
            ids.extend_from_slice(&self.before);
        }
        self.encoder.encode(text, parse_special, &mut ids)?;
        if add_special {
            ids.extend_from_slice(&self.after);
        }
        Ok(ids)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_new(
    vocabulary: *const TextVocabulary,
    out: *mut *mut TextTokenizer,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let vocabulary = Vocabulary::from_lent(&*vocabulary)?;
            out.write(Box::into_raw(Box::new(TextTokenizer::new(&vocabulary)?)));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_from_json(
    json: TextSlice,
    out: *mut *mut TextTokenizer,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let tokenizer = TextTokenizer::from_json(json.bytes())?;
            out.write(Box::into_raw(Box::new(tokenizer)));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    text: TextSlice,
    add_special: bool,
    parse_special: bool,
    ids: *mut TextIds,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let text = text.text(&|| "text".into())?;
            TextIds::hand_over(ids, (*tokenizer).encode(text, add_special, parse_special)?);
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_find(
    tokenizer: *const TextTokenizer,
    spelling: TextSlice,
) -> i32 {
    let found = unsafe { (*tokenizer).table.find(spelling.bytes()) };
    found.map_or(-1, |id| id as i32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_tokenizer_table(tokenizer: *const TextTokenizer) -> TextTokenTable {
    unsafe { (*tokenizer).table.lend() }
}

/// The header promises that a tokenizer may be used by several threads at once.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<TextTokenizer>();
};
