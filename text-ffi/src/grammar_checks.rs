//! What llguidance accepts and then fails at in the midst of a reply: found before the first token.
use crate::boundary::{Failure, Outcome, exhausted, invalid_argument};
use ahash::AHashSet;
use llguidance::TokenParser;
use llguidance::api::ParserLimits;
use llguidance::derivre::StateID;
use llguidance::earley::lexerspec::{LexemeIdx, LexerSpec};
use llguidance::earley::regexvec::{LexemeSet, RegexVec};
use llguidance::earley::{CGrammar, CSymIdx};

/// How many bytes a JSON text is followed for from one place, and to how many states it may lead
/// there: a mask looks at all tokens, which are as long.
const PROBE_BYTES: usize = 8;
const PROBE_STATES_MAX: usize = 3_000;
const PROBE_FUEL: u64 = 400_000; // 40 ms
/// Bytes of a text before the places that are looked at.
const PROBE_PLACES: [usize; 4] = [0, 3, 13, 60];

/// Fails where a reply could come to a place that nothing may follow, or never to an end: at a
/// terminal that matches no text, or at a rule that always needs itself.
pub fn check_ends(parser: &mut TokenParser) -> Outcome<()> {
    let all = parser.parser.grammar().lexer_spec().all_lexemes();
    let possible = parser.parser.with_recognizer(|recognizer| {
        let lexer = recognizer.lexer_mut();
        let state = lexer.start_state(&all);
        lexer.possible_lexemes(state).clone()
    });
    let grammar = parser.parser.grammar();
    let ending = Ending::of(grammar, &possible);
    match ending.trap(grammar) {
        None => Ok(()),
        Some(before) => Err(nothing_follows(grammar, &before)),
    }
}

fn nothing_follows(grammar: &CGrammar, before: &[CSymIdx]) -> Failure {
    let spec = grammar.lexer_spec();
    // The name of a property is a terminal with nothing in it but the name.
    let name = before.iter().rev().find_map(|&symbol| {
        let text = spec.lexeme_def_to_string(grammar.sym_data(symbol).lexeme?);
        let begin = text.find("\"\\\"")? + 3;
        let end = begin + text[begin..].find("\\\"\"")?;
        Some(text[begin..end].to_string()).filter(|name| !name.contains('\\'))
    });
    invalid_argument(match name {
        Some(name) => format!("{name}: no value satisfies what the schema asks for here"),
        None => "no value satisfies what a part of the schema asks for".to_string(),
    })
}

/// Which symbols have a text that ends.
struct Ending {
    symbols: Vec<CSymIdx>, // that the start leads to
    has_end: Vec<bool>,    // by symbol
}

impl Ending {
    fn of(grammar: &CGrammar, possible: &LexemeSet) -> Self {
        let symbols = reachable(grammar);
        let size = symbols.iter().map(|s| s.as_index() + 1).max().unwrap_or(0);
        let mut has_end = vec![false; size];
        // Rules by what they still wait for.
        let mut missing: Vec<(CSymIdx, usize)> = Vec::new();
        let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); size];
        let mut open = Vec::new();
        for &symbol in &symbols {
            let data = grammar.sym_data(symbol);
            let ends = match data.lexeme {
                Some(lexeme) => possible.contains(lexeme),
                None => data.is_nullable || data.gen_grammar.is_some(),
            };
            if ends {
                has_end[symbol.as_index()] = true;
                open.push(symbol);
            }
            for &rule in grammar.rules_of(symbol) {
                let (parts, _, _) = grammar.rule_rhs(rule);
                for part in parts {
                    waiting[part.as_index()].push(missing.len());
                }
                missing.push((symbol, parts.len()));
            }
        }
        while let Some(symbol) = open.pop() {
            for &rule in &waiting[symbol.as_index()] {
                let (whole, left) = &mut missing[rule];
                *left -= 1;
                if *left == 0 && !has_end[whole.as_index()] {
                    has_end[whole.as_index()] = true;
                    open.push(*whole);
                }
            }
        }
        Ending { symbols, has_end }
    }

    /// What comes before a symbol that has no end, where that is a text already.
    fn trap(&self, grammar: &CGrammar) -> Option<Vec<CSymIdx>> {
        for &symbol in &self.symbols {
            for &rule in grammar.rules_of(symbol) {
                let (parts, _, _) = grammar.rule_rhs(rule);
                let before = parts
                    .iter()
                    .take_while(|part| self.has_end[part.as_index()])
                    .count();
                let is_text = |part: &CSymIdx| {
                    let data = grammar.sym_data(*part);
                    data.lexeme.is_some() || !data.rules.is_empty()
                };
                if before < parts.len() && parts[..before].iter().any(is_text) {
                    return Some(parts[..before].to_vec());
                }
            }
        }
        None
    }
}

fn reachable(grammar: &CGrammar) -> Vec<CSymIdx> {
    let mut seen = AHashSet::from([grammar.start().as_index()]);
    let mut symbols = vec![grammar.start()];
    let mut next = 0;
    while next < symbols.len() {
        for &rule in grammar.rules_of(symbols[next]) {
            for &part in grammar.rule_rhs(rule).0 {
                if seen.insert(part.as_index()) {
                    symbols.push(part);
                }
            }
        }
        next += 1;
    }
    symbols
}

/// Fails for a pattern whose next few bytes lead to so many states that a mask would hit its
/// limits. Not all such places are found: what is beyond them is an error in the midst of a reply.
pub fn check_patterns(spec: &LexerSpec, limits: &ParserLimits) -> Outcome<()> {
    let failed = || exhausted("patterns and lengths that are too large to be followed");
    let mut machine = spec
        .to_regex_vec(&mut limits.clone())
        .map_err(|_| failed())?;
    let mut first_of_class = AHashSet::new();
    let bytes: Vec<u8> = (0..128) // the rest is the spelling of single letters
        .filter(|&byte| first_of_class.insert(machine.alpha().map(byte)))
        .collect();
    for index in spec.all_lexemes().iter() {
        if !follows(&mut machine, spec, index, &bytes) {
            return Err(failed());
        }
    }
    Ok(())
}

fn follows(machine: &mut RegexVec, spec: &LexerSpec, index: LexemeIdx, bytes: &[u8]) -> bool {
    let mut only = spec.alloc_lexeme_set();
    only.add(index);
    let first = machine.initial_state(&only);
    let mut state = machine.transition(first, b'"');
    if state.is_dead() {
        return true; // no text
    }
    let mut at = 0;
    machine.set_fuel(PROBE_FUEL);
    for place in PROBE_PLACES {
        while at < place {
            // Any way will do, but not always the same byte.
            let turn = (at * 7) % bytes.len();
            let ahead = bytes[turn..]
                .iter()
                .chain(&bytes[..turn])
                .find_map(|&byte| {
                    let next = machine.transition(state, byte);
                    (!next.is_dead()).then_some(next)
                });
            let Some(next) = ahead else {
                return !machine.has_error();
            };
            state = next;
            at += 1;
        }
        if !follows_from(machine, state, bytes) {
            return false;
        }
    }
    !machine.has_error()
}

fn follows_from(machine: &mut RegexVec, state: StateID, bytes: &[u8]) -> bool {
    let mut seen = AHashSet::from([state]);
    let mut row = vec![state];
    for _ in 0..PROBE_BYTES {
        let mut next_row = Vec::new();
        for &from in &row {
            for &byte in bytes {
                if machine.has_error() {
                    return false;
                }
                let next = machine.transition(from, byte);
                if !next.is_dead() && seen.insert(next) {
                    next_row.push(next);
                }
            }
        }
        if seen.len() > PROBE_STATES_MAX {
            return false;
        }
        if next_row.is_empty() {
            break;
        }
        row = next_row;
    }
    true
}
