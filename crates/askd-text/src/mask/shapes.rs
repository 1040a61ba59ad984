//! What secrets look like in one line.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Tokens that their first characters give away: what stays readable, and what is masked behind it.
const PREFIXED: &[(&str, &str)] = &[
    // Cloud providers.
    ("A(?:KIA|SIA|BIA|CCA)", "[A-Z2-7]{16}"),
    ("AIza", "[A-Za-z0-9_-]{35}"),
    ("ya29\\.", "[A-Za-z0-9_-]{20,}"),
    ("GOCSPX-", "[A-Za-z0-9_-]{20,}"),
    ("do[opr]_v1_", "[a-f0-9]{64}"),
    ("hvs\\.", "[A-Za-z0-9_-]{24,}"),
    ("dapi", "[a-f0-9]{32}"),
    // Where code lives.
    ("gh[pousr]_", "[A-Za-z0-9]{36,}"),
    ("github_pat_", "[A-Za-z0-9_]{22,}"),
    ("gl(?:pat|dt|rt|ptt|soat|cbt)-", "[A-Za-z0-9_-]{20,}"),
    ("npm_", "[A-Za-z0-9]{36}"),
    ("pypi-", "[A-Za-z0-9_-]{50,}"),
    ("cio", "[A-Za-z0-9]{32}"),
    ("dckr_(?:pat|oat)_", "[A-Za-z0-9_-]{20,}"),
    // Models.
    ("sk-(?:ant-|proj-|or-)?", "[A-Za-z0-9_-]{20,}"),
    ("hf_", "[A-Za-z0-9]{30,}"),
    ("gsk_", "[A-Za-z0-9]{40,}"),
    ("xai-", "[A-Za-z0-9]{40,}"),
    // Chat, mail, money.
    ("xox[abeoprs]-", "[A-Za-z0-9-]{10,}"),
    ("xapp-", "[A-Za-z0-9-]{20,}"),
    ("https://hooks\\.slack\\.com/(?:services|workflows)/", "[A-Za-z0-9/_-]{20,}"),
    ("https://discord(?:app)?\\.com/api/webhooks/", "[0-9]{10,}/[A-Za-z0-9_-]{20,}"),
    ("SG\\.", "[A-Za-z0-9_-]{16,}\\.[A-Za-z0-9_-]{16,}"),
    ("[rs]k_(?:live|test)_", "[A-Za-z0-9]{16,}"),
    ("whsec_", "[A-Za-z0-9+/=]{24,}"),
    ("lin_api_", "[A-Za-z0-9]{32,}"),
    // Keys and signed claims.
    ("eyJ", "[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]*"),
    ("AGE-SECRET-KEY-1", "[A-Z0-9]{58}"),
];

/// Shorter lines hold nothing but a URL's password: the shortest of all other shapes is `Bearer ` with 8 characters.
const MIN_LINE: usize = 15;

static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes: Vec<_> = PREFIXED.iter().map(|(kind, secret)| format!("(?:{kind}){secret}")).collect();
    // "ri" + "sk-…" is no token. The boundary is a part of the pattern, so that one search is enough for one line.
    compile(&format!("(?:^|(?u:[^A-Za-z0-9_-]))({})", shapes.join("|")))
});

/// The readable beginning of what [`TOKENS`] found.
static KINDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let kinds: Vec<_> = PREFIXED.iter().map(|(kind, _)| *kind).collect();
    compile(&format!("^(?:{})", kinds.join("|")))
});

/// `123456789:AA…`, also as `/bot123456789:AA…`.
static TELEGRAM: LazyLock<Option<Regex>> = LazyLock::new(|| compile(r"[0-9]{8,10}:(A[A-Za-z0-9_-]{34})"));

/// Headers and settings that say themselves that a secret follows.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    compile(concat!(
        r#"(?i-u)(?:\bbearer[ ]+|\bauthorization["']?[ ]*[:=][ ]*["']?(?:basic|token|digest)[ ]+"#,
        r#"|\b(?:x-api-key|api-key|x-auth-token|private-token|job-token|x-goog-api-key)["']?[ ]*:[ ]*["']?)"#,
        r#"([A-Za-z0-9._~+/=-]{8,})"#,
        r#"|\baws_(?:secret_access_key|session_token)["']?[ ]*[:=][ ]*["']?([A-Za-z0-9/+=]{40,})"#,
    ))
});

/// `scheme://user:password@host`.
static URLS: LazyLock<Option<Regex>> =
    LazyLock::new(|| compile(r"://[A-Za-z0-9._~%+-]*:([A-Za-z0-9._~%+=,:-]+)@"));

fn compile(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("(?-u){pattern}")).ok()
}

/// The bytes of `line` to be covered, in no order and perhaps overlapping.
pub(super) fn secrets(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (Some(tokens), Some(kinds), Some(telegram), Some(named), Some(urls)) =
        (TOKENS.as_ref(), KINDS.as_ref(), TELEGRAM.as_ref(), NAMED.as_ref(), URLS.as_ref())
    else {
        return found;
    };
    // Most lines are short, and the shortest secret of a shape is not.
    if line.len() >= MIN_LINE {
        self::tokens(tokens, kinds, line, &mut found);
        each(telegram, line, &mut found, |before, secret| {
            // The number of a token is not the end of a longer one.
            !ends_with(before, |b| b.is_ascii_digit()) && !starts_with(&line[secret.end..], is_word)
        });
        each(named, line, &mut found, |_, secret| {
            // "Bearer authentication" is talk.
            secret.len() >= 24 || line[secret.clone()].bytes().any(|b| b.is_ascii_digit())
        });
    }
    if line.contains("://") {
        each(urls, line, &mut found, |_, _| true);
    }
    found
}

/// Takes the secret of each match that `is_one` finds to be one, given what stands before the match.
fn each(
    regex: &Regex,
    line: &str,
    found: &mut Vec<Range<usize>>,
    is_one: impl Fn(&str, &Range<usize>) -> bool,
) {
    let mut at = 0;
    while let Some(captures) = regex.captures_at(line, at) {
        let (Some(whole), Some(secret)) = (captures.get(0), captures.iter().skip(1).flatten().next()) else {
            return;
        };
        if is_one(&line[..whole.start()], &secret.range()) {
            found.push(secret.range());
            at = whole.end();
        } else {
            // Another may begin inside of it.
            at = whole.start() + line[whole.start()..].chars().next().map_or(1, char::len_utf8);
        }
    }
}

fn tokens(tokens: &Regex, kinds: &Regex, line: &str, found: &mut Vec<Range<usize>>) {
    each(tokens, line, found, |_, token| {
        let token = &line[token.clone()];
        looks_random(&token[kind(kinds, token)..])
    });
    for token in found {
        token.start += kind(kinds, &line[token.clone()]);
    }
}

/// How many bytes of a token tell its kind.
fn kind(kinds: &Regex, token: &str) -> usize {
    kinds.find(token).map_or(0, |kind| kind.end())
}

/// Whether a token is more than words put together with hyphens: `sk-learn-contrib-extras-and-more` is not.
fn looks_random(secret: &str) -> bool {
    let has_digit = secret.bytes().any(|b| b.is_ascii_digit());
    let longest = secret.split(['-', '_', '.', '/']).map(str::len).max().unwrap_or(0);
    has_digit && longest >= 8 || longest >= 16
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn ends_with(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.bytes().next_back().is_some_and(is)
}

fn starts_with(text: &str, is: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_some_and(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert!(
            TOKENS.is_some() && KINDS.is_some() && TELEGRAM.is_some() && NAMED.is_some() && URLS.is_some()
        );
    }

    #[test]
    fn a_token_is_found_behind_something_that_only_looks_like_one() {
        let token = format!("ghp_{}", "aB3dE5gH7".repeat(4));
        let line = format!("xghp_{} {token}", "y".repeat(40));
        let found = secrets(&line);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0], line.len() - 36..line.len());
    }
}
