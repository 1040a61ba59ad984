//! Characters that look like others, and letters that run from right to left.

use std::collections::HashMap;

use unicode_security::confusable_detection::skeleton;
use unicode_security::mixed_script::AugmentedScriptSet;

/// Letters of everyday spelling that only a table takes for others: æ is no ae.
const EVERYDAY: &[char] = &['æ', 'Æ', 'œ', 'Œ', 'þ', 'ĳ', 'Ĳ', 'ŉ', '¼', '½', '¾'];
/// Letters of everyday spelling in some languages; worth a word only in a host.
const EVERYDAY_BUT_FOR_HOSTS: &[char] = &['ı', 'Ɓ', 'ɓ', 'Ɗ', 'ɗ', 'Ƙ', 'ƙ', 'Ƴ', 'ƴ', 'ʼ'];
/// Letters that are like an ASCII letter only between others: a word made of them is a word of its language.
const FAINT: &[char] = &['г', 'ш', 'б', 'γ', 'υ', 'ν', 'ρ', 'Ƨ', 'Ȝ'];

/// What is wrong with a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lookalike {
    /// The ASCII text that it looks like; `None` when it only mixes scripts.
    pub(crate) like: Option<String>,
}

/// How closely a text is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Where it names something: paths, commands. Also words wholly of look-alikes, and look-alike punctuation.
    Name,
    /// Hosts: also scripts that do not belong together.
    Host,
    /// Anything else: only words in which a look-alike stands among ASCII letters.
    Text,
}

/// Looks characters up, each only once.
#[derive(Default)]
pub(crate) struct Lookalikes {
    known: HashMap<char, Option<Box<str>>>,
    /// Which of the first 65 536 characters are known to look like nothing in ASCII: most letters of most texts.
    plain: Vec<bool>,
}

impl Lookalikes {
    /// The ASCII text that a character looks like; `None` for ASCII itself and for what looks like nothing in it.
    fn like(&mut self, c: char) -> Option<&str> {
        if c.is_ascii() || EVERYDAY.contains(&c) {
            return None;
        }
        let code = u32::from(c) as usize;
        if self.plain.get(code) == Some(&true) {
            return None;
        }
        let like = self.known.entry(c).or_insert_with(|| ascii_skeleton(c)).as_deref();
        if like.is_none() && code < 0x10000 {
            self.plain.resize(0x10000, false);
            self.plain[code] = true;
        }
        like
    }

    /// What `token`, a text without blanks, pretends to be.
    pub(crate) fn of(&mut self, token: &str, care: Care) -> Option<Lookalike> {
        if token.is_ascii() {
            return None;
        }
        let is_suspect = token.split(|c: char| !is_letter(c)).any(|word| self.is_suspect(word, care))
            || care != Care::Text && self.has_punctuation(token);
        if is_suspect {
            let like = token.chars().fold(String::with_capacity(token.len()), |mut out, c| {
                match self.like(c) {
                    Some(like) => out.push_str(like),
                    None => out.push(c),
                }
                out
            });
            return Some(Lookalike { like: Some(like) });
        }
        let mixes = |part: &str| !part.is_ascii() && AugmentedScriptSet::for_str(part).is_empty();
        (care == Care::Host && token.split(['.', '-']).any(mixes)).then_some(Lookalike { like: None })
    }

    fn is_suspect(&mut self, word: &str, care: Care) -> bool {
        if word.is_ascii() {
            return false;
        }
        let (mut ascii, mut alike, mut faint, mut other) = (false, false, false, false);
        for c in word.chars() {
            if c.is_ascii() {
                ascii |= c.is_ascii_alphabetic();
            } else if self.like(c).is_none() || care != Care::Host && EVERYDAY_BUT_FOR_HOSTS.contains(&c) {
                other = true;
            } else if FAINT.contains(&c) {
                faint = true;
            } else {
                alike = true;
            }
        }
        // A look-alike among ASCII letters, or a word that could be read as ASCII from its first letter to its last.
        (alike || faint) && ascii || care != Care::Text && alike && !faint && !other
    }

    /// A sign that looks like one of ASCII, beside an ASCII letter or where an option begins.
    fn has_punctuation(&mut self, token: &str) -> bool {
        let mut before = None;
        let mut chars = token.chars().peekable();
        while let Some(c) = chars.next() {
            let beside = before.is_some_and(|b: char| b.is_ascii_alphanumeric())
                || chars.peek().is_some_and(char::is_ascii_alphanumeric);
            // The sign of a line break is ours.
            if beside && !matches!(c, '…' | '↵' | '⇥' | '×') && self.like(c).is_some_and(is_sign) {
                return true;
            }
            before = Some(c);
        }
        false
    }
}

fn ascii_skeleton(c: char) -> Option<Box<str>> {
    let like: String = skeleton(c.encode_utf8(&mut [0; 4])).collect();
    // Skeletons write some signs of ASCII in another way.
    let like = match like.as_str() {
        "rn" => "m",
        "''" => "\"",
        like => like,
    };
    (like.is_ascii() && !like.trim().is_empty()).then(|| like.into())
}

fn is_sign(like: &str) -> bool {
    like.bytes().all(|b| b.is_ascii_punctuation())
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii() && unicode_width::UnicodeWidthChar::width(c) == Some(0)
}

/// First and last code point of each range of letters (and of what belongs to the same scripts) that run from right to left,
/// ascending: the bidi classes R and AL, assigned or reserved for them.
const RIGHT_TO_LEFT: &[(u32, u32)] = &[
    (0x0590, 0x08ff),
    (0xfb1d, 0xfdcf),
    (0xfdf0, 0xfdff),
    (0xfe70, 0xfeff),
    (0x10800, 0x10fff),
    (0x1e800, 0x1efff),
];

/// Whether a character makes a terminal or browser show its surroundings in another order.
pub(crate) fn is_right_to_left(c: char) -> bool {
    let code = u32::from(c);
    code >= 0x590 && RIGHT_TO_LEFT.iter().any(|(first, last)| (*first..=*last).contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chars::{Class, class};

    fn like(token: &str, care: Care) -> Option<String> {
        Lookalikes::default().of(token, care).map(|found| found.like.unwrap_or_default())
    }

    #[test]
    fn s4_homographs_are_found() {
        for (token, shown) in [
            ("p\u{430}ypal", "paypal"),
            ("\u{430}\u{440}\u{440}\u{4cf}e", "apple"),
            ("\u{430}\u{440}\u{440}\u{4cf}\u{435}.com", "apple.com"),
            ("/usr/b\u{456}n/sudo", "/usr/bin/sudo"),
            ("\u{455}\u{455}h", "ssh"),
            ("r\u{1d5c6}", "rm"),
            ("github.com\u{2215}x", "github.com/x"),
            ("github.com\u{30ce}evil", "github.com/evil"),
            ("\u{2013}rf", "-rf"),
            ("a\u{ff1b}rm", "a;rm"),
            ("\u{ff52}\u{ff4d}", "rm"),
            ("c\u{3bf}de", "code"),
        ] {
            assert_eq!(like(token, Care::Name).as_deref(), Some(shown), "{token}");
        }
    }

    #[test]
    fn words_of_other_languages_are_left_alone() {
        for token in [
            "отчёт",
            "Москва",
            "гора",
            "λόγος",
            "naïve",
            "Straße",
            "smørrebrød",
            "æble",
            "cœur",
            "þing",
            "日本語",
            "ノート.txt",
            "資料：案.txt",
            "한국어",
            "café/résumé.pdf",
            "I/O",
            "שלום",
            "žluťoučký",
            "đường",
            "ß",
            "yazılım",
        ] {
            assert_eq!(like(token, Care::Name), None, "{token}");
            assert_eq!(like(token, Care::Text), None, "{token}");
        }
        // In talk, a word of look-alikes is a word, and a dash is a dash.
        for token in ["сор", "don’t", "a–b"] {
            assert_eq!(like(token, Care::Text), None, "{token}");
            assert!(like(token, Care::Name).is_some(), "{token}");
        }
        assert_eq!(like("müller.de", Care::Host), None);
        assert_eq!(like("例え.jp", Care::Host), None);
        assert_eq!(like("fooд.com", Care::Host), Some(String::new()));
        assert_eq!(like("g\u{131}thub.com", Care::Host).as_deref(), Some("github.com"));
    }

    #[test]
    fn s4_right_to_left_is_what_unicode_says() {
        use unicode_bidi::BidiClass::{AL, R};
        for c in ('\0'..=char::MAX).filter(|c| class(*c) != Class::Hidden) {
            if matches!(unicode_bidi::bidi_class(c), R | AL) {
                assert!(is_right_to_left(c), "{c:?}");
            } else if is_right_to_left(c) {
                // Digits, accents and signs of the same scripts.
                assert!(unicode_bidi::bidi_class(c) != unicode_bidi::BidiClass::L, "{c:?}");
            }
        }
    }
}
