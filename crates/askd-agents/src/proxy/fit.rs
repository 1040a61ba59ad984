//! Asks made to fit what the daemon takes. What only describes is cut, with how much was; nothing of what the call does is
//! ever cut, as people would then decide about something else than what runs.

use askd_client::Unavailable;
use askd_wire::{Code, OwnPrompt, RaiseAsk};

/// Most bytes of a text that describes.
const LONGEST_TEXT: usize = 16 * 1024;
/// Most bytes of a name.
const LONGEST_NAME: usize = 1024;

/// The ask with everything that only describes within the daemon's limits.
pub(crate) fn fitted(mut raise: RaiseAsk) -> RaiseAsk {
    raise.action.tool = cut(raise.action.tool, LONGEST_NAME);
    let short = |text: &mut Option<String>| {
        *text = text.take().map(|text| cut(text, LONGEST_TEXT));
    };
    short(&mut raise.action.cwd);
    short(&mut raise.session_title);
    if let Some(child) = &mut raise.subagent {
        short(&mut child.name);
        short(&mut child.kind);
    }
    raise
}

/// What the daemon will not take, however often it is asked, as a record that only the agent's own prompt, at `at`, can
/// answer it; `None`: another refusal, which no shorter ask would change.
pub(crate) fn only_there(raise: &RaiseAsk, at: &str, why: &Unavailable) -> Option<RaiseAsk> {
    let Unavailable::Refused(problem) = why else { return None };
    if problem.code != Code::Malformed || raise.needs_own_prompt {
        return None;
    }
    let mut record = fitted(raise.clone());
    let title = record.action.title.take().unwrap_or_default();
    record.action.title = Some(format!("{} (not asked here: {why})", cut(title, LONGEST_NAME)));
    record.action.input = None;
    record.options = Vec::new();
    record.own_prompt = Some(OwnPrompt { at: at.to_owned(), blocked: false });
    record.needs_own_prompt = true;
    Some(record)
}

fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    // Room for the count.
    let kept = text.floor_char_boundary(most - 40);
    format!("{}… (+{} bytes)", &text[..kept], text.len() - kept)
}

#[cfg(test)]
mod tests {
    use askd_wire::{Action, Problem, Subagent};

    use super::super::plain_ask;
    use super::*;

    #[test]
    fn a4_a_long_description_keeps_no_ask_out() {
        let long = "é".repeat(40_000);
        let action = Action {
            tool: long.clone(),
            kind: None,
            title: Some(long.clone()),
            input: None,
            cwd: Some(long.clone()),
        };
        let mut raise = plain_ask("k".to_owned(), "a", "s", action);
        raise.subagent = Some(Subagent {
            name: Some(long.clone()),
            kind: Some("general".to_owned()),
            work_id: "w".to_owned(),
            depth: None,
        });
        raise.session_title = Some(long.clone());
        let raise = fitted(raise);
        let child = raise.subagent.unwrap();
        for text in [&raise.action.cwd, &raise.session_title, &child.name] {
            let text = text.as_deref().unwrap();
            assert!(text.len() <= LONGEST_TEXT && text.starts_with("éé"), "{}", text.len());
            let kept = text.split('…').next().unwrap().len();
            assert!(text.ends_with(&format!("… (+{} bytes)", long.len() - kept)), "{}", &text[kept..]);
        }
        assert!(raise.action.tool.len() <= LONGEST_NAME);
        assert_eq!(raise.action.title.as_deref(), Some(long.as_str()), "what has no limit stays");
        assert_eq!(child.kind.as_deref(), Some("general"));
    }

    #[test]
    fn what_is_refused_for_good_becomes_a_record_once() {
        let action = Action {
            tool: "edit".to_owned(),
            kind: None,
            title: Some("a".repeat(9999)),
            input: None,
            cwd: None,
        };
        let raise = plain_ask("k".to_owned(), "a", "s", action);
        let refused = |code| {
            Unavailable::Refused(Box::new(Problem {
                kind: "about:blank".to_owned(),
                title: "no".to_owned(),
                status: 413,
                detail: Some("the body is larger".to_owned()),
                code,
                recorded: None,
                ask: None,
            }))
        };
        let record = only_there(&raise, "terminal", &refused(Code::Malformed)).unwrap();
        assert!(record.needs_own_prompt && record.action.title.unwrap().contains("the body is larger"));
        assert_eq!(record.own_prompt.unwrap().at, "terminal");
        assert!(only_there(&raise, "terminal", &refused(Code::NotPermitted)).is_none());
        let again = RaiseAsk { needs_own_prompt: true, ..raise };
        assert!(only_there(&again, "terminal", &refused(Code::Malformed)).is_none());
    }
}
