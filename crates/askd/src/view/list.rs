//! Lists: asks, sessions, the log.

use askd_wire::{Ask, AskState, LogEntry, SessionView};
use askd_words::subagent;
use serde_json::value::RawValue;

use crate::out::{Style, one_line, safe};
use crate::view::outcome::{self, delivery, elsewhere, gives_up_soon, settled, timed};
use crate::view::time::Clock;
use crate::view::who::Who;

/// One line that says what would run.
pub(crate) fn summary(ask: &Ask, columns: usize) -> String {
    let action = askd_text::Action {
        tool: &ask.action.tool,
        kind: ask.action.kind.as_deref(),
        title: ask.action.title.as_deref(),
        input: ask.action.input.as_deref().map(RawValue::get),
        cwd: ask.action.cwd.as_deref(),
    };
    askd_text::summary(&action, columns)
}

/// Two lines for each ask, and a word when there is none.
pub(crate) fn asks(asks: &[Ask], who: &Who, clock: &Clock, width: usize, style: Style) -> String {
    if asks.is_empty() {
        return "no open asks\n".to_owned();
    }
    let mut out = String::new();
    let column = asks.iter().map(|ask| ask.handle.chars().count()).max().unwrap_or(0);
    for ask in asks {
        let handle = safe(&ask.handle);
        let what = summary(ask, width.saturating_sub(column + 2));
        let pad = " ".repeat(column.saturating_sub(handle.chars().count()));
        out.push_str(&format!("{}{pad}  {what}\n", style.bold(&handle)));
        let mut parts = vec![who.line(ask), clock.ago(&ask.asked_at)];
        parts.extend(timed(ask, clock));
        parts.extend(gives_up_soon(ask, clock));
        parts.extend(elsewhere(ask, clock));
        if ask.state == AskState::Settled {
            parts.extend(settled(ask));
            parts.extend(delivery(ask).filter(|_| outcome::is_correction(ask.delivery)).map(str::to_owned));
        }
        out.push_str(&format!("{:column$}  {}\n", "", style.dim(&parts.join(" · "))));
    }
    out
}

/// One line for each session, and one for each of its subagents.
pub(crate) fn sessions(views: &[SessionView], who: &Who, clock: &Clock, style: Style) -> String {
    if views.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut out = String::new();
    for view in views {
        let waiting = match view.waiting {
            0 => "waits for nothing".to_owned(),
            1 => style.bold("1 waiting"),
            n => style.bold(&format!("{n} waiting")),
        };
        let mut parts = vec![who.session_view(view), waiting];
        if view.title.is_some()
            && let Some(cwd) = &view.cwd
        {
            parts.push(format!("in {}", who.directory(cwd)));
        }
        if let Some(place) = &view.place {
            parts.extend(place.tty.as_deref().map(safe));
            parts.extend(place.tmux_pane.as_deref().map(|pane| format!("tmux pane {}", safe(pane))));
        }
        match &view.ended_at {
            Some(ended) => parts.push(format!("ended {}", clock.ago(ended))),
            None => parts.push(format!("since {}", clock.local(&view.started_at))),
        }
        parts.push(style.dim(&format!("{}/{}", safe(&view.agent), safe(&view.session))));
        out.push_str(&format!("{}\n", parts.join(" · ")));
        for child in &view.subagents {
            out.push_str(&format!("  subagent {}\n", subagent(child)));
        }
    }
    out
}

/// `2026-11-30 08:00:00  k7f  asked: Bash: cargo test`
pub(crate) fn log_line(entry: &LogEntry, clock: &Clock, style: Style) -> String {
    let handle = match &entry.handle {
        Some(handle) => safe(handle),
        // Whole, so that it can be given to --session.
        None => safe(entry.stream.strip_prefix("session/").unwrap_or(&entry.stream)),
    };
    let at = clock.local_full(&entry.at);
    format!("{}  {}  {}", style.dim(&at), style.bold(&handle), one_line(&entry.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    fn clock() -> Clock {
        Clock::fixed("2026-11-30T08:00:48.000Z")
    }

    #[test]
    fn t11_the_list_says_who_asks_the_countdown_and_the_timed_answer() {
        let list = [samples::background(), samples::settled()];
        insta::assert_snapshot!(asks(&list, &Who::default(), &clock(), 80, Style::PLAIN));
        assert_eq!(asks(&[], &Who::default(), &clock(), 80, Style::PLAIN), "no open asks\n");
    }

    #[test]
    fn c8_sessions_tell_how_many_asks_wait() {
        let mut ended = samples::session();
        ended.title = None;
        ended.waiting = 0;
        ended.subagents.clear();
        ended.ended_at = Some("2026-11-30T08:00:00.000Z".to_owned());
        let views = [samples::session(), ended];
        insta::assert_snapshot!(sessions(&views, &Who::default(), &clock(), Style::PLAIN));
    }

    #[test]
    fn the_log_is_one_line_for_each_event() {
        let entry: LogEntry = serde_json::from_str(
            r#"{"position":7,"at":"2026-11-30T08:00:00.000Z","stream":"ask/01930a00","what":"asked","handle":"k7f",
            "text":"asked: Bash: cargo test","event":{}}"#,
        )
        .unwrap();
        assert_eq!(
            log_line(&entry, &clock(), Style::PLAIN),
            "2026-11-30 08:00:00  k7f  asked: Bash: cargo test"
        );
        let session = "5c1e9a70-0f11-4c6e-9d57-3a1b2c3d4e5f";
        let of_a_session = LogEntry {
            stream: format!("session/claude-code/{session}"),
            handle: None,
            text: "session ended".to_owned(),
            ..entry
        };
        assert_eq!(
            log_line(&of_a_session, &clock(), Style::PLAIN),
            format!("2026-11-30 08:00:00  claude-code/{session}  session ended")
        );
    }
}
