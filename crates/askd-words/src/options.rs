//! The agent's own options.

use askd_wire::{Choice, ChoiceKind};

use crate::one;

/// What an option does, in our words: its label is the agent's.
pub fn option_kind(kind: ChoiceKind) -> &'static str {
    match kind {
        ChoiceKind::AllowOnce => "allow once",
        ChoiceKind::AllowAlways => "allow always",
        ChoiceKind::RejectOnce => "deny once",
        ChoiceKind::RejectAlways => "deny always",
    }
}

pub fn allows(kind: ChoiceKind) -> bool {
    matches!(kind, ChoiceKind::AllowOnce | ChoiceKind::AllowAlways)
}

/// The options that a plain yes and a plain no stand for: the first `allow_once`; the first `reject_once`, else the first
/// `reject_always`.
pub fn plain_options(options: &[Choice]) -> Vec<&str> {
    let first = |kind| options.iter().find(|choice| choice.kind == kind).map(|choice| choice.id.as_str());
    let yes = first(ChoiceKind::AllowOnce);
    let no = first(ChoiceKind::RejectOnce).or_else(|| first(ChoiceKind::RejectAlways));
    yes.into_iter().chain(no).collect()
}

/// Exactly what an option would grant, or that the agent does not say.
pub fn grants(choice: &Choice) -> Option<String> {
    match (&choice.grants, choice.kind) {
        (Some(grants), ChoiceKind::AllowOnce | ChoiceKind::AllowAlways) => {
            Some(format!("grants {}", one(grants)))
        }
        (Some(forbids), _) => Some(format!("forbids {}", one(forbids))),
        (None, ChoiceKind::AllowAlways | ChoiceKind::RejectAlways) => {
            Some("the agent does not say for what".to_owned())
        }
        (None, _) => None,
    }
}
