//! A permission request as it is on the wire.

use askd_wire::{Choice, ChoiceKind, Decision};
use serde::Deserialize;

use super::raw::Object;

/// One option of a request, word for word.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Choosable {
    pub(crate) option_id: String,
    #[serde(default)]
    pub(crate) name: String,
    /// An open set: newer agents may have kinds that nobody here knows.
    #[serde(default)]
    pub(crate) kind: String,
}

impl Choosable {
    fn known_kind(&self) -> Option<ChoiceKind> {
        Some(match self.kind.as_str() {
            "allow_once" => ChoiceKind::AllowOnce,
            "allow_always" => ChoiceKind::AllowAlways,
            "reject_once" => ChoiceKind::RejectOnce,
            "reject_always" => ChoiceKind::RejectAlways,
            _ => return None,
        })
    }
}

/// The options that can be answered with: those of known kinds whose id means one thing only.
fn usable(options: &[Choosable]) -> impl Iterator<Item = (&Choosable, ChoiceKind)> {
    options.iter().filter_map(move |option| {
        let kind = option.known_kind()?;
        let same = options.iter().filter(|other| other.option_id == option.option_id).count();
        (same == 1 && !option.option_id.is_empty()).then_some((option, kind))
    })
}

/// The options as askd offers them.
pub(crate) fn choices(options: &[Choosable]) -> Vec<Choice> {
    let choice = |(option, kind): (&Choosable, ChoiceKind)| {
        let label = if option.name.is_empty() { &option.option_id } else { &option.name };
        Choice::plain(option.option_id.clone(), label.clone(), kind)
    };
    usable(options).map(choice).collect()
}

/// Nobody but the client can answer such a list: askd has no word for what is in it.
pub(crate) fn is_clients_alone(options: &[Choosable]) -> bool {
    usable(options).next().is_none()
}

/// What choosing an option decides; none for one that askd does not offer.
pub(crate) fn decision_of(options: &[Choosable], id: &str) -> Option<Decision> {
    usable(options).find(|(option, _)| option.option_id == id).map(|(_, kind)| match kind {
        ChoiceKind::AllowOnce | ChoiceKind::AllowAlways => Decision::Allow,
        ChoiceKind::RejectOnce | ChoiceKind::RejectAlways => Decision::Deny,
    })
}

/// The option that a plain yes or no chooses: the first `allow_once`; the first `reject_once`, else `reject_always`.
pub(crate) fn plain(options: &[Choosable], decision: Decision) -> Option<&Choosable> {
    let first = |kind| usable(options).find(|(_, other)| *other == kind).map(|(option, _)| option);
    match decision {
        Decision::Allow => first(ChoiceKind::AllowOnce),
        Decision::Deny => first(ChoiceKind::RejectOnce).or_else(|| first(ChoiceKind::RejectAlways)),
    }
}

/// What is read of `session/request_permission`. Everything else stays in the line.
#[derive(Debug, Clone)]
pub(crate) struct Permission {
    pub(crate) session: String,
    pub(crate) call: Call,
    pub(crate) options: Vec<Choosable>,
    pub(crate) fx: Option<FxMark>,
    /// `_meta.claudeCode.parentToolUseId` of the tool call.
    pub(crate) claude_parent: Option<String>,
}

/// The mark of a child's ask on its parent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FxMark {
    pub(crate) session: String,
    pub(crate) work: String,
    pub(crate) call: String,
}

/// What a tool call says of itself; absent fields were not told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) title: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) status: Option<String>,
    /// JSON text.
    pub(crate) input: Option<String>,
    pub(crate) content: Option<String>,
    pub(crate) locations: Option<String>,
    /// What the input of one that is over said of the subagent that it started: its description and its kind.
    pub(crate) subagent: (Option<String>, Option<String>),
}

impl Permission {
    /// `None`: not a request that a client could show; it passes as it is.
    pub(crate) fn parse(params: &str) -> Option<Self> {
        let params = Object::parse(params)?;
        let tool_call = Object::parse(params.get("toolCall")?)?;
        let options = serde_json::from_str(params.get("options")?).ok()?;
        let fx = [params.object("_meta"), tool_call.object("_meta")].iter().find_map(|meta| {
            let fx = meta.object("fx").get("subagent").map(str::to_owned)?;
            let mark = Object::parse(&fx)?;
            let text = |name| mark.text(name).unwrap_or_default();
            Some(FxMark { session: text("sessionId"), work: text("workId"), call: text("toolCallId") })
        });
        let claude = tool_call.object("_meta").object("claudeCode").text("parentToolUseId");
        Some(Self {
            session: params.text("sessionId")?,
            call: Call::read(&tool_call)?,
            options,
            fx,
            claude_parent: claude.filter(|id| !id.is_empty()),
        })
    }
}

impl Call {
    /// `None`: it has no id.
    pub(crate) fn read(from: &Object<'_>) -> Option<Self> {
        let json = |name| from.get(name).filter(|text| *text != "null").map(str::to_owned);
        Some(Self {
            id: from.text("toolCallId")?,
            title: from.text("title"),
            name: from.text("name").or_else(|| from.object("_meta").object("claudeCode").text("toolName")),
            kind: from.text("kind"),
            status: from.text("status"),
            input: json("rawInput").filter(|text| text != "{}"),
            content: json("content").filter(|text| text != "[]"),
            locations: json("locations").filter(|text| text != "[]"),
            subagent: (None, None),
        })
    }

    /// Takes over what the newer one tells.
    pub(crate) fn update(&mut self, newer: Self) {
        let take = |old: &mut Option<String>, new: Option<String>| {
            if new.is_some() {
                *old = new;
            }
        };
        take(&mut self.title, newer.title);
        take(&mut self.name, newer.name);
        take(&mut self.kind, newer.kind);
        take(&mut self.status, newer.status);
        take(&mut self.input, newer.input);
        take(&mut self.content, newer.content);
        take(&mut self.locations, newer.locations);
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.status.as_deref(), Some("completed" | "failed"))
    }

    /// What the input says of the subagent that the call starts: its description and its kind.
    pub(crate) fn spawned(&self) -> (Option<String>, Option<String>) {
        match self.input.as_deref().and_then(Object::parse) {
            Some(input) => (input.text("description"), input.text("subagent_type")),
            None => self.subagent.clone(),
        }
    }

    /// It is over: what is big is not needed any more.
    pub(crate) fn shrink(&mut self) {
        self.subagent = self.spawned();
        (self.input, self.content, self.locations) = (None, None, None);
    }

    /// The input as askd gets it: the raw input, else what was shown in its place.
    pub(crate) fn action_input(&self) -> Option<String> {
        if self.input.is_some() {
            return self.input.clone();
        }
        let mut shown = Object::default();
        if let Some(title) = &self.title {
            shown.set_text("title", title);
        }
        for (name, text) in [("content", &self.content), ("locations", &self.locations)] {
            if let Some(text) = text {
                shown.set(name, text.clone());
            }
        }
        Some(shown.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a4_options_are_mirrored_and_a_plain_answer_is_by_kind() {
        let options: Vec<Choosable> = serde_json::from_str(
            r#"[{"optionId":"ever","name":"Always","kind":"allow_always"},
                {"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"b","name":"Yes, and switch","kind":"allow_once"},
                {"optionId":"new","name":"?","kind":"allow_until_noon"},{"optionId":"no","name":"No","kind":"reject_once"}]"#,
        )
        .unwrap();
        let ids: Vec<String> = choices(&options).into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["ever", "a", "b", "no"]);
        assert_eq!(plain(&options, Decision::Allow).unwrap().option_id, "a");
        assert_eq!(plain(&options, Decision::Deny).unwrap().option_id, "no");
        assert_eq!(plain(&options[..1], Decision::Allow), None, "never an always that nobody chose");
    }

    #[test]
    fn an_id_that_means_two_things_means_nothing() {
        let options: Vec<Choosable> = serde_json::from_str(
            r#"[{"optionId":"a","kind":"allow_once"},{"optionId":"a","kind":"reject_once"},{"optionId":"","kind":"allow_once"},
                {"optionId":"b","kind":"allow_until_noon"},{"optionId":"b","kind":"allow_once"},{"optionId":"c","kind":"reject_always"}]"#,
        )
        .unwrap();
        let ids: Vec<String> = choices(&options).into_iter().map(|c| c.id).collect();
        assert_eq!(ids, ["c"]);
        assert_eq!(plain(&options, Decision::Allow), None);
        assert_eq!(plain(&options, Decision::Deny).unwrap().option_id, "c");
        assert_eq!(["a", "b", "c"].map(|id| decision_of(&options, id)), [None, None, Some(Decision::Deny)]);
        assert!(is_clients_alone(&options[..5]) && is_clients_alone(&[]) && !is_clients_alone(&options));
    }

    #[test]
    fn a_call_that_is_over_is_small_and_still_names_its_subagent() {
        let text = format!(
            r#"{{"toolCallId":"c","title":"T","status":"completed","rawInput":{{"description":"D","subagent_type":"S","prompt":"{}"}}}}"#,
            "x".repeat(100_000)
        );
        let mut call = Call::read(&Object::parse(&text).unwrap()).unwrap();
        let before = call.spawned();
        call.shrink();
        call.shrink();
        assert_eq!(call.spawned(), before);
        assert_eq!(before, (Some("D".to_owned()), Some("S".to_owned())));
        assert!(format!("{call:?}").len() < 1000);
    }

    #[test]
    fn a_request_without_input_is_told_by_what_it_shows() {
        let params = r#"{"sessionId":"s","toolCall":{"toolCallId":"c","title":"write x","content":[{"type":"diff"}]},"options":[]}"#;
        let permission = Permission::parse(params).unwrap();
        let input = permission.call.action_input().unwrap();
        assert_eq!(input, r#"{"title":"write x","content":[{"type":"diff"}]}"#);
        assert!(Permission::parse(r#"{"sessionId":"s","toolCall":{},"options":[]}"#).is_none());
    }
}
