//! The corpus of hostile texts: whatever part of an ask they are, the screen is inert.

use askd_tui::Key;
use askd_wire::SessionView;
use serde::Deserialize;
use serde_json::json;

use crate::rig::Rig;
use crate::{samples, stream};

#[derive(Deserialize)]
struct Hostile {
    name: String,
    parts: Vec<(String, usize)>,
    marks: Vec<String>,
}

impl Hostile {
    fn text(&self) -> String {
        self.parts.iter().map(|(part, count)| part.repeat(*count)).collect()
    }
}

fn corpus() -> Vec<Hostile> {
    serde_json::from_str(include_str!("../../../askd-text/corpus/hostile.json")).unwrap()
}

/// Nothing on the screen but what can be seen: what `safe` would mark is not there.
fn assert_inert(rig: &mut Rig, name: &str) {
    rig.frame();
    for cell in rig.buffer.content() {
        let symbol = cell.symbol();
        // The signs that stand for tabs and line breaks, and a space, are the queue's own.
        if matches!(symbol, "⇥" | "↵" | " " | "") {
            continue;
        }
        assert!(!askd_text::safe(symbol).marked, "{name}: {symbol:?} in\n{}", rig.shown());
    }
}

#[test]
fn s4_the_corpus_is_marked_and_inert_in_every_part_of_an_ask() {
    for hostile in corpus() {
        let text = hostile.text();
        let short: String = text.chars().take(300).collect();
        let mut ask = samples::ask("k7f", &short, &json!({"command": text, &short: 1}), Some(&short));
        ask = samples::background(ask);
        ask.handle = short.clone();
        ask.lineage.agent = short.clone();
        ask.lineage.session = short.clone();
        ask.lineage.job = Some(short.clone());
        ask.lineage.host = Some(short.clone());
        ask.lineage.place.as_mut().unwrap().tty = Some(short.clone());
        let child = ask.lineage.subagent.as_mut().unwrap();
        (child.name, child.kind) = (Some(short.clone()), Some(short.clone()));
        for option in &mut ask.options {
            option.label = short.clone();
            option.grants = Some(short.clone());
        }
        let mut titled: SessionView = samples::session(&short);
        titled.agent = short.clone();
        titled.session = short.clone();
        let other = samples::bash("q2m", &text);
        for (width, height) in [(60, 15), (100, 30)] {
            let mut rig = Rig::with(width, height, &[ask.clone(), other.clone()]);
            rig.queue.set_sessions(vec![titled.clone()]);
            assert_inert(&mut rig, &hostile.name);
            for key in ['a', 'd', 'A', 'm', '/'] {
                rig.calmly(Key::Char(key));
                assert_inert(&mut rig, &hostile.name);
                rig.calmly(Key::Esc);
            }
            rig.calmly(Key::Enter);
            for _ in 0..5 {
                assert_inert(&mut rig, &hostile.name);
                rig.calmly(Key::Char(' '));
            }
            rig.calmly(Key::Esc);
            let mut over = stream::settled(&ask, "denied", "person", Some(&short));
            over.outcome.as_mut().unwrap().message = Some(text.clone());
            over.outcome.as_mut().unwrap().by = Some(short.clone());
            rig.event(stream::event("settled", &over));
            rig.queue.warn(&text);
            rig.reply(askd_tui::Reply::Command(Ok(text.clone())));
            assert_inert(&mut rig, &hostile.name);
        }
    }
}

#[test]
fn s4_every_mark_of_the_corpus_can_be_read_before_an_allow() {
    for hostile in corpus() {
        let ask = samples::bash("k7f", &hostile.text());
        let mut rig = Rig::with(100, 50, &[ask]);
        let mut seen = String::new();
        for _ in 0..400 {
            let screen = rig.screen();
            // Without the first column of the text and the sign of a wrapped line.
            seen.extend(screen.lines().map(|line| line.trim_start().trim_start_matches('↪')));
            let end = !screen.contains(" for more");
            rig.pass(500);
            let allowed = crate::rig::decided(&rig.press('y'));
            assert!(allowed.is_empty() || end, "{}: allowed before its end", hostile.name);
            if end {
                break;
            }
            rig.calmly(Key::Char(' '));
        }
        for mark in &hostile.marks {
            assert!(seen.contains(mark.as_str()), "{}: {mark} was never on the screen", hostile.name);
        }
    }
}
