//! The one place that decides what in a config is a secret. People paste a bot's token where its file, its variable or
//! a command belongs; whatever askd says of a value, to whomever and wherever it is kept, went through here.

use sha2::{Digest, Sha256};

/// Shortest second half of a bot's token.
pub(crate) const LEAST: usize = 30;
/// Longest.
pub(crate) const MOST: usize = 100;

/// The same text for people, with its secrets covered; as it was when there is none in it.
pub(crate) fn covered(text: &str) -> String {
    cover(text).unwrap_or_else(|| text.to_owned())
}

/// The same text as a name for itself: with its secrets covered, and so many digits of its hash that no other text goes
/// by it; as it was when there is no secret in it.
pub(crate) fn named(text: &str) -> String {
    let Some(covered) = cover(text) else { return text.to_owned() };
    let hash = Sha256::digest(text.as_bytes());
    let digits: String = hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("{covered} (with its secret: {digits})")
}

/// Whether a value of this key that is wrong is better not told at all: the half of a token has no shape.
pub(crate) fn is_private(key: &str) -> bool {
    let words = ["token", "secret", "password", "pin", "key"];
    let lower = key.to_lowercase();
    lower.starts_with("telegram.token") || words.iter().any(|word| lower.contains(word))
}

/// Whether the half of a token may be in it: that has no shape but its length.
pub(crate) fn may_have_half(text: &str) -> bool {
    text.split(|c: char| !u8::try_from(c).is_ok_and(in_token)).any(|run| run.len() >= LEAST)
}

/// Whether a name of a variable looks more like the half of a token.
pub(crate) fn is_no_name(name: &str) -> bool {
    let has = |is: fn(&u8) -> bool| name.bytes().any(|c| is(&c));
    name.len() >= LEAST
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
}

fn cover(text: &str) -> Option<String> {
    // What looks like a mark of ours was marked by `safe`, so no text can forge a mask.
    let masked = askd_text::mask(&askd_text::safe(text).text);
    let (mut out, mut count) = (plain_marks(&masked.text), masked.count);
    // Whatever would be taken for a token is covered, also one that is not of today's shape.
    while let Some((start, end)) = token(&out) {
        out.replace_range(start..end, &format!("({} masked)", end - start));
        count += 1;
    }
    while let Some((start, end)) = half(&out) {
        out.replace_range(start..end, &format!("({} masked)", end - start));
        count += 1;
    }
    (count > 0).then_some(out)
}

/// `\u{36 masked}` as `(36 masked)`: what is said here is made safe once more by whoever shows it.
fn plain_marks(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, mark)) = rest.split_once("\\u{") {
        out.push_str(before);
        let masked = mark.split_once(" masked}").filter(|(len, _)| len.bytes().all(|c| c.is_ascii_digit()));
        rest = match masked {
            Some((len, after)) => {
                out.push_str(&format!("({len} masked)"));
                after
            }
            None => {
                out.push_str("\\u{");
                mark
            }
        };
    }
    out + rest
}

/// Where the second half of a bot's token is: digits, a colon, and it.
fn token(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    text.match_indices(':').find_map(|(colon, _)| {
        let before = &bytes[..colon];
        let digits = before.iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let ahead = &before[..colon - digits];
        // `sha256:…` is none, `bot123:…` is.
        let begins = digits >= 5
            || ahead.last().is_none_or(|c| !c.is_ascii_alphanumeric() && *c != b'_')
            || ahead.to_ascii_lowercase().ends_with(b"bot");
        let len = bytes[colon + 1..].iter().take_while(|c| in_token(**c)).count();
        (digits > 0 && begins && len >= LEAST).then_some((colon + 1, colon + 1 + len))
    })
}

/// Where the half of a token stands alone, as in `printf 4242:%s HALF`, or behind a colon that is written otherwise.
fn half(text: &str) -> Option<(usize, usize)> {
    let mut start = 0;
    for run in text.split(|c: char| !u8::try_from(c).is_ok_and(in_token)) {
        let end = start + run.len();
        if is_no_name(run) {
            return Some((start, end));
        }
        start = end + text[end..].chars().next().map_or(0, char::len_utf8);
    }
    None
}

pub(crate) fn in_token(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'-' || c == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: &str = "AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQ1";

    #[test]
    fn tokens_are_covered_wherever_they_stand() {
        for text in [
            format!("123456789:{HALF}"),
            format!("12:{HALF}zz"),
            format!("echo {:?}", format!("1:{HALF}")),
            format!("curl https://api.telegram.org/bot4242:{HALF}/sendMessage"),
            format!("x9876543:{HALF} y:{HALF} 55555:{HALF}"),
            // Put together only when it is run, or written in another way.
            format!("printf 4242:%s {HALF}"),
            format!("echo 4242:'{HALF}'"),
            format!("é{HALF}"),
            format!("https://api.telegram.org/bot4242%3A{HALF}"),
            HALF.to_owned(),
        ] {
            let (covered, named) = (covered(&text), named(&text));
            assert!(covered.contains(" masked)"), "{covered}");
            assert!(!covered.contains("AAbb"), "{covered}");
            assert!(named.starts_with(&covered) && named != covered);
        }
        for text in [
            "notify-send askd",
            "https://127.0.0.1:8081",
            "sha256:2c26b46b68ffc68ff99b453c1d30413413422d70",
            "/home/anna/.config/askd/TELEGRAM_TOKEN_OF_MY_LAPTOP_AT_HOME_2",
        ] {
            assert_eq!((covered(text), named(text)), (text.to_owned(), text.to_owned()));
        }
    }

    #[test]
    fn two_secrets_have_two_names() {
        let text = |end: &str| named(&format!("echo 123456789:{}{end}", &HALF[..33]));
        assert_ne!(text("x1"), text("x2"));
        assert_eq!(text("x1"), text("x1"));
    }

    #[test]
    fn the_half_of_a_token_is_no_name() {
        assert!(is_no_name(HALF));
        assert!(!is_no_name("TELEGRAM_BOT_TOKEN_OF_MY_LAPTOP_AT_HOME_2"));
        assert!(!is_no_name("askd_bot"));
    }
}
