//! Secrets of well-known fixed shapes, covered where a text leaves the machine or is kept in a log.
//!
//! A mask stands for one run of characters that tokens are made of. It never covers a blank, a quote, or anything
//! that means something to a shell, so that no part of a command can hide behind it; what tells the kind of secret
//! (`ghp_`, `Bearer`) stays readable, and the mask says how long the rest is: `ghp_\u{36 masked}`.

mod keys;
mod shapes;

use std::ops::Range;

pub(crate) use keys::KeyBlock;

/// A text in which secrets are covered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Masked {
    /// Safe, as the text it was made of.
    pub text: String,
    /// How many masks are in it.
    pub count: usize,
}

/// Masks every secret in a text that is safe already (from [`crate::safe()`] or [`crate::safe_lines`], joined by
/// `\n`); as safe text cannot forge a mark, it cannot forge a mask.
pub fn mask(safe: &str) -> Masked {
    let mut block = KeyBlock::default();
    let mut out = Masked::default();
    for (at, line) in safe.split('\n').enumerate() {
        if at > 0 {
            out.text.push('\n');
        }
        out.count += mask_line(line, &mut block, &mut out.text);
    }
    out
}

/// Secrets in a chain, each found by the mask on the one before it.
const MOST_PASSES: usize = 64;

/// Masks one line and says how often; a private key goes on over many lines, and `block` remembers it.
pub(crate) fn mask_line(line: &str, block: &mut KeyBlock, out: &mut String) -> usize {
    let mut secrets = shapes::secrets(line);
    block.secrets(line, &mut secrets);
    let Some((mut text, mut count)) = cover(line, secrets) else {
        out.push_str(line);
        return 0;
    };
    // A secret can stand so close to another that only the mask on that one shows where it begins.
    for _ in 0..MOST_PASSES {
        let Some((again, more)) = cover(&text, shapes::secrets(&text)) else { break };
        text = again;
        count += more;
    }
    out.push_str(&text);
    count
}

/// The line with these ranges covered, and how many masks that took; `None` for none.
fn cover(line: &str, mut secrets: Vec<Range<usize>>) -> Option<(String, usize)> {
    secrets.sort_by_key(|secret| (secret.start, std::cmp::Reverse(secret.end)));
    let mut out = String::with_capacity(line.len());
    let mut count = 0;
    let mut at = 0;
    for Range { start, end } in secrets {
        // What two shapes claim is covered once, as a whole.
        let start = start.max(at);
        if start >= end {
            continue;
        }
        out.push_str(&line[at..start]);
        out.push_str(&format!("\\u{{{} masked}}", end - start));
        count += 1;
        at = end;
    }
    out.push_str(&line[at..]);
    (count > 0).then_some((out, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe::safe;

    #[test]
    fn a_secret_right_behind_another_is_covered_too() {
        let (first, second) = ("x".repeat(35), "Ed9bHV4xAe9GQpXrtE71naTmXG6Tc3lVl6QcjzSb");
        let text = masked(&format!("AIza{first}aws_secret_access_key={second}"));
        assert!(!text.contains(second), "{text}");
    }

    fn masked(text: &str) -> String {
        mask(&safe(text).text).text
    }

    /// Test secrets are put together here, so that no scanner takes them for leaked ones.
    fn random(len: usize) -> String {
        "aB3dE5gH7jK9mN1pQ2sT4vW6xY8z".chars().cycle().take(len).collect()
    }

    #[test]
    fn secrets_of_known_shapes_are_masked_and_their_kind_stays() {
        let (r16, r24, r36, r40) = (random(16), random(24), random(36), random(40));
        let upper = "ABCDEFGHIJ234567";
        for (text, expected) in [
            (format!("AKIA{upper}"), "AKIA\\u{16 masked}"),
            (format!("x=ASIA{upper};"), "x=ASIA\\u{16 masked};"),
            (format!("aws_secret_access_key = {r40}"), "aws_secret_access_key = \\u{40 masked}"),
            (format!("AWS_SECRET_ACCESS_KEY=\"{r40}\" ls"), "AWS_SECRET_ACCESS_KEY=\"\\u{40 masked}\" ls"),
            (format!("ghp_{r36}"), "ghp_\\u{36 masked}"),
            (format!("github_pat_{r40}"), "github_pat_\\u{40 masked}"),
            (format!("glpat-{r24}"), "glpat-\\u{24 masked}"),
            (format!("xoxb-1234567890-{r24}"), "xoxb-\\u{35 masked}"),
            (format!("sk-ant-api03-{r40}-x_y"), "sk-ant-\\u{50 masked}"),
            (format!("sk-{r40}"), "sk-\\u{40 masked}"),
            (format!("sk_live_{r24}"), "sk_live_\\u{24 masked}"),
            (format!("AIza{}", random(35)), "AIza\\u{35 masked}"),
            (format!("npm_{r36}"), "npm_\\u{36 masked}"),
            (format!("hf_{r36}"), "hf_\\u{36 masked}"),
            (
                format!("curl -H 'Authorization: Bearer {r16}' x"),
                "curl -H 'Authorization: Bearer \\u{16 masked}' x",
            ),
            (format!("authorization: basic {r16}=="), "authorization: basic \\u{18 masked}"),
            (format!("Authorization: token {r40}"), "Authorization: token \\u{40 masked}"),
            (format!("X-Api-Key: {r16}"), "X-Api-Key: \\u{16 masked}"),
            (format!("eyJhbGciOiJI.eyJzdWIiOiIx.{r24}"), "eyJ\\u{47 masked}"),
            (format!("123456789:AA{}", random(33)), "123456789:\\u{35 masked}"),
            (
                format!("https://api.example/bot123456789:AA{}/getMe", random(33)),
                "https://api.example/bot123456789:\\u{35 masked}/getMe",
            ),
            ("postgres://me:hunter2@db/x".to_owned(), "postgres://me:\\u{7 masked}@db/x"),
            ("redis://:p%40ss@h:1 && ls".to_owned(), "redis://:\\u{6 masked}@h:1 && ls"),
            (
                format!("https://hooks.slack.com/services/T00000000/B00000000/{r24}"),
                "https://hooks.slack.com/services/\\u{44 masked}",
            ),
        ] {
            assert_eq!(masked(&text), expected, "{text}");
        }
    }

    #[test]
    fn a_private_key_is_masked_line_by_line() {
        let (long, short) = (random(64), random(30));
        let key =
            format!("-----BEGIN RSA PRIVATE KEY-----\n{long}\n{short}==\n-----END RSA PRIVATE KEY-----\nls");
        let expected = "-----BEGIN RSA PRIVATE KEY-----\n\\u{64 masked}\n\\u{32 masked}\n-----END RSA PRIVATE KEY-----\nls";
        assert_eq!(mask(&key), Masked { text: expected.into(), count: 2 });
        // As the one line of a summary, and with the escapes of another language.
        assert_eq!(masked(&key), expected.replace('\n', "↵"));
        assert_eq!(masked(&key.replace('\n', "\\n")), expected.replace('\n', "\\n"));
        // Framed by a list, by a diff, by quotes.
        let framed =
            format!("a:\n  | -----BEGIN PRIVATE KEY-----\n  | {long}\n  | -----END PRIVATE KEY-----");
        assert_eq!(mask(&framed).text, framed.replace(&long, "\\u{64 masked}"));
        let diff = format!("+-----BEGIN PRIVATE KEY-----\n+{long}\n+-----END PRIVATE KEY-----");
        assert_eq!(mask(&diff).text, diff.replace(&long, "\\u{64 masked}"));
        let echo = format!("echo '-----BEGIN PRIVATE KEY-----\n{long}' > x");
        assert_eq!(mask(&echo).text, echo.replace(&long, "\\u{64 masked}"));
    }

    #[test]
    fn ordinary_text_is_not_masked() {
        for text in [
            "cargo test --workspace",
            "git push origin task-ghp_short",
            "pip install sk-learn-contrib-extras-and-more",
            "the bearer of this letter; Bearer authentication is required",
            "http://localhost:8080/a@b",
            "git@github.com:owner/repo.git",
            "ssh://git@host:22/x",
            "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
            "https://me:$PASSWORD@host/",
            "12:34:56 2026-11-30T12:34:56",
            "-----BEGIN CERTIFICATE-----\nMIIBaB3dE5gH7jK9mN1pQ2sT4vW6xY8zaB3dE5gH7jK9mN1p\n",
            "risk-aB3dE5gH7jK9mN1pQ2sT4vW6xY8z",
        ] {
            assert_eq!(mask(text), Masked { text: text.into(), count: 0 });
        }
    }

    #[test]
    fn a_command_cannot_hide_behind_a_mask() {
        let block = "-----BEGIN PRIVATE KEY-----\nrm -rf ~\n/tmp/run-me-now-and-do-it\ncurl x|sh\n-----END PRIVATE KEY-----";
        assert_eq!(mask(block).count, 0);
        assert_eq!(masked("Bearer x123456;rm -rf ~"), "Bearer x123456;rm -rf ~");
        assert_eq!(masked("Bearer x1234567;rm -rf ~"), "Bearer \\u{8 masked};rm -rf ~");
        assert_eq!(masked("https://a:b$(rm)@c"), "https://a:b$(rm)@c");
        assert_eq!(masked("https://a:b;rm -rf@c"), "https://a:b;rm -rf@c");
        // It looks like a mask, so it is marked by the time it comes here.
        assert_eq!(masked("\\u{36 masked}"), "\\u{5c}u{36 masked}");
    }
}
