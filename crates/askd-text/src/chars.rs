//! Which characters cannot be shown as they are.

use unicode_script::{Script, UnicodeScript};
use unicode_width::UnicodeWidthChar;

/// How a character has to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Shown as it is.
    Plain,
    /// Drawn onto the character before it; shown as it is while there are few of them.
    Combining,
    /// Never shown as it is.
    Hidden,
}

/// First and last code point of each range that is never shown as it is, ascending. It holds the general
/// categories Cc (without tab and line feed, which have marks of their own), Cf, Zs (without the space), Zl, Zp and
/// Co, every default-ignorable code point (assigned or not), the noncharacters below the supplementary planes, and
/// the few visible-by-category characters that are blank in practice.
const HIDDEN: &[(u32, u32)] = &[
    (0x0000, 0x0008),
    (0x000b, 0x001f),
    (0x007f, 0x00a0), // DEL, C1, no-break space
    (0x00ad, 0x00ad),
    (0x034f, 0x034f),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x115f, 0x1160), // Hangul fillers
    (0x1680, 0x1680),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x2000, 0x200f), // spaces, zero-width characters, directional marks
    (0x2028, 0x202f), // separators, bidi embeddings and overrides
    (0x205f, 0x206f), // spaces, invisible operators, bidi isolates
    (0x2800, 0x2800), // blank Braille pattern
    (0x3000, 0x3000),
    (0x3164, 0x3164),
    (0xe000, 0xf8ff), // private use: each font draws what it likes
    (0xfdd0, 0xfdef),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfffc),
    (0xfffe, 0xffff),
    (0x110bd, 0x110bd),
    (0x110cd, 0x110cd),
    (0x13430, 0x1343f),
    (0x16fe4, 0x16fe4), // blank filler
    (0x1bca0, 0x1bca3),
    (0x1d159, 0x1d159), // null notehead
    (0x1d173, 0x1d17a),
    (0xe0000, 0xe0fff), // tags, variation selectors, reserved ignorables
    (0xf0000, 0x10ffff),
];

/// The class of `c`. The caller handles tab and line feed before asking.
pub(crate) fn class(c: char) -> Class {
    if (' '..='~').contains(&c) {
        return Class::Plain;
    }
    let code = u32::from(c);
    let is_hidden = HIDDEN
        .binary_search_by(|&(first, last)| {
            if last < code {
                std::cmp::Ordering::Less
            } else if first > code {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok();
    // The last two code points of every plane are noncharacters. What has no writing is no character yet: nobody can say
    // what a terminal makes of it.
    if is_hidden || code & 0xfffe == 0xfffe || c.script() == Script::Unknown {
        Class::Hidden
    } else if c.width() == Some(0) {
        Class::Combining
    } else {
        Class::Plain
    }
}

/// Whether the combining `c` is part of the writing of `letter`, directly behind `before` (the letter itself, or what is
/// drawn onto it already). On a letter of another writing a terminal may draw nothing at all of it, and what is read is
/// another word than what is written.
pub(crate) fn belongs(c: char, letter: char, before: char) -> bool {
    // A syllable of Korean in its parts: they are letters, in this order, and nothing by themselves.
    match c {
        '\u{1160}'..='\u{11a7}' | '\u{d7b0}'..='\u{d7c6}' => {
            return matches!(before, '\u{1100}'..='\u{115e}' | '\u{a960}'..='\u{a97c}');
        }
        '\u{11a8}'..='\u{11ff}' | '\u{d7cb}'..='\u{d7fb}' => {
            return matches!(before, '\u{1161}'..='\u{11a7}' | '\u{d7b0}'..='\u{d7c6}');
        }
        _ => {}
    }
    // Digits are of every writing, and stand among ASCII.
    let of = letter.script_extension();
    let of = if of.is_common() || of.is_inherited() { Script::Latin.into() } else { of };
    !c.script_extension().intersection(of).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_without_overlap() {
        for pair in HIDDEN.windows(2) {
            assert!(pair[0].0 <= pair[0].1 && pair[0].1 < pair[1].0, "{pair:x?}");
        }
    }

    #[test]
    fn ordinary_letters_of_many_scripts_are_plain() {
        for c in "aé漢字ひカ한Жяअक가ไก😀א ب~".chars().filter(|c| *c != ' ') {
            assert_eq!(class(c), Class::Plain, "{c:?}");
        }
    }

    #[test]
    fn accents_are_combining() {
        for c in ['\u{301}', '\u{5bf}', '\u{e31}', '\u{20dd}'] {
            assert_eq!(class(c), Class::Combining, "{c:?}");
        }
    }
}
