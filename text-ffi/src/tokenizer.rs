//! Text to token ids: added tokens are cut out first, the rest goes to the vocabulary's encoder.
use crate::added_tokens::{AddedTokens, Piece};
use crate::boundary::{Outcome, TextBuffer, TextIds, TextSlice, guard, invalid_argument};
use crate::merge_encoder::MergeEncoder;
use crate::score_encoder::{ScoreEncoder, WordCache};
use crate::token_table::{TextTokenTable, TokenTable};
use crate::vocabulary::{Kind, TextVocabulary, Vocabulary};

enum Encoder {
    Scores(ScoreEncoder),
    Merges(MergeEncoder),
}

pub struct TextTokenizer {
    added: AddedTokens,
    encoder: Encoder,
    table: TokenTable,
    before: Option<u32>, // put around a text when special tokens are asked for
    after: Option<u32>,
}

impl TextTokenizer {
    fn new(vocabulary: &Vocabulary) -> Outcome<Self> {
        Ok(TextTokenizer {
            encoder: match vocabulary.kind {
                Kind::Scores => Encoder::Scores(ScoreEncoder::new(vocabulary)),
                Kind::Merges => Encoder::Merges(MergeEncoder::new(vocabulary)?),
            },
            added: AddedTokens::new(vocabulary)?,
            table: TokenTable::new(vocabulary)?,
            before: vocabulary.bos.filter(|_| vocabulary.add_bos),
            after: vocabulary.eos.filter(|_| vocabulary.add_eos),
        })
    }

    fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Outcome<Vec<u32>> {
        if i32::try_from(text.len()).is_err() {
            return Err(invalid_argument(format!(
                "text of {} bytes, expected at most 2147483647",
                text.len()
            )));
        }
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        let mut words = WordCache::default();
        ids.extend(self.before.filter(|_| add_special));
        for piece in self.added.split(text, parse_special) {
            match (piece, &self.encoder) {
                (Piece::Token(id), _) => ids.push(id),
                (Piece::Text(text), Encoder::Scores(encoder)) => {
                    encoder.encode(text, &mut words, &mut ids)
                }
                (Piece::Text(text), Encoder::Merges(encoder)) => encoder.encode(text, &mut ids)?,
            }
        }
        ids.extend(self.after.filter(|_| add_special));
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
