//! Names of files and directories, as far as they may come from others: no path is ever made from anything else.

/// Longest stem of a request, so that every name made from it fits into a directory entry.
const LONGEST_STEM: usize = 180;
/// Longest name of a session's directory.
const LONGEST_SESSION: usize = 200;
/// What `encodeURIComponent` leaves as it is, besides letters and digits.
const PLAIN: &[u8] = b"-_.!~*'()";

/// Letters, digits, `.`, `_` and `-`; not hidden, and no longer than what fits.
pub fn is_safe_stem(stem: &str) -> bool {
    !stem.is_empty()
        && stem.len() <= LONGEST_STEM
        && !stem.starts_with('.')
        && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// The stem of a request's or response's file name; `None`: it is neither.
pub fn stem_of(file_name: &str) -> Option<&str> {
    file_name.strip_suffix(".json").filter(|stem| !stem.is_empty() && !stem.starts_with('.'))
}

/// The directory of a session, as JavaScript's `encodeURIComponent` writes it; `None`: there is none that is safe.
pub fn encode_session(id: &str) -> Option<String> {
    let mut name = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || PLAIN.contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    is_session_name(&name).then_some(name)
}

/// The session of a directory; `None`: the name is none that [`encode_session`] makes.
pub fn decode_session(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    let id = String::from_utf8(bytes).ok()?;
    (encode_session(&id).as_deref() == Some(name)).then_some(id)
}

/// Hidden names, `.` and `..` among them, are no sessions; nor is what a requester calls its missing session.
fn is_session_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_SESSION
        && !name.starts_with('.')
        && !name.eq_ignore_ascii_case("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f13_only_plain_stems_are_safe() {
        for stem in ["1796026230778-rcfxai9l-13240", "a", "A.b_c-d", "x..y"] {
            assert!(is_safe_stem(stem), "{stem}");
        }
        for stem in ["", ".", "..", ".a", "../a", "a/b", "a\\b", "a b", "é", "a\0", "a\n", "%2e"] {
            assert!(!is_safe_stem(stem), "{stem:?}");
        }
        assert!(is_safe_stem(&"a".repeat(180)) && !is_safe_stem(&"a".repeat(181)));
        assert_eq!(stem_of("a.json"), Some("a"));
        assert_eq!(stem_of("../a.json").filter(|stem| is_safe_stem(stem)), None);
        for name in [".json", ".a.json", "a.json.tmp", "a"] {
            assert_eq!(stem_of(name), None, "{name}");
        }
    }

    #[test]
    fn f13_a_session_has_one_name_and_no_name_leads_elsewhere() {
        for id in ["parent-abc", "a/b", "../x", "Ünï (1)!", "a%2Fb", "a\u{0}b"] {
            match encode_session(id) {
                Some(name) => {
                    assert!(!name.contains('/') && !name.contains('\0'), "{name}");
                    assert_eq!(decode_session(&name).as_deref(), Some(id));
                }
                None => assert!(id.starts_with('.'), "{id}"),
            }
        }
        for id in ["", ".", "..", ".hidden", "unknown", "UNKNOWN"] {
            assert_eq!(encode_session(id), None, "{id}");
        }
        // Every other spelling of a name is not a session's directory.
        for name in ["a%2fb", "%61", "a b", "a%", "a%2", "a%zz", "%FF", "..", "a%+1"] {
            assert_eq!(decode_session(name), None, "{name}");
        }
    }
}
