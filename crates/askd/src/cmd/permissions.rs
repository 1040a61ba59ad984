//! `askd permissions`: what happens without a person, shown and changed in the words of the daemon.

use askd_client::Answers;
use askd_wire::SessionView;

use crate::cli::{PermissionsArgs, PermissionsChange, Safety, Switch, TimedAnswer};
use crate::cmd::list::json;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};

/// Most candidates that are listed.
const MOST: usize = 8;

pub(crate) fn permissions(desk: &Desk, args: &PermissionsArgs) -> Done {
    let mut answers = desk.answers()?;
    let session = args.session.as_deref().map(|typed| session(&mut answers, typed)).transpose()?;
    let session = session.as_deref();
    if args.json {
        if let Some(change) = &args.change {
            answers.permissions_command(&line(change), session)?;
        }
        out::print_line(&json(&answers.permissions(session)?)?)?;
        return Ok(status::OK);
    }
    let text = args.change.as_ref().map_or_else(|| "/permissions".to_owned(), line);
    out::print_line(&answers.permissions_command(&text, session)?)?;
    Ok(status::OK)
}

/// The change as it is typed at any other surface; there is one reading of it, and the daemon has it.
fn line(change: &PermissionsChange) -> String {
    let safety = |of: &Option<Safety>| if of.is_some() { " safety" } else { "" };
    match change {
        PermissionsChange::Default { answer, of } => {
            let answer = match answer {
                TimedAnswer::Allow => "allow",
                TimedAnswer::Deny => "deny",
            };
            format!("/permissions default {answer}{}", safety(of))
        }
        PermissionsChange::Timeout { secs, of } => format!("/permissions timeout {secs}{}", safety(of)),
        PermissionsChange::Skip { state: Switch::On } => "/skip-permissions on".to_owned(),
        PermissionsChange::Skip { state: Switch::Off } => "/skip-permissions off".to_owned(),
    }
}

/// `<agent>/<session>` for what was typed.
pub(crate) fn session(answers: &mut Answers, typed: &str) -> Result<String, Failure> {
    find(&answers.sessions()?, typed)
}

fn find(sessions: &[SessionView], typed: &str) -> Result<String, Failure> {
    let name = |view: &SessionView| format!("{}/{}", view.agent, view.session);
    let found: Vec<&SessionView> =
        sessions.iter().filter(|view| name(view) == typed || view.session == typed).collect();
    let live: Vec<&SessionView> = found.iter().copied().filter(|view| view.ended_at.is_none()).collect();
    let typed = safe(typed);
    match (live.as_slice(), found.as_slice()) {
        ([only], _) => Ok(name(only)),
        ([], []) => Err(Failure::new(
            status::UNKNOWN,
            format!("no session is named {typed}; `askd sessions` lists them as AGENT/SESSION"),
        )),
        ([], _) => Err(Failure::new(status::UNKNOWN, format!("the session {typed} has ended"))),
        (several, _) => {
            let names: Vec<String> = several.iter().take(MOST).map(|view| safe(&name(view))).collect();
            let more = several.len().saturating_sub(MOST);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(Failure::wrong_use(format!(
                "{typed} is ambiguous: {}{more}; type it whole",
                names.join(", ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use askd_wire::{Decision, PermissionsView, TimedPolicy};
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::view::samples;

    fn args(text: &str) -> PermissionsArgs {
        match Cli::try_parse_from(["askd", "permissions"].into_iter().chain(text.split(' '))).unwrap().command
        {
            Some(Command::Permissions(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn t7_the_words_become_the_line_that_every_surface_takes() {
        for (typed, expected) in [
            ("default allow", "/permissions default allow"),
            ("default deny safety --session s", "/permissions default deny safety"),
            ("timeout 90", "/permissions timeout 90"),
            ("--session s timeout 3600 safety", "/permissions timeout 3600 safety"),
            ("skip on", "/skip-permissions on"),
            ("skip off --json", "/skip-permissions off"),
        ] {
            assert_eq!(line(args(typed).change.as_ref().unwrap()), expected);
        }
        for wrong in
            ["default maybe", "default", "timeout 0", "timeout -5", "timeout 5 tools", "skip", "allow"]
        {
            let all = ["askd", "permissions"].into_iter().chain(wrong.split(' '));
            assert!(Cli::try_parse_from(all).is_err(), "{wrong}");
        }
    }

    #[test]
    fn t7_a_session_is_named_whole_or_by_an_id_that_only_one_agent_has() {
        let mine = samples::session();
        let mut other = mine.clone();
        other.agent = "codex".to_owned();
        let all = [mine, other];
        assert_eq!(find(&all[..1], "5c1e"), Ok("claude-code/5c1e".to_owned()));
        assert_eq!(find(&all, "codex/5c1e"), Ok("codex/5c1e".to_owned()));
        let failure = find(&all, "5c1e").unwrap_err();
        assert!(failure.text.contains("5c1e is ambiguous: claude-code/5c1e, codex/5c1e"), "{failure:?}");
        // The beginning of an id names nothing.
        assert_eq!(find(&all, "5c1").unwrap_err().status, status::UNKNOWN);
        let mut ended = all.clone();
        ended[0].ended_at = Some("2026-11-30T08:00:00.000Z".to_owned());
        assert_eq!(find(&ended, "5c1e"), Ok("codex/5c1e".to_owned()));
        assert!(find(&ended[..1], "5c1e").unwrap_err().text.contains("has ended"));
        assert!(!find(&all, "\u{1b}[2J").unwrap_err().text.contains('\u{1b}'));
    }

    #[test]
    fn t18_the_json_of_the_permissions_is_stable() {
        let timed = |timeout_secs, default, overridden| TimedPolicy { timeout_secs, default, overridden };
        let view = PermissionsView {
            session: Some("claude-code/5c1e".to_owned()),
            background: timed(90, Decision::Allow, true),
            safety: timed(360, Decision::Deny, false),
            skip: false,
            queue_cap: 5,
            remote_timeout_secs: 0,
            remote_action: Decision::Deny,
            lines: vec!["background asks: auto-allow in 1m30s  (session override)".to_owned()],
        };
        insta::assert_snapshot!(json(&view).unwrap());
    }
}
