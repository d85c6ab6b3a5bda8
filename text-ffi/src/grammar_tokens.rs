//! Tokens as llguidance wants them: a tree of their bytes, and how a text is cut. Where a grammar
//! leaves no choice, the text comes in the tokens that a prompt with the same text has, so that the
//! next turn finds them in the prompt cache.
use crate::tokenizer::Encoder;
use std::sync::Arc;
use toktrie::{TokTrie, TokenId, TokenizerEnv};

pub struct GrammarTokens {
    tree: TokTrie,
    encoder: Arc<Encoder>,
    present: Arc<[u32]>, // bit per token that can be sampled at all
    is_canonical: bool,
}

impl GrammarTokens {
    pub fn new(tree: TokTrie, encoder: Arc<Encoder>, present: Arc<[u32]>) -> Self {
        let mut tokens = GrammarTokens {
            tree,
            encoder,
            present,
            is_canonical: true,
        };
        // A tokenizer that puts a space before each text cannot cut the middle of one.
        tokens.is_canonical = ["a", " a", "{\"a\": \"", "\n\n"]
            .iter()
            .all(|text| tokens.cut(text).is_some());
        tokens
    }

    /// None where the tokens do not spell the text: it changes on its way, or there is none for it.
    fn cut(&self, text: &str) -> Option<Vec<TokenId>> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        self.encoder.encode(text, false, &mut ids).ok()?;
        let is_present = |&id: &u32| {
            let word = self.present.get(id as usize / 32);
            word.is_some_and(|word| word >> (id % 32) & 1 != 0)
        };
        (ids.iter().all(is_present) && self.tree.decode_raw(&ids) == text.as_bytes()).then_some(ids)
    }
}

impl TokenizerEnv for GrammarTokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.tree
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.tree.tokenize_with_greedy_fallback(bytes, |text| {
            self.cut(text)
                .unwrap_or_else(|| self.tree.greedy_tokenize(text.as_bytes()))
        })
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.is_canonical
    }
}
