//! Whatever is typed whenever: no answer is ever made of a key that was pressed before its ask was on the screen.

use std::collections::HashMap;
use std::time::Duration;

use askd_tui::{ALLOW_AFTER, Action, Key};
use askd_wire::{Ask, Class, Decision};
use proptest::prelude::*;

use crate::rig::{Rig, answers};
use crate::{samples, stream};

#[derive(Debug, Clone)]
enum Step {
    Key(Key),
    /// Drawn and written.
    Frame,
    /// Drawn; written later or never.
    Render,
    Pass(u64),
    /// A new ask: background, safety, long.
    Arrive(bool, bool, bool),
    /// One of the open asks ends elsewhere.
    End(prop::sample::Index),
    HandBack(prop::sample::Index),
    /// The reply to one of the answers.
    Reply(prop::sample::Index, bool),
    Resize(u16, u16),
    Blind,
    Timeout,
}

fn keys() -> impl Strategy<Value = Key> {
    prop_oneof![
        6 => prop::sample::select("ynynynadAmsS/q?gu1 2".chars().collect::<Vec<_>>()).prop_map(Key::Char),
        3 => prop::sample::select(vec![
            Key::Enter, Key::Esc, Key::Up, Key::Down, Key::PageDown, Key::PageUp, Key::Tab, Key::Backspace,
            Key::Home, Key::End, Key::Other,
        ]),
        1 => any::<char>().prop_map(Key::Char),
        1 => Just(Key::Paste("yna y\n".into())),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => keys().prop_map(Step::Key),
        6 => Just(Step::Frame),
        1 => Just(Step::Render),
        4 => (0_u64..600).prop_map(Step::Pass),
        2 => any::<(bool, bool, bool)>().prop_map(|(a, b, c)| Step::Arrive(a, b, c)),
        1 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => any::<prop::sample::Index>().prop_map(Step::HandBack),
        1 => any::<(prop::sample::Index, bool)>().prop_map(|(at, ok)| Step::Reply(at, ok)),
        1 => (30_u16..120, 8_u16..40).prop_map(|(width, height)| Step::Resize(width, height)),
        1 => Just(Step::Blind),
        1 => Just(Step::Timeout),
    ];
    proptest::collection::vec(step, 0..120)
}

/// What is known of the screen, worked out from its text alone.
#[derive(Default)]
struct Watch {
    /// Since when the handle has been on the written screen, without a break.
    since: HashMap<String, Duration>,
    /// Since when any such handle was on it for the first time.
    first: HashMap<String, Duration>,
    last_absorbed: Option<Duration>,
}

impl Watch {
    fn written(&mut self, screen: &str, asks: &HashMap<String, Ask>, now: Duration) {
        for ask in asks.values() {
            if screen.contains(&ask.handle) {
                self.since.entry(ask.handle.clone()).or_insert(now);
                self.first.entry(ask.handle.clone()).or_insert(now);
            } else {
                self.since.remove(&ask.handle);
            }
        }
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut rig = Rig::new(80, 24);
    rig.event(stream::snapshot(&[]));
    rig.frame();
    let mut open: HashMap<String, Ask> = HashMap::new();
    let mut given: Vec<(String, Decision)> = Vec::new();
    let mut watch = Watch::default();
    let mut made = 0;
    for step in steps {
        let mut actions = Vec::new();
        let typed = matches!(step, Step::Key(_));
        match step {
            Step::Key(key) => {
                let is_letter = matches!(key, Key::Char(_) | Key::Enter);
                actions = rig.key(key.clone());
                for answer in answers(&actions) {
                    let ask = &open[&answer.id];
                    prop_assert!(is_letter, "{key:?} answered");
                    prop_assert_eq!(&answer.answer.digest, &ask.digest);
                    prop_assert_ne!(ask.requester.link.as_str(), "handed_back");
                    prop_assert!(!given.iter().any(|(id, _)| *id == answer.id), "answered twice");
                    let bulk = actions.iter().any(|it| matches!(it, Action::Bulk(_)));
                    // Words were begun, and a question was asked, for what was on the screen then.
                    let seen = if bulk || key == Key::Enter { &watch.first } else { &watch.since };
                    let since = seen.get(&ask.handle);
                    prop_assert!(since.is_some(), "{} was not on the screen", ask.handle);
                    if answer.answer.decision == Decision::Allow {
                        prop_assert_ne!(&key, &Key::Enter);
                        let shown_for = rig.now.tick - *since.unwrap();
                        prop_assert!(shown_for >= ALLOW_AFTER, "allowed after {shown_for:?}");
                        if let Some(at) = watch.last_absorbed {
                            prop_assert!(rig.now.tick - at >= ALLOW_AFTER, "allowed right after another key");
                        }
                        prop_assert!(!(bulk && ask.class == Class::Safety), "a safety ask in bulk");
                    }
                    given.push((answer.id.clone(), answer.answer.decision));
                }
                if matches!(key, Key::Other | Key::Paste(_)) {
                    watch.last_absorbed = Some(rig.now.tick);
                }
            }
            Step::Frame => {
                rig.frame();
                let screen = rig.shown();
                watch.written(&screen, &open, rig.now.tick);
            }
            Step::Render => rig.render(),
            Step::Pass(ms) => rig.pass(ms),
            Step::Arrive(background, safety, long) => {
                made += 1;
                // Handles that no other text on the screen contains.
                let handle = format!("zq{made:03}");
                let command = if long { "echo a long line\n".repeat(40) } else { format!("echo {made}") };
                let mut ask = samples::bash(&handle, &command);
                if background {
                    ask = samples::background(ask);
                }
                if safety {
                    ask.class = Class::Safety;
                }
                open.insert(ask.id.clone(), ask.clone());
                actions = rig.event(stream::event("asked", &ask));
            }
            Step::End(at) => {
                let mut ids: Vec<&String> = open.keys().collect();
                ids.sort();
                if !ids.is_empty() {
                    let ask = open[at.get(&ids).as_str()].clone();
                    let over = stream::settled(&ask, "denied", "timed", None);
                    actions = rig.event(stream::event("settled", &over));
                }
            }
            Step::HandBack(at) => {
                let mut ids: Vec<String> = open.keys().cloned().collect();
                ids.sort();
                if !ids.is_empty() {
                    let ask = open.get_mut(at.get(&ids)).unwrap();
                    ask.requester.link = "handed_back".into();
                    ask.requester.at = Some("terminal".into());
                    actions = rig.event(stream::event("handed_back", &ask.clone()));
                }
            }
            Step::Reply(at, ok) => {
                if !given.is_empty() {
                    let (id, _) = given.remove(at.index(given.len()));
                    let ask = open[&id].clone();
                    let over = stream::settled(&ask, "denied", "person", Some("Telegram"));
                    actions = if ok {
                        rig.reply(askd_tui::Reply::Answered(Box::new(over)))
                    } else {
                        rig.reply(stream::refused(&id, "not_recorded", None, None))
                    };
                }
            }
            Step::Resize(width, height) => {
                rig.resize(width, height);
                let screen = rig.shown();
                watch.written(&screen, &open, rig.now.tick);
            }
            Step::Blind => {
                rig.queue.blind();
                watch.since.clear();
            }
            Step::Timeout => actions = rig.queue.handle_timeout(rig.now),
        }
        prop_assert!(answers(&actions).is_empty() || typed, "answered without a key");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn s4_no_key_answers_an_ask_that_was_drawn_after_it(steps in steps()) {
        run(steps)?;
    }
}
