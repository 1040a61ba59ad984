//! One ask in full: what a person reads before they answer.

use askd_wire::{Ask, AskState, Choice, ChoiceKind, Class};

use crate::out::{Style, one_line, safe};
use askd_words::{is_answerable, subagent};

use crate::view::outcome::{self, delivery, elsewhere, gives_up, late, settled, timed};
use crate::view::time::Clock;
use crate::view::who::Who;

/// Width of the labels.
const LABEL: usize = 11;

/// Lines of a card, label by label.
struct Card {
    lines: Vec<String>,
    style: Style,
}

impl Card {
    fn field(&mut self, label: &str, text: &str) {
        let label = format!("{label:LABEL$}");
        let line = format!("  {} {text}", self.style.dim(&label));
        self.lines.push(line.trim_end().to_owned());
    }

    fn opt(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.field(label, text);
        }
    }

    fn block(&mut self, label: &str, lines: &[String]) {
        for (at, line) in lines.iter().enumerate() {
            self.field(if at == 0 { label } else { "" }, line);
        }
    }

    fn warning(&mut self, text: &str) {
        let text = self.style.warn(text);
        self.field("!", &text);
    }
}

/// The whole ask, line by line, with a line break at the end of each.
pub(crate) fn card(ask: &Ask, who: &Who, clock: &Clock, style: Style) -> String {
    let state = match (ask.state, is_answerable(ask)) {
        (AskState::Open, true) => "waits for an answer".to_owned(),
        (AskState::Open, false) => "waits in the agent's own prompt".to_owned(),
        (AskState::Settled, _) => settled(ask).unwrap_or_else(|| "settled".to_owned()),
    };
    let what = match ask.class {
        Class::Tool => safe(&ask.action.tool),
        Class::Safety => format!("safety: {}", safe(&ask.action.tool)),
    };
    let head = format!("{}  {}  {state}", style.bold(&safe(&ask.handle)), style.bold(&what));
    let mut card = Card { lines: vec![head], style };
    lineage(&mut card, ask, who);
    card.field("since", &format!("{} ({})", clock.ago(&ask.asked_at), clock.local(&ask.asked_at)));
    action(&mut card, ask);
    if ask.state == AskState::Open {
        options(&mut card, &ask.options);
        card.opt("timed", timed(ask, clock).as_deref());
        card.opt("limit", gives_up(ask, clock).as_deref());
        card.opt("note", elsewhere(ask, clock).as_deref());
    } else {
        result(&mut card, ask, clock);
    }
    card.opt("late", late(ask, clock).as_deref());
    card.lines.push(String::new());
    card.lines.join("\n")
}

fn lineage(card: &mut Card, ask: &Ask, who: &Who) {
    let lineage = &ask.lineage;
    card.field("asked by", &who.session(ask));
    if let Some(child) = &lineage.subagent {
        card.field("subagent", &subagent(child));
    }
    if let Some(job) = &lineage.job {
        card.field("job", &safe(job));
    }
    if ask.attendance == askd_wire::Attendance::Background {
        card.field("attendance", "background: nobody is at this turn");
    }
    let mut session = safe(&lineage.session);
    if lineage.root != lineage.session {
        session = format!("{session}, below {}", safe(&lineage.root));
    }
    card.field("session", &session);
    if let Some(host) = who.other_host(ask) {
        card.field("host", &host);
    }
    if let Some(place) = &lineage.place {
        let parts = [
            place.tty.as_deref().map(safe),
            place.tmux_pane.as_deref().map(|pane| format!("tmux pane {}", safe(pane))),
        ];
        let at = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if !at.is_empty() {
            card.field("terminal", &at);
        }
    }
}

fn action(card: &mut Card, ask: &Ask) {
    for field in &ask.display {
        card.block(
            &one_line(&field.label),
            &field.lines.iter().map(|line| one_line(line)).collect::<Vec<_>>(),
        );
    }
    if ask.display.iter().any(|field| field.marked) {
        card.warning("characters that cannot be seen, or look like others, are marked: \\u{…}");
    }
    if ask.display.iter().any(|field| !field.complete) {
        card.warning("not all of it is shown here");
    }
}

fn options(card: &mut Card, options: &[Choice]) {
    for (at, option) in options.iter().enumerate() {
        let mut text = format!("{}: {}", safe(&option.id), safe(&option.label));
        if let Some(grants) = &option.grants {
            text = format!("{text} (grants {})", safe(grants));
        } else if matches!(option.kind, ChoiceKind::AllowAlways | ChoiceKind::RejectAlways) {
            text = format!("{text} (always)");
        }
        card.field(if at == 0 { "options" } else { "" }, &text);
    }
}

fn result(card: &mut Card, ask: &Ask, clock: &Clock) {
    let Some(outcome) = &ask.outcome else { return };
    card.field(
        "settled",
        &format!("{} ({})", clock.ago(&outcome.settled_at), clock.local(&outcome.settled_at)),
    );
    card.field("cause", &one_line(&outcome.cause));
    if let Some(option) = &outcome.option {
        card.field("option", &safe(option));
    }
    if let Some(reason) = &outcome.reason_for_model {
        card.field("told", &safe(reason));
    }
    if let Some(delivery) = delivery(ask) {
        if outcome::is_correction(ask.delivery) {
            card.warning(delivery);
        } else {
            card.field("delivery", delivery);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    fn clock() -> Clock {
        Clock::fixed("2026-11-30T08:00:48.000Z")
    }

    #[test]
    fn c14_an_open_ask_is_shown_in_full_and_inert() {
        let who = Who::new(vec![samples::session()]);
        insta::assert_snapshot!(card(&samples::background(), &who, &clock(), Style::PLAIN));
    }

    #[test]
    fn c12_a_settled_ask_says_who_and_what_was_told() {
        insta::assert_snapshot!(card(&samples::settled(), &Who::default(), &clock(), Style::PLAIN));
    }

    #[test]
    fn c11_an_overtaken_ask_is_corrected() {
        let mut ask = samples::settled();
        ask.delivery = askd_wire::Delivery::Overtaken;
        let text = card(&ask, &Who::default(), &clock(), Style::PLAIN);
        assert!(text.contains("corrected: the agent had already gone on by another answer"), "{text}");
    }

    #[test]
    fn s4_no_control_character_of_an_agent_reaches_the_terminal() {
        let mut ask = samples::background();
        let hostile = "x\u{1b}[2J\u{7}\n\u{202e}";
        ask.action.tool = hostile.to_owned();
        ask.lineage.session = hostile.to_owned();
        ask.lineage.agent = hostile.to_owned();
        ask.lineage.job = Some(hostile.to_owned());
        ask.lineage.host = Some(hostile.to_owned());
        ask.requester.link = "handed_back".to_owned();
        ask.requester.at = Some(hostile.to_owned());
        ask.options[0].label = hostile.to_owned();
        ask.options[0].id = hostile.to_owned();
        ask.options[0].grants = Some(hostile.to_owned());
        let text = card(&ask, &Who::default(), &clock(), Style::PLAIN);
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
    }
}
