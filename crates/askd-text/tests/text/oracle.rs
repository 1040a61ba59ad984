//! What must hold for everything that is shown, said without the code that is tested.

use std::sync::LazyLock;

use regex::Regex;

/// What must never be in anything safe, by Unicode's own properties.
pub(crate) static DANGEROUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}\p{Bidi_Control}\p{Variation_Selector}",
        r"\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}[\p{Zs}--\ ]]",
        r"|[\p{Mn}\p{Me}]{5}"
    ))
    .unwrap()
});

/// What must never be in a line of a text: padding.
static PADDING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\ {33}|[^\ ]\ {16}|\ $").unwrap());

pub(crate) fn assert_inert(shown: &str) {
    if let Some(found) = DANGEROUS.find(shown) {
        panic!("{:?} is in {shown:?}", found.as_str());
    }
}

pub(crate) fn assert_safe(line: &str) {
    assert_inert(line);
    assert!(!PADDING.is_match(line), "padding in {line:?}");
}

/// Lines of a display may have a frame of ours (indentation, keys) before text with an indentation of its own.
pub(crate) fn assert_framed(line: &str) {
    assert_inert(line);
    assert!(!line.ends_with(' ') && !line.contains(&" ".repeat(100)), "padding in {line:?}");
}

/// Reads the marks back: the proof that nothing was dropped and that no two texts look the same.
pub(crate) fn read_back(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '⇥' => out.push('\t'),
            '↵' => out.push('\n'),
            '\\' if rest.starts_with("u{") => {
                let (mark, after) = rest[2..].split_once('}').unwrap();
                rest = after;
                out.push_str(&meaning(mark));
            }
            c => out.push(c),
        }
    }
    out
}

fn meaning(mark: &str) -> String {
    let char_of = |hex| char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
    let Some((count, what)) = mark.split_once(' ') else {
        return char_of(mark).to_string();
    };
    let count: usize = count.parse().unwrap();
    match what {
        "spaces" => " ".repeat(count),
        "tabs" => "\t".repeat(count),
        "newlines" => "\n".repeat(count),
        // It is a line of its own, so one of its line breaks is the join's.
        "empty lines" => "\n".repeat(count - 1),
        what => char_of(what.strip_prefix("× ").unwrap()).to_string().repeat(count),
    }
}
