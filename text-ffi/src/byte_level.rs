//! The byte alphabet of byte-level BPE (GPT-2): one printable character for each of the 256 bytes.
use ahash::AHashMap;

pub struct ByteLevelAlphabet {
    bytes: AHashMap<char, u8>,
}

impl ByteLevelAlphabet {
    pub fn new() -> Self {
        // Printable bytes stand for themselves, the others for U+0100 and up, in order.
        let mut next = 0x100u32;
        let bytes = (0..=255u8)
            .filter_map(|byte| {
                let printable =
                    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF).then_some(byte as char);
                let character = printable.or_else(|| {
                    next += 1;
                    char::from_u32(next - 1)
                });
                character.map(|character| (character, byte))
            })
            .collect();
        ByteLevelAlphabet { bytes }
    }

    /// The bytes that `token` spells. A token with a character outside the alphabet spells itself.
    pub fn decode(&self, token: &str) -> Vec<u8> {
        token
            .chars()
            .map(|character| self.bytes.get(&character).copied())
            .collect::<Option<Vec<u8>>>()
            .unwrap_or_else(|| token.as_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_the_alphabet_and_leaves_other_text() {
        let alphabet = ByteLevelAlphabet::new();
        assert_eq!(alphabet.bytes.len(), 256);
        assert_eq!(alphabet.decode("ĠaĊÃ©"), " a\né".as_bytes());
        assert_eq!(alphabet.decode("日"), "日".as_bytes());
    }
}
