//! An ask as it leaves the machine: what surfaces of kind `remote` get, with secrets of known shapes covered.
//!
//! A remote surface shows `display`; nothing else of it may hold what the display covers. So the raw input and the data
//! of choices stay here (they are for the agent's adapter), and every other text is masked where there is something to
//! mask. Names, ids and the digest are untouched: an answer names what it answers as from everywhere.

use askd_wire as wire;

/// How much a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sight {
    /// On this machine.
    #[default]
    Full,
    /// Elsewhere: secrets are covered.
    Masked,
}

/// Covers what is beside the display, which was made masked.
pub fn cover(ask: &mut wire::Ask) {
    let action = &mut ask.action;
    action.input = None;
    cover_option(&mut action.title);
    cover_option(&mut action.cwd);
    for choice in &mut ask.options {
        choice.payload = None;
        cover_text(&mut choice.label);
        cover_option(&mut choice.grants);
    }
    let lineage = &mut ask.lineage;
    cover_option(&mut lineage.job);
    if let Some(child) = &mut lineage.subagent {
        cover_option(&mut child.name);
    }
    if let Some(outcome) = &mut ask.outcome {
        outcome.text = cover_safe(&outcome.text);
        cover_option(&mut outcome.message);
        cover_option(&mut outcome.reason_for_model);
    }
}

/// Masks a text; one without a secret stays as it is, byte for byte.
pub fn cover_text(text: &mut String) {
    // What looks like a mark of ours was marked by `safe`, so no text can forge a mask.
    let masked = askd_text::mask(&askd_text::safe(text).text);
    if masked.count > 0 {
        *text = masked.text;
    }
}

/// Masks a text that is safe already.
pub fn cover_safe(safe: &str) -> String {
    askd_text::mask(safe).text
}

fn cover_option(text: &mut Option<String>) {
    if let Some(text) = text {
        cover_text(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_with_a_secret_is_changed() {
        let secret = format!("ghp_{}", "aB3dE5gH7jK9".repeat(3));
        for (text, expected) in [
            ("what\u{202e}ever", "what\u{202e}ever".to_owned()),
            ("\\u{36 masked}", "\\u{36 masked}".to_owned()),
            (&*format!("push with {secret}\u{7}"), "push with ghp_\\u{36 masked}\\u{7}".to_owned()),
        ] {
            let mut covered = text.to_owned();
            cover_text(&mut covered);
            assert_eq!(covered, expected, "{text}");
        }
    }
}
