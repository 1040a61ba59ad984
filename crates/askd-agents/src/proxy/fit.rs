//! Asks made to fit what the daemon takes. What only describes is cut, with how much was; nothing of what the call does is
//! ever cut, as people would then decide about something else than what runs.

use askd_client::Unavailable;
use askd_client::spool::digest_of;
use askd_wire::{Code, OwnPrompt, RaiseAsk};

/// Most bytes of a text that describes.
const LONGEST_TEXT: usize = 16 * 1024;
/// Most bytes of a name.
const LONGEST_NAME: usize = 1024;

/// The ask with everything that only describes within the daemon's limits.
pub(crate) fn fitted(mut raise: RaiseAsk) -> RaiseAsk {
    raise.action.tool = cut_known(raise.action.tool, LONGEST_NAME);
    raise.action.cwd = raise.action.cwd.take().map(|cwd| cut_known(cwd, LONGEST_TEXT));
    let short = |text: &mut Option<String>| {
        *text = text.take().map(|text| cut(text, LONGEST_TEXT));
    };
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
    cut_with(text, most, |_| String::new())
}

/// The same for what an ask's digest is made of: the hash of the whole stays, so that what differs in the part that was
/// cut is another ask, and no answer to one serves the other.
fn cut_known(text: String, most: usize) -> String {
    cut_with(text, most, |text| format!(", {}", digest_of(text.as_bytes())))
}

fn cut_with(text: String, most: usize, more: impl FnOnce(&str) -> String) -> String {
    if text.len() <= most {
        return text;
    }
    let more = more(&text);
    // Room for the count.
    let kept = text.floor_char_boundary(most - 40 - more.len());
    format!("{}… (+{} bytes{more})", &text[..kept], text.len() - kept)
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
        for (text, known) in [(&raise.action.cwd, true), (&raise.session_title, false), (&child.name, false)]
        {
            let text = text.as_deref().unwrap();
            assert!(text.len() <= LONGEST_TEXT && text.starts_with("éé"), "{}", text.len());
            let kept = text.split('…').next().unwrap().len();
            let hash = if known { format!(", {}", digest_of(long.as_bytes())) } else { String::new() };
            assert!(text.ends_with(&format!("… (+{} bytes{hash})", long.len() - kept)), "{}", &text[kept..]);
        }
        assert!(raise.action.tool.len() <= LONGEST_NAME);
        assert_eq!(raise.action.title.as_deref(), Some(long.as_str()), "what has no limit stays");
        assert_eq!(child.kind.as_deref(), Some("general"));
    }

    /// What is cut off still makes another ask, of which another answer is wanted.
    #[test]
    fn s4_calls_that_differ_in_what_was_cut_are_different_asks() {
        let fit = |tool: &str, cwd: &str| {
            let (tool, cwd) =
                (format!("{}{tool}", "t".repeat(2_000)), format!("{}{cwd}", "/.".repeat(40_000)));
            let action = Action { tool, kind: None, title: None, input: None, cwd: Some(cwd) };
            let action = fitted(plain_ask("k".to_owned(), "a", "s", action)).action;
            (action.tool, action.cwd)
        };
        let base = fit("a", "/a");
        assert_eq!(base, fit("a", "/a"));
        assert_ne!(base.0, fit("b", "/a").0);
        assert_ne!(base.1, fit("a", "/b").1);
        assert!(base.0.len() <= LONGEST_NAME && base.1.unwrap().len() <= LONGEST_TEXT);
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
