//! Claude's permission suggestions as options, with words for exactly what each would grant.

use askd_wire::{Choice, ChoiceKind};
use serde::Deserialize;
use serde_json::value::RawValue;

/// `permission_suggestions` element, as far as it is known.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Suggestion {
    AddRules(Rules),
    ReplaceRules(Rules),
    RemoveRules(Rules),
    AddDirectories { directories: Vec<String>, destination: String },
    RemoveDirectories { directories: Vec<String>, destination: String },
    SetMode { mode: String, destination: String },
}

#[derive(Debug, Deserialize)]
struct Rules {
    rules: Vec<Rule>,
    behavior: String,
    destination: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    tool_name: String,
    #[serde(default)]
    rule_content: Option<String>,
}

/// Id of the option that stands for the suggestion at `index`.
pub fn id(index: usize) -> String {
    format!("allow_always_{}", index + 1)
}

/// Allow once, one "always" per suggestion that can be put in words, deny.
pub fn options(suggestions: &[&RawValue]) -> Vec<Choice> {
    let always = suggestions.iter().enumerate().filter_map(|(index, raw)| {
        // What cannot be explained cannot be agreed to.
        let (label, grants) = words(&serde_json::from_str(raw.get()).ok()?);
        Some(Choice {
            id: id(index),
            label,
            kind: ChoiceKind::AllowAlways,
            grants: Some(grants),
            payload: serde_json::from_str(raw.get()).ok(),
        })
    });
    let mut options = vec![Choice::plain("allow_once", "Allow once", ChoiceKind::AllowOnce)];
    options.extend(always);
    options.push(Choice::plain("reject_once", "Deny", ChoiceKind::RejectOnce));
    options
}

/// The suggestion that an option stands for, as Claude wrote it.
pub fn chosen<'a>(option: Option<&str>, suggestions: &[&'a RawValue]) -> Option<&'a RawValue> {
    let option = option?;
    suggestions.iter().enumerate().find(|(index, _)| id(*index) == option).map(|(_, raw)| *raw)
}

/// Label and what is granted.
fn words(suggestion: &Suggestion) -> (String, String) {
    match suggestion {
        Suggestion::AddRules(rules) => {
            let list = rules.list();
            let label = match rules.behavior.as_str() {
                "allow" => format!("Always allow {list}"),
                other => format!("Allow, and always {other} {list}"),
            };
            (label, format!("adds the {} rule {list} to {}", rules.behavior, place(&rules.destination)))
        }
        Suggestion::ReplaceRules(rules) => {
            let list = rules.list();
            let grants =
                format!("replaces all {} rules of {} by {list}", rules.behavior, place(&rules.destination));
            (format!("Allow, and replace the {} rules by {list}", rules.behavior), grants)
        }
        Suggestion::RemoveRules(rules) => {
            let list = rules.list();
            let grants =
                format!("removes the {} rule {list} from {}", rules.behavior, place(&rules.destination));
            (format!("Allow, and remove the {} rule {list}", rules.behavior), grants)
        }
        Suggestion::AddDirectories { directories, destination } => {
            let list = directories.join(", ");
            let grants = format!("adds {list} to the working directories in {}", place(destination));
            (format!("Allow, and always allow work in {list}"), grants)
        }
        Suggestion::RemoveDirectories { directories, destination } => {
            let list = directories.join(", ");
            let grants = format!("removes {list} from the working directories in {}", place(destination));
            (format!("Allow, and no longer allow work in {list}"), grants)
        }
        Suggestion::SetMode { mode, destination } => {
            let what = match mode.as_str() {
                "acceptEdits" => ": edits are no longer asked for",
                "bypassPermissions" => ": nothing is asked for any more",
                "auto" => ": Claude decides by itself what is asked for",
                "dontAsk" => ": what would be asked for is denied",
                _ => "",
            };
            let grants = format!("sets the permission mode {mode} in {}{what}", place(destination));
            (format!("Allow, and switch to mode {mode}"), grants)
        }
    }
}

impl Rules {
    fn list(&self) -> String {
        let rules: Vec<String> = self
            .rules
            .iter()
            .map(|rule| match &rule.rule_content {
                Some(content) => format!("{}({content})", rule.tool_name),
                None => rule.tool_name.clone(),
            })
            .collect();
        rules.join(", ")
    }
}

fn place(destination: &str) -> String {
    match destination {
        "session" => "this session only".to_owned(),
        "localSettings" => "this project, for you (.claude/settings.local.json)".to_owned(),
        "projectSettings" => "this project, for everybody (.claude/settings.json)".to_owned(),
        "userSettings" => "all your projects (~/.claude/settings.json)".to_owned(),
        "cliArg" => "this run of Claude".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn each_suggestion_says_what_it_grants_and_where() {
        let suggestions = [
            raw(
                r#"{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"touch x *"},{"toolName":"Read"}],"behavior":"allow","destination":"localSettings"}"#,
            ),
            raw(r#"{"type":"addDirectories","directories":["/a","/b"],"destination":"session"}"#),
            raw(r#"{"type":"setMode","mode":"acceptEdits","destination":"session"}"#),
            raw(r#"{"type":"somethingNew","destination":"session"}"#),
        ];
        let options = options(&suggestions);
        let shown: Vec<_> =
            options.iter().map(|o| (o.id.as_str(), o.grants.as_deref().unwrap_or("-"))).collect();
        assert_eq!(
            shown,
            [
                ("allow_once", "-"),
                (
                    "allow_always_1",
                    "adds the allow rule Bash(touch x *), Read to this project, for you (.claude/settings.local.json)"
                ),
                ("allow_always_2", "adds /a, /b to the working directories in this session only"),
                (
                    "allow_always_3",
                    "sets the permission mode acceptEdits in this session only: edits are no longer asked for"
                ),
                ("reject_once", "-"),
            ]
        );
        assert_eq!(options[1].label, "Always allow Bash(touch x *), Read");
        assert_eq!(chosen(Some("allow_always_2"), &suggestions).unwrap().get(), suggestions[1].get());
        assert!(chosen(Some("allow_once"), &suggestions).is_none());
        assert!(chosen(None, &suggestions).is_none());
    }
}
