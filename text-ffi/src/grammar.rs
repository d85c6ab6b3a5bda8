//! Which tokens may follow: llguidance's grammars over this library's vocabularies, with limits for
//! grammars that come from strangers.
use crate::boundary::{
    Outcome, Status, TextBuffer, TextSlice, corrupt, exhausted, guard, invalid_argument, io, lent,
};
use crate::grammar_checks::{check_ends, check_patterns};
use crate::grammar_failures::{compile_failure, is_limit, one_line, step_failure};
use crate::grammar_numbers::bound_numbers;
use crate::grammar_tokens::GrammarTokens;
use crate::tokenizer::{Encoder, TextTokenizer};
use llguidance::api::{GrammarInit, GrammarWithLexer, ParserLimits, TopLevelGrammar};
use llguidance::panic_utils::catch_unwind;
use llguidance::{Logger, Matcher, ParserFactory, TokenParser};
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};

/// Bytes of a grammar with the schemas in it.
const GRAMMAR_BYTES_MAX: usize = 2 << 20;
/// Where a larger grammar leaves no choice, the model cuts the text: one step looks at all of it.
const FORCING_GRAMMAR_BYTES_MAX: usize = 16 << 10; // 20 ms
const NO_FORCING: &str = "%llguidance {\"no_forcing\": true}\n";
/// llguidance's tree holds tokens up to 1024 bytes; longer ones are never allowed.
const TOKEN_BYTES_MAX: usize = 1000;
/// Chains of references make llguidance recurse; JSON's own depth is bounded by serde_json.
const COMPILE_STACK_BYTES: usize = 256 << 20;

/// Sets of texts that are decided at once, without walking the tree of their tokens. Each contains
/// the one before it. `<` is apart, because the text before a call ends with a tag.
const SLICES: [&str; 3] = [
    r#"[^"\\<\x00-\x1F\x7F]{1,30}"#,
    r#"[^"\\<\x00-\x1F\x7F]+"#,
    r"[^<\x00]+",
];

fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 20_000,
        initial_lexer_fuel: 1_000_000, // 20 ms
        step_lexer_fuel: 200_000,      // 15 ms
        step_max_items: 100_000,       // 5 ms
        max_lexer_states: 20_000,      // 40 MB
        max_grammar_size: 200_000,
        precompute_large_lexemes: false, // it takes long and is for many uses of one grammar
        verbose_errors: false,           // they would quote the prompt's schema and the reply
    }
}

/// For a step that needs more, once the work of the steps before it is forgotten.
fn wide_limits() -> ParserLimits {
    let usual = limits();
    ParserLimits {
        max_items_in_row: usual.max_items_in_row * 4,
        step_lexer_fuel: usual.step_lexer_fuel * 4,
        step_max_items: usual.step_max_items * 4,
        max_lexer_states: usual.max_lexer_states * 2,
        ..usual
    }
}

/// A vocabulary as grammars need it.
pub struct TextGrammarVocabulary {
    factory: Arc<ParserFactory>,
    present: Arc<[u32]>, // bit per token that can be sampled at all
}

impl TextGrammarVocabulary {
    /// `special`: 1 for tokens that stand for no text.
    fn new(
        encoder: Arc<Encoder>,
        tokens: &[TextSlice],
        special: &[u8],
        stop_ids: &[u32],
    ) -> Outcome<Self> {
        let size = tokens.len();
        let mut words = vec![Vec::new(); size];
        let mut present = vec![0u32; size.div_ceil(32)];
        for (id, (token, word)) in tokens.iter().zip(&mut words).enumerate() {
            let text = unsafe { token.bytes() };
            if text.is_empty() || text.len() > TOKEN_BYTES_MAX {
                continue;
            }
            if special[id] != 0 {
                word.push(TokTrie::SPECIAL_TOKEN_MARKER); // what no text contains
            }
            word.extend_from_slice(text);
            present[id / 32] |= 1 << (id % 32);
        }
        for &id in stop_ids {
            match present.get_mut(id as usize / 32) {
                Some(word) if (id as usize) < size => *word |= 1 << (id % 32),
                _ => return Err(corrupt(format!("stop token {id} of {size} tokens"))),
            }
        }
        let first = *stop_ids
            .first()
            .ok_or_else(|| invalid_argument("a grammar needs a stop token, got none"))?;
        let tree = TokTrie::from(&TokRxInfo::new(size as u32, first), &words);
        let present: Arc<[u32]> = present.into();
        let environment: TokEnv = Arc::new(GrammarTokens::new(
            tree.with_eos_tokens(stop_ids),
            encoder,
            present.clone(),
        ));
        let slices = SLICES.map(String::from);
        let mut factory =
            ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)
                .map_err(|error| corrupt(one_line(&error.to_string())))?;
        factory.quiet();
        *factory.limits_mut() = limits();
        Ok(TextGrammarVocabulary {
            factory: Arc::new(factory),
            present,
        })
    }

    fn compile(&self, lark: &str) -> Outcome<TextGrammar> {
        let is_forcing = lark.len() <= FORCING_GRAMMAR_BYTES_MAX;
        let head = if is_forcing { "" } else { NO_FORCING };
        let lark = &format!("{head}{lark}");
        let (parser, numbers) = match self.checked_parser(lark, Numbers::Readable) {
            Ok(parser) => (parser, Numbers::Readable),
            Err(failure) if failure.status == Status::Exhausted => return Err(failure),
            // There may be none but longer ones between a schema's bounds.
            Err(_) => (self.checked_parser(lark, Numbers::Any)?, Numbers::Any),
        };
        let matcher = Matcher::new(Ok(parser));
        // What can never begin is found here, not after the prompt was forwarded.
        let (mut first_choice, forced) = self.to_first_choice(&matcher);
        first_choice
            .compute_mask_or_eos()
            .map_err(|error| step_failure(&error.to_string()))?;
        Ok(TextGrammar {
            matcher,
            present: self.present.clone(),
            forced: forced.into(),
            tokens: Vec::new(),
            factory: self.factory.clone(),
            lark: lark.as_str().into(),
            numbers,
        })
    }

    fn checked_parser(&self, lark: &str, numbers: Numbers) -> Outcome<TokenParser> {
        let mut parser = parser_of(&self.factory, lark, numbers, limits())?;
        check_ends(&mut parser)?;
        if lark.contains("\"pattern\"") {
            check_patterns(parser.parser.grammar().lexer_spec(), &limits())?;
        }
        Ok(parser)
    }

    /// Behind what must come first in every reply; that in tokens where the grammar forces them.
    fn to_first_choice(&self, start: &Matcher) -> (Matcher, Vec<u32>) {
        let mut ahead = start.deep_clone();
        let forced = ahead.consume_ff_tokens();
        if forced.is_empty() {
            let bytes = ahead.compute_ff_bytes();
            let (tokens, _) = self.factory.tok_env().tokenize_bytes_marker(&bytes);
            if ahead.consume_tokens(&tokens).is_err() {
                return (start.deep_clone(), forced); // it is a place as good
            }
        }
        (ahead, forced)
    }
}

/// Which numbers schemas let through.
#[derive(Clone, Copy)]
enum Numbers {
    Readable,
    Any,
}

fn parser_of(
    factory: &ParserFactory,
    lark: &str,
    numbers: Numbers,
    limits: ParserLimits,
) -> Outcome<TokenParser> {
    let grammar = TopLevelGrammar::from_grammar(GrammarWithLexer::from_lark(lark.to_string()));
    let mut start = GrammarInit::Serialized(grammar);
    if matches!(numbers, Numbers::Readable) {
        let environment = Some(factory.tok_env().clone());
        let (symbols, mut lexemes) = catch_unwind(AssertUnwindSafe(|| {
            start.to_internal(environment, limits.clone())
        }))
        .map_err(|error| compile_failure(&error.to_string()))?;
        bound_numbers(&mut lexemes, &limits)?;
        start = GrammarInit::Internal(symbols, lexemes);
    }
    factory
        .create_parser_from_init_ext(
            start,
            Logger::new(factory.buffer_log_level(), factory.stderr_log_level()),
            InferenceCapabilities::default(),
            limits,
        )
        .map_err(|error| compile_failure(&error.to_string()))
}

/// Where one reply stands in its grammar.
pub struct TextGrammar {
    matcher: Matcher,
    present: Arc<[u32]>,
    forced: VecDeque<u32>, // what must follow, in the tokenizer's own tokens
    tokens: Vec<u32>,      // of the reply
    factory: Arc<ParserFactory>,
    lark: Arc<str>,
    numbers: Numbers,
}

impl TextGrammar {
    /// The same place in the same grammar, with a state of its own.
    fn copy(&self) -> Self {
        TextGrammar {
            matcher: self.matcher.deep_clone(),
            present: self.present.clone(),
            forced: self.forced.clone(),
            tokens: self.tokens.clone(),
            factory: self.factory.clone(),
            lark: self.lark.clone(),
            numbers: self.numbers,
        }
    }

    /// The same place with a new matcher. A matcher keeps the states of every text that it looked
    /// at, and in the end there are too many; only those on the way of this reply are needed.
    fn start_over(&mut self) -> Outcome<()> {
        let (factory, lark, numbers) = (&self.factory, &self.lark, self.numbers);
        let parser = on_deep_stack(|| parser_of(factory, lark, numbers, wide_limits()))?;
        let mut matcher = Matcher::new(Ok(parser));
        match matcher.try_consume_tokens(&self.tokens) {
            Ok(count) if count == self.tokens.len() => {
                self.matcher = matcher;
                Ok(())
            }
            Ok(count) => Err(corrupt(format!("a reply's token {count} is lost"))),
            Err(error) => Err(step_failure(&error.to_string())),
        }
    }

    fn mask(&mut self, words: &mut [u32]) -> Outcome<()> {
        if words.len() != self.present.len() {
            return Err(invalid_argument(format!(
                "a mask of {} words, expected {}",
                words.len(),
                self.present.len()
            )));
        }
        if self.forced.is_empty() {
            self.forced = self.matcher.compute_ff_tokens().into();
        }
        if let Some(&token) = self.forced.front() {
            words.fill(0);
            words[token as usize / 32] = 1 << (token % 32);
            return Ok(());
        }
        let mask = match self.matcher.compute_mask_or_eos() {
            Ok(mask) => mask,
            Err(error) if is_limit(&error.to_string()) => {
                self.start_over()?;
                let mask = self.matcher.compute_mask_or_eos();
                mask.map_err(|error| step_failure(&error.to_string()))?
            }
            Err(error) => return Err(step_failure(&error.to_string())),
        };
        for ((word, allowed), present) in words
            .iter_mut()
            .zip(mask.as_slice())
            .zip(self.present.iter())
        {
            *word = allowed & present;
        }
        Ok(())
    }

    /// Whether more may follow.
    fn advance(&mut self, token: u32) -> Outcome<bool> {
        let is_known = self
            .present
            .get(token as usize / 32)
            .is_some_and(|word| word >> (token % 32) & 1 != 0);
        if !is_known {
            return Err(invalid_argument(format!("there is no token {token}")));
        }
        let mut consumed = self.matcher.try_consume_tokens(&[token]);
        if matches!(&consumed, Err(error) if is_limit(&error.to_string())) {
            self.start_over()?;
            consumed = self.matcher.try_consume_tokens(&[token]);
        }
        match consumed {
            Ok(1) => {
                if self.forced.pop_front() != Some(token) {
                    self.forced.clear();
                }
                self.tokens.push(token);
                Ok(!self.matcher.is_stopped())
            }
            Ok(_) => Err(invalid_argument(format!(
                "token {token} is none that the grammar allows here"
            ))),
            Err(error) => Err(step_failure(&error.to_string())),
        }
    }
}

/// Runs `body` where recursion has room.
fn on_deep_stack<T: Send>(body: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("grammar".into())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn_scoped(scope, body)
            .map_err(|error| io(format!("no thread for a grammar: {error}")))?;
        match thread.join() {
            Ok(outcome) => outcome,
            Err(payload) => std::panic::resume_unwind(payload),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_vocabulary_new(
    tokenizer: *const TextTokenizer,
    tokens: *const TextSlice,
    special: *const u8,
    token_count: usize,
    stop_ids: *const u32,
    stop_count: usize,
    out: *mut *mut TextGrammarVocabulary,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let tokens = lent(tokens, token_count);
            let special = lent(special, token_count);
            let stop_ids = lent(stop_ids, stop_count);
            let encoder = (*tokenizer).encoder();
            let vocabulary = TextGrammarVocabulary::new(encoder, tokens, special, stop_ids)?;
            out.write(Box::into_raw(Box::new(vocabulary)));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_vocabulary_free(vocabulary: *mut TextGrammarVocabulary) {
    if !vocabulary.is_null() {
        drop(unsafe { Box::from_raw(vocabulary) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_compile(
    vocabulary: *const TextGrammarVocabulary,
    lark: TextSlice,
    out: *mut *mut TextGrammar,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let lark = lark.text(&|| "grammar".into())?;
            if lark.len() > GRAMMAR_BYTES_MAX {
                return Err(exhausted(format!(
                    "a grammar of {} bytes, expected at most {GRAMMAR_BYTES_MAX}",
                    lark.len()
                )));
            }
            let vocabulary = &*vocabulary;
            let grammar = on_deep_stack(|| vocabulary.compile(lark))?;
            out.write(Box::into_raw(Box::new(grammar)));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_free(grammar: *mut TextGrammar) {
    if !grammar.is_null() {
        drop(unsafe { Box::from_raw(grammar) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_copy(
    grammar: *const TextGrammar,
    out: *mut *mut TextGrammar,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            out.write(Box::into_raw(Box::new((*grammar).copy())));
            Ok(())
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_mask(
    grammar: *mut TextGrammar,
    words: *mut u32,
    word_count: usize,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            let words = match word_count {
                0 => &mut [],
                _ => std::slice::from_raw_parts_mut(words, word_count),
            };
            (*grammar).mask(words)
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn text_grammar_advance(
    grammar: *mut TextGrammar,
    token: u32,
    goes_on: *mut bool,
    error: *mut TextBuffer,
) -> i32 {
    unsafe {
        guard(error, || {
            goes_on.write((*grammar).advance(token)?);
            Ok(())
        })
    }
}

/// The header promises that a vocabulary may be used by several threads at once, and that a grammar
/// may move between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn movable<T: Send>() {}
    shared::<TextGrammarVocabulary>();
    movable::<TextGrammar>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{Failure, Status};
    use crate::vocabulary::{Kind, TokenType, Vocabulary};

    /// Every byte but 0xFF, then a stop token.
    fn bytes_vocabulary() -> TextGrammarVocabulary {
        let words: Vec<[u8; 1]> = (0..255).map(|byte| [byte]).collect();
        let mut tokens: Vec<TextSlice> = words.iter().map(|word| TextSlice::of(word)).collect();
        tokens.push(TextSlice::of(b"<end>"));
        let mut special = vec![0; 255];
        special.push(1);
        TextGrammarVocabulary::new(encoder_of_bytes(), &tokens, &special, &[255]).unwrap()
    }

    fn encoder_of_bytes() -> Arc<Encoder> {
        let tokens = (0..=255).map(|byte| format!("<0x{byte:02X}>").into());
        Arc::new(
            Encoder::of(&Vocabulary {
                kind: Kind::Scores,
                tokens: tokens.collect(),
                types: vec![TokenType::Byte; 256],
                scores: vec![0.0; 256].into(),
                merges: Vec::new(),
                pre_tokenizer: "",
                bos: None,
                eos: None,
                unknown: None,
                add_bos: false,
                add_eos: false,
                add_space_prefix: false,
            })
            .unwrap(),
        )
    }

    fn refusal(lark: &str) -> Failure {
        let outcome = on_deep_stack(|| bytes_vocabulary().compile(lark));
        outcome.err().expect("it is refused")
    }

    #[test]
    fn masks_hold_the_grammar() {
        let mut grammar = bytes_vocabulary().compile("start: /ab?/").unwrap();
        let mut mask = [0; 8];
        grammar.mask(&mut mask).unwrap();
        assert_eq!(mask, [0, 0, 0, 1 << (b'a' - 96), 0, 0, 0, 0]);
        assert!(grammar.advance(b'b'.into()).is_err());
        assert!(grammar.advance(b'a'.into()).unwrap());
        grammar.mask(&mut mask).unwrap();
        assert_eq!(mask, [0, 0, 0, 1 << (b'b' - 96), 0, 0, 0, 1 << 31]);
        assert!(!grammar.advance(b'b'.into()).unwrap());
        assert!(grammar.advance(256).is_err());
        assert!(grammar.mask(&mut mask[1..]).is_err());
    }

    #[test]
    fn refusals_say_what_a_client_can_change() {
        let cases = [
            (
                r#"start: %json {"oneOf": [{"type": "integer"}, {"type": "number"}]}"#,
                "oneOf is not supported where one value may satisfy several",
            ),
            (
                r#"start: %json {"type": "string", "pattern": "a(b"}"#,
                "a pattern is wrong: unclosed group",
            ),
        ];
        for (lark, says) in cases {
            let message = refusal(lark).message;
            assert!(message.starts_with(says), "{message}");
        }
    }

    #[test]
    fn refusals_say_why_in_one_line() {
        let cases = [
            (
                r#"start: %json {"type": "array", "contains": {}}"#,
                Status::Unsupported,
            ),
            (
                r#"start: %json {"type": "null", "const": 1}"#,
                Status::InvalidArgument,
            ),
            (
                r#"start: %json {"type": "integer", "multipleOf": 987654321}"#,
                Status::Exhausted,
            ),
            ("start: (", Status::InvalidArgument),
        ];
        for (lark, status) in cases {
            let failure = refusal(lark);
            assert_eq!(failure.status, status, "{}", failure.message);
            assert!(!failure.message.contains('\n'), "{}", failure.message);
            assert!(!failure.message.starts_with("at "), "{}", failure.message);
        }
    }

    /// Each letter leads to new states, of which a matcher keeps all.
    #[test]
    fn a_matcher_out_of_states_starts_over() {
        let lark = concat!(
            r#"start: %json {"type": "string", "maxLength": 5000, "#,
            r#""pattern": "[a-z]{3,50}[0-9]{3,50}[a-z]{3,50}"}"#
        );
        let text = || (b"\"".iter()).chain(b"abcd123 ".iter().cycle().take(4900));
        let vocabulary = bytes_vocabulary();
        let mut grammar = on_deep_stack(|| vocabulary.compile(lark)).unwrap();
        let mut alone = grammar.matcher.deep_clone();
        drop(vocabulary);
        let failed = text().find_map(|&byte| {
            let step = alone.compute_mask_or_eos();
            step.and_then(|_| alone.try_consume_tokens(&[byte.into()]))
                .err()
        });
        assert!(is_limit(&failed.expect("it is too long").to_string()));
        let (mut first, mut second) = ([0; 8], [0; 8]);
        for &byte in text() {
            grammar.mask(&mut first).unwrap();
            grammar.advance(byte.into()).unwrap();
        }
        let mut copy = grammar.copy();
        copy.start_over().unwrap();
        grammar.mask(&mut first).unwrap();
        copy.mask(&mut second).unwrap();
        assert_eq!(first, second);
    }

    #[test]
    fn what_could_never_end_is_refused() {
        let cases = [
            (
                "start: \"(\" a \")\" | \"x\"\na: \"(\" a \")\"",
                "no value satisfies",
            ),
            ("start: \"a\" B\nB: /x/ & /y/", "no value satisfies"),
            (
                concat!(
                    r##"start: %json {"type": "object", "properties": {"k": {"$ref": "#"}}, "##,
                    r#""required": ["k"]}"#
                ),
                "k: no value satisfies",
            ),
        ];
        for (lark, says) in cases {
            let failure = refusal(lark);
            assert_eq!(failure.status, Status::InvalidArgument);
            assert!(failure.message.starts_with(says), "{}", failure.message);
        }
    }
}
