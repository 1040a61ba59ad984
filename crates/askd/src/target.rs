//! From what a person typed to the one ask that is meant.

use askd_client::Answers;
use askd_wire::{Ask, Code};

use crate::failure::{Failure, status};
use crate::out::safe;

/// Most candidates that are listed.
const MOST: usize = 8;

/// The ask with this handle or full id. The beginning of one is never enough: another ask may begin the same way a
/// moment later.
pub(crate) fn find(answers: &mut Answers, typed: &str) -> Result<Ask, Failure> {
    if typed.is_empty() || !typed.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(unknown(typed, answers));
    }
    match answers.show(typed) {
        Ok(ask) if is_named(&ask, typed) => Ok(ask),
        Ok(_) => Err(unknown(typed, answers)),
        Err(error) if error.problem().is_some_and(|problem| problem.code == Code::UnknownAsk) => {
            Err(unknown(typed, answers))
        }
        Err(error) => Err(error.into()),
    }
}

fn is_named(ask: &Ask, typed: &str) -> bool {
    ask.handle == typed || ask.id.eq_ignore_ascii_case(typed)
}

fn unknown(typed: &str, answers: &mut Answers) -> Failure {
    let asks = answers.list(true).unwrap_or_default();
    Failure::new(status::UNKNOWN, unknown_text(typed, &asks))
}

fn unknown_text(typed: &str, asks: &[Ask]) -> String {
    let begins = |ask: &&Ask| {
        !typed.is_empty()
            && (ask.handle.starts_with(typed) || ask.id.starts_with(&typed.to_ascii_lowercase()))
    };
    let found: Vec<&Ask> = asks.iter().filter(begins).collect();
    let name = |ask: &&Ask| {
        if ask.handle.starts_with(typed) {
            ask.handle.clone()
        } else {
            format!("{} ({})", ask.handle, ask.id)
        }
    };
    let typed = safe(typed);
    match found.as_slice() {
        [] => format!("no ask has the handle or id {typed}; `askd ls` lists the open ones"),
        [only] => {
            format!("{typed} is only the beginning of {}; type the whole handle, or the full id", name(only))
        }
        several => {
            let names: Vec<String> = several.iter().take(MOST).map(name).collect();
            let more = several.len().saturating_sub(MOST);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(
                "{typed} is ambiguous: {}{more} begin with it; type the whole handle, or the full id",
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn c5_a_prefix_names_nothing_and_the_candidates_are_listed() {
        let mut asks = vec![samples::background(), samples::settled()];
        assert!(unknown_text("zz", &asks).contains("no ask has the handle or id zz"));
        assert!(unknown_text("", &asks).contains("no ask has the handle or id "));
        assert!(unknown_text("k7", &asks).contains("only the beginning of k7f; type the whole handle"));
        asks[1].handle = "k7q".to_owned();
        assert!(unknown_text("k7", &asks).contains("k7 is ambiguous: k7f, k7q begin with it"));
        let text = unknown_text("01930A00", &asks);
        assert!(text.contains("k7f (01930a00-0000-7000-8000-000000000001), k7q (01930a00"), "{text}");
        assert!(unknown_text("\u{1b}[2J", &asks).contains("\\u{1b}[2J"));
    }

    #[test]
    fn handles_and_full_ids_are_exact() {
        let ask = samples::background();
        assert!(is_named(&ask, "k7f"));
        assert!(!is_named(&ask, "k7F"));
        assert!(!is_named(&ask, "k7"));
        assert!(is_named(&ask, "01930A00-0000-7000-8000-000000000001"));
    }
}
