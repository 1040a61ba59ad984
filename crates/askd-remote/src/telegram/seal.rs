//! What a button carries: verb, ask, and a seal over both and over what was shown.
//!
//! The seal is made with a secret of this installation, so a button that askd did not make for exactly this ask, content
//! and option answers nothing, and one that askd forgot (a lost reply, a restart) is still judged truly. Telegram gives
//! 64 bytes; this takes 41.

use askd_wire::Ask;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A secret of this installation, kept with the surface's state.
pub type Key = [u8; 32];

const TAG_BYTES: usize = 12;

/// What a button does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Allow,
    Deny,
    /// Deny, after asking for words.
    DenyWith,
    /// One of the agent's other options, by its place; asks once more first.
    Option(u8),
    /// The same, confirmed.
    Confirmed(u8),
    /// Back to the card as it was.
    Back,
}

impl Verb {
    fn code(self) -> [u8; 2] {
        match self {
            Self::Allow => [b'y', b'0'],
            Self::Deny => [b'n', b'0'],
            Self::DenyWith => [b'm', b'0'],
            Self::Option(at) => [b'o', digit(at)],
            Self::Confirmed(at) => [b'c', digit(at)],
            Self::Back => [b'b', b'0'],
        }
    }

    fn of(code: [u8; 2]) -> Option<Self> {
        let at = DIGITS.iter().position(|digit| *digit == code[1]).and_then(|at| u8::try_from(at).ok());
        Some(match (code[0], at?) {
            (b'y', 0) => Self::Allow,
            (b'n', 0) => Self::Deny,
            (b'm', 0) => Self::DenyWith,
            (b'o', at) => Self::Option(at),
            (b'c', at) => Self::Confirmed(at),
            (b'b', 0) => Self::Back,
            _ => return None,
        })
    }

    /// The place of the option that it is about.
    pub fn option(self) -> Option<usize> {
        match self {
            Self::Option(at) | Self::Confirmed(at) => Some(usize::from(at)),
            _ => None,
        }
    }
}

/// Options beyond so many have no button.
pub const MOST_OPTIONS: usize = DIGITS.len();
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn digit(at: u8) -> u8 {
    DIGITS.get(usize::from(at)).copied().unwrap_or(b'!')
}

/// A button's data as it came back, not judged yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub verb: Verb,
    /// The ask's id.
    pub ask: String,
    tag: Vec<u8>,
}

/// The data of a button.
pub fn seal(key: &Key, verb: Verb, ask: &Ask) -> String {
    let mut bytes = uuid_bytes(&ask.id).map(Vec::from).unwrap_or_default();
    bytes.extend(tag(key, verb, ask));
    let code: String = verb.code().map(char::from).iter().collect();
    format!("1{code}{}", encode(&bytes))
}

/// Reads it; what is not one of ours is `None`.
pub fn open(data: &str) -> Option<Sealed> {
    let rest = data.strip_prefix('1')?;
    let (code, rest) = (rest.get(..2)?, rest.get(2..)?);
    let verb = Verb::of(code.as_bytes().try_into().ok()?)?;
    let bytes = decode(rest)?;
    if bytes.len() != 16 + TAG_BYTES {
        return None;
    }
    let (id, tag) = bytes.split_at(16);
    Some(Sealed { verb, ask: uuid_text(id), tag: tag.to_vec() })
}

impl Sealed {
    /// Whether askd made this button for this ask, as it is.
    pub fn is_for(&self, key: &Key, ask: &Ask) -> bool {
        self.ask == ask.id && bool::from(self.tag.as_slice().ct_eq(tag(key, self.verb, ask).as_slice()))
    }
}

fn tag(key: &Key, verb: Verb, ask: &Ask) -> Vec<u8> {
    let option = verb.option().and_then(|at| ask.options.get(at)).map(|choice| choice.id.as_str());
    let mut inner = Sha256::new();
    inner.update(key);
    inner.update(verb.code());
    for part in [ask.id.as_str(), ask.digest.as_str(), option.unwrap_or("\0")] {
        inner.update((part.len() as u64).to_be_bytes());
        inner.update(part);
    }
    // Hashed again under the key, so that knowing one tag helps with no longer text.
    let mut outer = Sha256::new();
    outer.update(key);
    outer.update(inner.finalize());
    outer.finalize().iter().take(TAG_BYTES).copied().collect()
}

fn uuid_bytes(id: &str) -> Option<[u8; 16]> {
    let hex: Vec<u8> = id.bytes().filter(|byte| *byte != b'-').collect();
    let text = std::str::from_utf8(&hex).ok().filter(|text| text.len() == 32)?;
    Some(u128::from_str_radix(text, 16).ok()?.to_be_bytes())
}

fn uuid_text(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let cut = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", cut(0, 8), cut(8, 12), cut(12, 16), cut(16, 20), cut(20, 32))
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base 64 of a whole number of bits, without padding.
fn encode(bytes: &[u8]) -> String {
    let (mut out, mut held, mut bits) = (String::new(), 0_u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 6 {
            bits -= 6;
            out.push(char::from(LETTERS[((held >> bits) & 63) as usize]));
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        out.push(char::from(LETTERS[((held << (6 - bits)) & 63) as usize]));
    }
    out
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        held = (held << 6) | u32::try_from(value).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push(u8::try_from((held >> bits) & 255).ok()?);
        }
        held &= (1 << bits) - 1;
    }
    // One way to write each button: what is left over is nothing.
    (held == 0 && bits < 6).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telegram::samples;

    const KEY: Key = [7; 32];

    #[test]
    fn s5_a_button_fits_and_comes_back_as_it_was() {
        let ask = samples::ask("k7f");
        for verb in
            [Verb::Allow, Verb::Deny, Verb::DenyWith, Verb::Option(2), Verb::Confirmed(35), Verb::Back]
        {
            let data = seal(&KEY, verb, &ask);
            assert!(data.len() <= 64, "{data}");
            let sealed = open(&data).unwrap();
            assert_eq!((sealed.verb, sealed.ask.as_str()), (verb, ask.id.as_str()));
            assert!(sealed.is_for(&KEY, &ask));
        }
    }

    #[test]
    fn s5_a_forged_button_is_for_nothing() {
        let ask = samples::ask("k7f");
        let data = seal(&KEY, Verb::Deny, &ask);
        // Another verb with the same seal, another key, another content, another ask.
        let allow = open(&data.replacen("1n0", "1y0", 1)).unwrap();
        assert_eq!(allow.verb, Verb::Allow);
        assert!(!allow.is_for(&KEY, &ask));
        assert!(!open(&data).unwrap().is_for(&[8; 32], &ask));
        let mut other = ask.clone();
        other.digest = format!("sha256:{}", "1".repeat(64));
        assert!(!open(&data).unwrap().is_for(&KEY, &other));
        other = samples::ask("m2c");
        assert!(!open(&data).unwrap().is_for(&KEY, &other));
        // An option that is another one now.
        let data = seal(&KEY, Verb::Confirmed(2), &ask);
        let mut other = ask.clone();
        other.options[2].id = "everything".to_owned();
        assert!(!open(&data).unwrap().is_for(&KEY, &other));
        for text in
            ["", "1", "1y", "1y0", "2y0AAAA", "1y0é", "1x0", "1y0AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA!"]
        {
            assert_eq!(open(text), None, "{text}");
        }
    }

    #[test]
    fn s5_every_single_changed_letter_breaks_the_seal() {
        let ask = samples::ask("k7f");
        let data = seal(&KEY, Verb::Allow, &ask);
        for at in 0..data.len() {
            for letter in ['A', 'b', '0', '_', ' '] {
                let mut changed: Vec<char> = data.chars().collect();
                if changed[at] == letter {
                    continue;
                }
                changed[at] = letter;
                let changed: String = changed.into_iter().collect();
                assert!(!open(&changed).is_some_and(|sealed| sealed.is_for(&KEY, &ask)), "{changed}");
            }
        }
    }
}
