//! SentencePiece BPE with byte fallback: of all neighbours that form a token, the best-scored pair
//! merges first. Gives the ids of Hugging Face's merge-list form of the same vocabulary (merges
//! sorted by score, then by the pieces' lengths) without its maps, which take 60 MB for Gemma.
use crate::vocabulary::{SPACE_MARK, TokenType, Vocabulary};
use ahash::{AHashMap, AHashSet};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Words longer than this are not kept: they hardly come twice.
const CACHED_WORD_BYTES_MAX: usize = 64;
const CACHED_WORDS_MAX: usize = 20_000;

#[derive(Clone, Copy)]
struct Merge {
    rank: u32, // lower merges first
    token: u32,
}

pub struct ScoreEncoder {
    characters: AHashMap<char, u32>,
    byte_tokens: Option<Box<[u32; 256]>>, // None unless all bytes have a token
    unknown: Option<u32>,
    merges: AHashMap<(u32, u32), Merge>,
    // A text may be cut into words before a space mark, except after these: tokens cross there.
    joined_before_space: AHashSet<char>,
    add_space_prefix: bool,
}

/// One pair of tokens that forms a token, with what decides its rank.
struct Pair {
    score_rank: u32,
    left_length: u32,
    right_length: u32,
    left: u32,
    right: u32,
    token: u32,
}

impl ScoreEncoder {
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let ids: AHashMap<&str, u32> = vocabulary
            .tokens
            .iter()
            .zip(0u32..)
            .map(|(token, id)| (token.as_ref(), id))
            .collect();
        let mut encoder = ScoreEncoder {
            characters: AHashMap::new(),
            byte_tokens: byte_tokens(&ids),
            unknown: vocabulary.unknown,
            merges: AHashMap::new(),
            joined_before_space: AHashSet::new(),
            add_space_prefix: vocabulary.add_space_prefix,
        };
        let mut pairs = Vec::with_capacity(2 * vocabulary.tokens.len());
        for (score_rank, id) in ranked_tokens(vocabulary) {
            let token = vocabulary.tokens[id as usize].as_ref();
            encoder.note_characters(token, id);
            push_pairs(&mut pairs, &ids, token, score_rank, id);
        }
        pairs.sort_unstable_by_key(|pair| {
            let longest_first = (
                std::cmp::Reverse(pair.left_length),
                std::cmp::Reverse(pair.right_length),
            );
            (
                pair.score_rank,
                longest_first,
                pair.token,
                pair.left,
                pair.right,
            )
        });
        encoder.merges.reserve(pairs.len());
        for (pair, rank) in pairs.iter().zip(0u32..) {
            encoder.merges.insert(
                (pair.left, pair.right),
                Merge {
                    rank,
                    token: pair.token,
                },
            );
        }
        encoder
    }

    fn note_characters(&mut self, token: &str, id: u32) {
        let mut characters = token.chars();
        let Some(mut previous) = characters.next() else {
            return;
        };
        if characters.as_str().is_empty() {
            self.characters.insert(previous, id);
        }
        for character in characters {
            if character == SPACE_MARK && previous != SPACE_MARK {
                self.joined_before_space.insert(previous);
            }
            previous = character;
        }
    }

    /// Appends the ids of `text`. `words` holds what earlier calls for the same prompt found.
    pub fn encode(&self, text: &str, words: &mut WordCache, ids: &mut Vec<u32>) {
        let mut marked = String::with_capacity(text.len() + text.len() / 4);
        if self.add_space_prefix {
            marked.push(SPACE_MARK);
        }
        marked.extend(text.chars().map(|c| if c == ' ' { SPACE_MARK } else { c }));
        let (mut start, mut previous) = (0, SPACE_MARK);
        for (place, character) in marked.char_indices() {
            if self.is_word_start(previous, character) {
                self.encode_word(&marked[start..place], words, ids);
                start = place;
            }
            previous = character;
        }
        self.encode_word(&marked[start..], words, ids);
    }

    fn is_word_start(&self, previous: char, character: char) -> bool {
        character == SPACE_MARK
            && previous != SPACE_MARK
            && self.characters.contains_key(&SPACE_MARK)
            && !self.joined_before_space.contains(&previous)
    }

    fn encode_word(&self, word: &str, words: &mut WordCache, ids: &mut Vec<u32>) {
        if let Some(known) = words.ids.get(word) {
            ids.extend_from_slice(known);
            return;
        }
        let start = ids.len();
        words.merging.run(self, word, ids);
        if word.len() <= CACHED_WORD_BYTES_MAX && words.ids.len() < CACHED_WORDS_MAX {
            words.ids.insert(word.to_owned(), ids[start..].to_vec());
        }
    }
}

fn byte_tokens(ids: &AHashMap<&str, u32>) -> Option<Box<[u32; 256]>> {
    let mut tokens = Box::new([0; 256]);
    for (byte, token) in tokens.iter_mut().enumerate() {
        *token = *ids.get(format!("<0x{byte:02X}>").as_str())?;
    }
    Some(tokens)
}

/// The tokens that text can become with their rank by score; equal scores have equal ranks.
fn ranked_tokens(vocabulary: &Vocabulary) -> Vec<(u32, u32)> {
    let (scores, types) = (&vocabulary.scores, &vocabulary.types);
    let mut order: Vec<u32> = (0..vocabulary.tokens.len() as u32)
        .filter(|&id| {
            matches!(
                types[id as usize],
                TokenType::Normal | TokenType::UserDefined
            )
        })
        .collect();
    order.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
    let mut rank = 0;
    let mut previous = None;
    order
        .into_iter()
        .map(|id| {
            let score = scores[id as usize];
            rank += u32::from(previous.is_some_and(|previous: f32| previous != score));
            previous = Some(score);
            (rank, id)
        })
        .collect()
}

fn push_pairs(
    pairs: &mut Vec<Pair>,
    ids: &AHashMap<&str, u32>,
    token: &str,
    score_rank: u32,
    id: u32,
) {
    let length = token.chars().count() as u32;
    for ((place, _), left_length) in token.char_indices().zip(0u32..).skip(1) {
        let (left, right) = token.split_at(place);
        if let (Some(&left), Some(&right)) = (ids.get(left), ids.get(right)) {
            let right_length = length - left_length;
            pairs.push(Pair {
                score_rank,
                left_length,
                right_length,
                left,
                right,
                token: id,
            });
        }
    }
}

/// Reused while one prompt is encoded.
#[derive(Default)]
pub struct WordCache {
    ids: AHashMap<String, Vec<u32>>,
    merging: Merging,
}

#[derive(Default)]
struct Merging {
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Candidate>,
}

const NONE: u32 = u32::MAX;

/// A token of the word so far, in a list linked by places.
struct Symbol {
    previous: u32,
    next: u32,
    token: u32,
    merged: bool, // became part of the symbol to its left
}

#[derive(PartialEq, Eq)]
struct Candidate {
    rank: u32,
    place: u32,
    left: u32,
    right: u32,
    token: u32,
}

impl Ord for Candidate {
    /// The heap's greatest is the lowest rank, leftmost first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.rank, other.place).cmp(&(self.rank, self.place))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Merging {
    fn run(&mut self, encoder: &ScoreEncoder, word: &str, ids: &mut Vec<u32>) {
        self.start(encoder, word);
        for place in 1..self.symbols.len() {
            self.propose(encoder, place as u32 - 1, place as u32);
        }
        while let Some(candidate) = self.candidates.pop() {
            let place = candidate.place as usize;
            let next = self.symbols[place].next;
            let is_stale = self.symbols[place].merged
                || self.symbols[place].token != candidate.left
                || next == NONE
                || self.symbols[next as usize].token != candidate.right;
            if is_stale {
                continue;
            }
            let after = self.symbols[next as usize].next;
            self.symbols[next as usize].merged = true;
            self.symbols[place].token = candidate.token;
            self.symbols[place].next = after;
            if after != NONE {
                self.symbols[after as usize].previous = candidate.place;
                self.propose(encoder, candidate.place, after);
            }
            let before = self.symbols[place].previous;
            if before != NONE {
                self.propose(encoder, before, candidate.place);
            }
        }
        ids.extend(
            self.symbols
                .iter()
                .filter(|symbol| !symbol.merged)
                .map(|symbol| symbol.token),
        );
    }

    /// One symbol a character; a character without a token becomes its bytes, or else a run of such
    /// characters becomes one unknown token (or nothing when the vocabulary has none), as in
    /// Hugging Face's BPE.
    fn start(&mut self, encoder: &ScoreEncoder, word: &str) {
        self.symbols.clear();
        let mut in_unknown_run = false;
        for character in word.chars() {
            if let Some(&token) = encoder.characters.get(&character) {
                self.push_symbol(token);
                in_unknown_run = false;
            } else if let Some(tokens) = &encoder.byte_tokens {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    self.push_symbol(tokens[usize::from(byte)]);
                }
            } else if let Some(unknown) = encoder.unknown {
                if !in_unknown_run {
                    self.push_symbol(unknown);
                }
                in_unknown_run = true;
            }
        }
        if let Some(last) = self.symbols.last_mut() {
            last.next = NONE;
        }
    }

    fn push_symbol(&mut self, token: u32) {
        let place = self.symbols.len() as u32;
        let previous = place.checked_sub(1).unwrap_or(NONE);
        self.symbols.push(Symbol {
            previous,
            next: place + 1,
            token,
            merged: false,
        });
    }

    fn propose(&mut self, encoder: &ScoreEncoder, left_place: u32, right_place: u32) {
        let left = self.symbols[left_place as usize].token;
        let right = self.symbols[right_place as usize].token;
        if let Some(&Merge { rank, token }) = encoder.merges.get(&(left, right)) {
            self.candidates.push(Candidate {
                rank,
                place: left_place,
                left,
                right,
                token,
            });
        }
    }
}
