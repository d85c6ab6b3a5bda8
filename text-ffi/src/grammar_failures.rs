//! What llguidance fails with, in one line that says what a client can change.
use crate::boundary::{Failure, exhausted, invalid_argument, unsupported};

const MESSAGE_CHARACTERS_MAX: usize = 300;

/// What llguidance says in words that no client can do anything with.
const KNOWN_MESSAGES: [(&str, &str); 8] = [
    (
        "lookarounds not supported yet",
        "a pattern with ^ behind, or $ before, what it matches is not supported",
    ),
    (
        "min/maxProperties only supported when",
        "minProperties or maxProperties beside optional properties is not supported",
    ),
    (
        "oneOf constraints are not supported",
        "oneOf is not supported where one value may satisfy several of its alternatives",
    ),
    (
        "Current row has",
        "the schema allows too much at one place: more than a step may look at",
    ),
    (
        "too many expressions constructed",
        "a pattern, a length or a multipleOf that is too large to be followed",
    ),
    (
        "too many states",
        "patterns and lengths that are too large to be followed",
    ),
    (
        "Unable to determine if regex is empty",
        "a pattern that is too large, perhaps with its length or format",
    ),
    (
        "circular references with sibling keys",
        "a $ref to itself with other keywords beside it is not supported",
    ),
];

/// The first line, without what llguidance adds around it.
pub fn one_line(message: &str) -> String {
    for (words, instead) in KNOWN_MESSAGES {
        if message.contains(words) {
            return instead.into();
        }
    }
    // What is wrong comes last, behind a drawing of where.
    if message.contains("regex parse error:") {
        let reason = message
            .lines()
            .find_map(|line| line.trim().strip_prefix("error: "));
        return format!(
            "a pattern is wrong: {}",
            reason.unwrap_or("no reason given")
        );
    }
    let mut line = message.lines().next().unwrap_or_default().trim();
    if line.starts_with("at ") {
        line = line.split_once("): ").map_or(line, |(_, rest)| rest); // a place in the Lark text
    }
    for words in ["failed to compile JSON schema: ", "lexer error: "] {
        line = line.strip_prefix(words).unwrap_or(line);
    }
    let mut text: String = line.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    if text.len() < line.len() {
        text.push_str("...");
    }
    text
}

pub fn compile_failure(whole: &str) -> Failure {
    let message = one_line(whole);
    let says = |words: &[&str]| words.iter().any(|word| whole.contains(word));
    if says(&[
        "too big",
        "too many",
        "schema too large",
        "fuel",
        "exceeded",
        "exceeds",
        "Unable to determine if regex is empty",
    ]) {
        exhausted(message)
    } else if says(&["Unimplemented keys", "Unknown format", "not supported"]) {
        unsupported(message)
    } else {
        invalid_argument(message)
    }
}

/// Whether a matcher came to one of its limits.
pub fn is_limit(error: &str) -> bool {
    ["too many states", "too many expressions", "Current row has"]
        .iter()
        .any(|words| error.contains(words))
}

pub fn step_failure(error: &str) -> Failure {
    // StopReason::NoExtensionBias; the matcher keeps its text only.
    if error.starts_with("NoExtensionBias") {
        return invalid_argument("no token of the vocabulary can follow");
    }
    exhausted(one_line(error))
}
