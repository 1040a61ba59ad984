//! What holds whatever either side writes; the fuzzer's check as well.

use std::time::Duration;

use askd_agents::claude::{Action, Errand, HostKind, Machine, News, Settings, StateLines};

/// `bytes`: lines, each with its side in front: `<` from the agent, `>` from the host, `!` the host closes, `?` time
/// passes and askd takes what was raised.
pub(crate) fn any_lines(bytes: &[u8]) {
    let host =
        if bytes.len().is_multiple_of(2) { HostKind::Answers } else { HostKind::Silent { attended: false } };
    let settings = Settings {
        mark: "m".to_owned(),
        host,
        instance: None,
        cwd: None,
        unreached: Duration::from_secs(360),
        shell_patience: None,
        state_lines: StateLines::None,
        resumes: false,
    };
    let (mut machine, mut now, mut raised) = (Machine::new(settings), Duration::ZERO, Vec::new());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line {
            [b'<', rest @ ..] if !rest.is_empty() => machine.agent_line(rest.to_vec(), now),
            [b'>', rest @ ..] if !rest.is_empty() => machine.host_line(rest.to_vec(), now),
            [b'!', ..] => machine.host_closed(now),
            _ => {
                now += Duration::from_millis(1700);
                for ask in raised.drain(..) {
                    machine.news(News::Raised { ask, timed: None }, now);
                }
                machine.tick(now);
            }
        }
        for action in machine.take() {
            match action {
                Action::ToAgent(line) => is_whole(&line),
                Action::Daemon(Errand::Raise { ask, raise }) => {
                    assert!(raise.action.input.is_some());
                    raised.push(ask);
                }
                _ => {}
            }
        }
        let (all, open) = machine.held();
        assert!(open <= all);
    }
}

/// The agent would end at anything else.
fn is_whole(line: &[u8]) {
    assert!(line.ends_with(b"\n") && line.iter().filter(|byte| **byte == b'\n').count() == 1, "{line:?}");
    let text = String::from_utf8_lossy(line);
    let is_object = text.trim_start().starts_with('{')
        && serde_json::from_str::<&serde_json::value::RawValue>(text.trim()).is_ok();
    assert!(text.trim().is_empty() || is_object, "{text}");
}
