//! How long numbers of JSON schemas may become: llguidance bounds them by what the schema says, and
//! a schema that says nothing would let digits go on until a reply's tokens run out, or an exponent
//! that no reader of JSON can read.
use crate::boundary::Outcome;
use crate::grammar_failures::compile_failure;
use ahash::AHashSet;
use llguidance::api::ParserLimits;
use llguidance::derivre::{ExprRef, RegexAst};
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};

/// As llguidance spells them.
const NUMBER: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?";
/// Integers of 64 bits with a sign; fractions of 17 digits, which say all of a double, behind
/// zeros; exponents that keep within a double's.
const FRACTION: &str = r"(\.[0-9]{1,17})?";
const SMALL: &str = r"-?0\.0{1,40}[0-9]{1,17}";
const EXPONENT: &str = r"([eE][+-]?[0-9]{1,2})?";

/// `-?` and 0 to 9223372036854775807.
fn integer() -> String {
    let most = i64::MAX.to_string();
    let mut parts = vec![
        "0".to_string(),
        "[1-9][0-9]{0,17}".to_string(),
        most.clone(),
    ];
    for (at, digit) in most.bytes().enumerate() {
        let least = if at == 0 { b'1' } else { b'0' };
        if digit > least {
            let (first, last) = (least as char, (digit - 1) as char);
            let rest = most.len() - at - 1;
            parts.push(format!("{}[{first}-{last}][0-9]{{{rest}}}", &most[..at]));
        }
    }
    format!("-?({})", parts.join("|"))
}

fn readable() -> RegexAst {
    RegexAst::Or(vec![
        RegexAst::Regex(format!("{}{FRACTION}{EXPONENT}", integer())),
        RegexAst::Regex(format!("{SMALL}{EXPONENT}")),
    ])
}

/// Takes numbers that are too long from the lexemes of JSON schemas. A multipleOf is a machine of
/// many states, which the count of digits would multiply: it stays as it is.
pub fn bound_numbers(spec: &mut LexerSpec, limits: &ParserLimits) -> Outcome<()> {
    let lexemes = number_lexemes(spec, limits).map_err(|error| compile_failure(&error))?;
    if lexemes.is_empty() {
        return Ok(());
    }
    let bounds = {
        let number = RegexAst::Regex(NUMBER.into());
        let long = RegexAst::And(vec![number, RegexAst::Not(Box::new(readable()))]);
        RegexAst::Not(Box::new(long))
    };
    let bounds = spec.regex_builder.mk(&bounds);
    let bounds = bounds.map_err(|error| compile_failure(&error.to_string()))?;
    for at in lexemes {
        replace(spec, at, bounds).map_err(|error| compile_failure(&error))?;
    }
    Ok(())
}

/// Those of schemas (each has a class of its own; the grammar around them has the first) that a
/// number can be, and whose multiples nobody counts.
fn number_lexemes(spec: &LexerSpec, limits: &ParserLimits) -> Result<Vec<usize>, String> {
    let of_schemas: Vec<usize> = (0..spec.lexemes.len())
        .filter(|&at| spec.lexemes[at].class().as_usize() > 0)
        .collect();
    if of_schemas.is_empty() {
        return Ok(of_schemas);
    }
    let machine = spec.to_regex_vec(&mut limits.clone());
    let mut machine = machine.map_err(|error| error.to_string())?;
    let mut begins_number = |at: usize| {
        let mut only = spec.alloc_lexeme_set();
        only.add(LexemeIdx::new(at));
        let state = machine.initial_state(&only);
        [b'1', b'-']
            .iter()
            .any(|&byte| !machine.transition(state, byte).is_dead())
    };
    Ok(of_schemas
        .into_iter()
        .filter(|&at| {
            begins_number(at) && expression(spec, at).is_some_and(|e| !counts_multiples(spec, e))
        })
        .collect())
}

/// What a lexeme is, where it is one expression: llguidance only prints it.
fn expression(spec: &LexerSpec, at: usize) -> Option<ExprRef> {
    let shown = spec.lexemes[at].to_string(200, None);
    let (_, rest) = shown.split_once("(ExprRef ")?;
    rest.split_once(')')?.0.parse().ok().map(ExprRef::new)
}

fn counts_multiples(spec: &LexerSpec, whole: ExprRef) -> bool {
    let expressions = spec.regex_builder.exprset();
    let mut seen = AHashSet::from([whole.as_u32()]);
    let mut open = vec![whole];
    while let Some(one) = open.pop() {
        if format!("{:?}", expressions.get_tag(one)) == "RemainderIs" {
            return true;
        }
        for &part in expressions.get_args(one) {
            if seen.insert(part.as_u32()) {
                open.push(part);
            }
        }
    }
    false
}

/// Makes a new lexeme in the place, and with the number, of the old one.
fn replace(spec: &mut LexerSpec, at: usize, bounds: ExprRef) -> Result<(), String> {
    let Some(whole) = expression(spec, at) else {
        return Ok(());
    };
    let both = RegexAst::And(vec![RegexAst::ExprRef(whole), RegexAst::ExprRef(bounds)]);
    let mut behind = spec.lexemes.split_off(at);
    let class = std::mem::replace(&mut spec.current_class, behind[0].class());
    let added = spec.add_greedy_lexeme(String::new(), both, false, None, usize::MAX);
    spec.current_class = class;
    let is_new = spec.lexemes.len() > at;
    spec.lexemes.extend(behind.drain(usize::from(is_new)..));
    added.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use llguidance::derivre::RegexBuilder;

    #[test]
    fn readable_numbers_are_those_that_clients_read() {
        let mut builder = RegexBuilder::new();
        let whole = builder.mk(&readable()).unwrap();
        let mut machine = builder.to_regex(whole);
        for text in [
            "0",
            "-0",
            "-7",
            "9223372036854775807",
            "-9223372036854775807",
            "8999999999999999999",
            "0.5",
            "-12.25",
            "3.14159265358979312",
            "1e99",
            "2.5E-07",
            "0.00000000000000000001",
            "9223372036854775799",
            "1000000000000000000",
        ] {
            assert!(machine.is_match(text), "{text}");
        }
        for text in [
            "9223372036854775808",
            "10000000000000000000",
            "1e100",
            "2E480",
            "1.000000000000000001",
            "1e9868",
            "00",
            "9999999999999999999",
            "",
            "1.",
            "1234567890123456789012345678",
        ] {
            assert!(!machine.is_match(text), "{text}");
        }
    }
}
