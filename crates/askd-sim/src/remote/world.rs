//! One world from its beginning to its end, and what must hold in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use askd_core::event::{Scope, SurfaceInfo};
use askd_core::{AskId, Command, Decision, Digest, LinkId, Refusal, Source, SurfaceId};
use askd_remote::telegram::call::{Call, Sent};
use askd_remote::telegram::hands::{Deed, Heard};
use askd_remote::telegram::text::Reader;
use askd_remote::telegram::{Machine, NAME, Setup};
use askd_remote::{Now, Out, Reply, Step, Surface, Wish};
use askd_wire as wire;
use askd_words::Sessions;
use jiff::tz::TimeZone;

use super::server::{ANNA, CHAT, STRANGER, Server, refused};
use crate::dice::Dice;
use crate::proxy::daemon::Daemon;
use crate::shape;

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    daemon: Daemon,
    machine: Option<Machine>,
    server: Server,
    now: Now,
    lives: u64,
    link: LinkId,
    made: u64,
    max_open: u32,
    calls: VecDeque<(u64, Call)>,
    poll: Option<(u64, i64)>,
    /// What the surface was told of each ask.
    told: BTreeMap<AskId, String>,
    /// Taps that reached the machine as answers: handle and decision.
    answered: Vec<(String, bool)>,
    calm: bool,
    /// The last state of this step was not taken.
    unkept: bool,
    pub(crate) happened: BTreeSet<&'static str>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let max_open = u32::try_from(dice.between(1, 3)).unwrap();
        let mut daemon = Daemon::new();
        let link = daemon.link();
        let mut world = Self {
            seed,
            dice,
            daemon,
            machine: None,
            server: Server::default(),
            now: Now { ms: 0, wall_ms: 1_800_000_000_000 },
            lives: 0,
            link,
            made: 0,
            max_open,
            calls: VecDeque::new(),
            poll: None,
            told: BTreeMap::new(),
            answered: Vec::new(),
            calm: false,
            unkept: false,
            happened: BTreeSet::new(),
        };
        world.attach();
        world
    }

    pub(crate) fn live(&mut self) {
        for _ in 0..200 {
            self.step();
            self.check();
        }
        self.drain();
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..=17 => self.ask(),
            18..=37 => self.tap(),
            38..=45 => self.answer_here(),
            46..=50 => self.pass(),
            51..=54 => self.crash(),
            55..=77 => self.serve(),
            _ => self.poll(),
        }
    }

    fn surface(&self) -> SurfaceId {
        SurfaceId(format!("s{}", self.lives))
    }

    /// A machine begins on what the journal kept.
    fn attach(&mut self) {
        self.lives += 1;
        let info = SurfaceInfo {
            name: NAME.to_owned(),
            remote: true,
            scope: Scope::All,
            capacity: Some(self.max_open),
        };
        let _ = self.daemon.run(&Command::AttachSurface { surface: self.surface(), info });
        let setup = Setup { bot: 1, chats: vec![CHAT], users: vec![ANNA], max_open: self.max_open };
        let reader = Reader { sessions: Sessions::new(None, None), zone: TimeZone::UTC };
        let key = [u8::try_from(self.lives % 250).unwrap(); 32];
        self.machine = Some(Machine::new(setup, reader, key));
        self.told.clear();
        let held = self.held();
        for ask in &held {
            self.told.insert(ask.id.parse().unwrap(), serde_json::to_string(ask).unwrap());
        }
        let kept = self.daemon.kept(NAME);
        self.run(|machine, now, out| machine.begin(kept, held, now, out));
    }

    fn held(&self) -> Vec<wire::Ask> {
        let slots = self.daemon.core().slots(&self.surface()).cloned().unwrap_or_default();
        slots.iter().filter_map(|id| self.look(&id.to_string())).collect()
    }

    fn look(&self, name: &str) -> Option<wire::Ask> {
        let found = self.daemon.asks().find(|(id, ask)| id.to_string() == name || ask.ask.handle.0 == name);
        let (_, state) = found?;
        let mut ask = shape::of(&state.ask, None);
        if let Some(outcome) = &state.outcome {
            shape::settle(&mut ask, outcome);
        }
        Some(ask)
    }

    /// Tells the machine what changed: asks that got a slot, and asks that it was told of before.
    fn tell(&mut self) {
        for ask in self.held() {
            let id: AskId = ask.id.parse().unwrap();
            let text = serde_json::to_string(&ask).unwrap();
            if self.told.insert(id, text).is_none() {
                self.run(|machine, now, out| machine.show(ask, now, out));
            }
        }
        let known: Vec<AskId> = self.told.keys().copied().collect();
        for id in known {
            let Some(ask) = self.look(&id.to_string()) else { continue };
            let text = serde_json::to_string(&ask).unwrap();
            if self.told.insert(id, text.clone()) != Some(text) {
                self.run(|machine, now, out| machine.update(ask, "settled", now, out));
            }
        }
    }

    fn run(&mut self, act: impl FnOnce(&mut Machine, Now, &mut Out<Deed>)) {
        let Some(mut machine) = self.machine.take() else { return };
        let mut out = Out::default();
        act(&mut machine, self.now, &mut out);
        let mut steps = VecDeque::from(out.steps);
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Deed(Deed::Call { number, call, .. }) => self.calls.push_back((number, call)),
                Step::Deed(Deed::Poll { number, offset, .. }) => self.poll = Some((number, offset)),
                Step::Wish(wish) => {
                    // Between any two of its steps the power can fail.
                    if !self.calm && self.dice.percent(2) {
                        self.happened.insert("the daemon died between two steps");
                        self.daemon.die();
                        return self.come_back();
                    }
                    if let Some(reply) = self.grant(wish) {
                        let mut out = Out::default();
                        machine.replied(reply, self.now, &mut out);
                        out.steps.into_iter().rev().for_each(|step| steps.push_front(step));
                    }
                }
            }
        }
        // Nobody else wakes a machine whose state was not taken.
        assert!(
            self.calm || !std::mem::take(&mut self.unkept) || machine.due().is_some(),
            "seed {}: a state that was not taken waits for ever",
            self.seed
        );
        self.machine = Some(machine);
        let changed = self.held().iter().any(|ask| !self.told.contains_key(&ask.id.parse().unwrap()));
        if changed {
            self.tell();
        }
    }

    fn grant(&mut self, wish: Wish) -> Option<Reply> {
        match wish {
            Wish::Shown { ask } => {
                let command =
                    Command::Shown { ask: ask.parse().unwrap(), surface: NAME.to_owned(), remote: true };
                let _ = self.daemon.run(&command);
            }
            Wish::Failed { ask, reason } => {
                let (ask, surface) = (ask.parse().unwrap(), NAME.to_owned());
                let _ = self.daemon.run(&Command::SurfaceFailed { ask, surface, reason });
            }
            Wish::Answer { ticket, ask, answer, by } => {
                let id: AskId = ask.parse().unwrap();
                let decision = match answer.decision {
                    wire::Decision::Allow => Decision::Allow,
                    wire::Decision::Deny => Decision::Deny,
                };
                let handle = self.look(&ask).unwrap().handle;
                self.answered.push((handle, decision == Decision::Allow));
                let digest: Digest = answer.digest.parse().unwrap();
                let given = askd_core::Answer {
                    ask: id,
                    digest,
                    decision,
                    option: answer.option,
                    message: answer.message,
                    stop: answer.stop,
                    surface: NAME.to_owned(),
                    remote: true,
                    by,
                    refused: None,
                };
                let full = !self.calm && self.dice.percent(5);
                let result = if full {
                    self.happened.insert("the journal took nothing");
                    Err(Refusal::NotRecorded("full".to_owned()))
                } else {
                    self.daemon.run(&Command::Answer(given)).map(drop)
                };
                let ask = self.look(&ask);
                let result = match result {
                    Ok(()) => Ok(Box::new(ask.unwrap())),
                    Err(refusal) => Err(Box::new(shape::problem(&refusal, ask))),
                };
                return Some(Reply::Answered { ticket, result });
            }
            Wish::Look { ticket, ask } => {
                return Some(Reply::Looked { ticket, ask: self.look(&ask).map(Box::new) });
            }
            Wish::Keep { state } => {
                let command = Command::KeepSurfaceState { surface: NAME.to_owned(), state };
                let done = (self.calm || self.dice.percent(95)) && self.daemon.run(&command).is_ok();
                self.unkept = !done;
                return Some(Reply::Kept { done });
            }
            Wish::Polled => {
                let surface = self.surface();
                let _ = self.daemon.run(&Command::RemotePolled { surface });
            }
            Wish::List { ticket } => return Some(Reply::Listed { ticket, asks: Vec::new() }),
            Wish::Command { .. } | Wish::Trouble(_) | Wish::Log(_) => {}
        }
        None
    }

    fn ask(&mut self) {
        self.made += 1;
        let raise = serde_json::from_value(serde_json::json!({
            "key": self.made.to_string(), "action": {"tool": "Bash", "input": {"command": format!("make {}", self.made)}},
            "agent": "agent", "session": "s", "requester": "proxy", "grace_secs": 86_400,
            "attendance": if self.dice.percent(30) { "background" } else { "foreground" },
        }));
        let link = self.link;
        if self.daemon.raise(&raise.unwrap(), link).is_ok() {
            self.tell();
        }
    }

    fn tap(&mut self) {
        if self.server.buttons.is_empty() {
            return;
        }
        // Often one of the newest, at times one of long ago.
        let len = self.server.buttons.len();
        let back = if self.dice.percent(70) { self.dice.index(len.min(8)) } else { self.dice.index(len) };
        let person = if self.dice.percent(85) { ANNA } else { STRANGER };
        let forge = self.dice.percent(10);
        self.happened.insert(match (person == ANNA, forge) {
            (true, false) => "a tap",
            (true, true) => "a forged tap",
            (false, _) => "a stranger's tap",
        });
        self.server.tap(person, len - 1 - back, forge);
    }

    fn answer_here(&mut self) {
        let open: Vec<AskId> = self.daemon.core().open().map(|(id, _)| id).collect();
        if let Some(id) = (!open.is_empty()).then(|| *self.dice.pick(&open)) {
            let (option, decision) = match self.dice.percent(50) {
                true => ("allow_once", Decision::Allow),
                false => ("reject_once", Decision::Deny),
            };
            if self.daemon.answer(id, option, decision, "terminal").is_ok() {
                self.happened.insert("answered elsewhere");
            }
            self.tell();
        }
    }

    fn pass(&mut self) {
        let ms = self.dice.span(500, 400_000);
        self.elapse(ms);
    }

    fn elapse(&mut self, ms: u64) {
        self.now.ms += ms;
        self.now.wall_ms += i64::try_from(ms).unwrap();
        let before = self.daemon.core().open().count();
        self.daemon.pass(ms);
        if self.daemon.core().open().count() < before {
            self.happened.insert("a deadline");
        }
        self.tell();
        if self.machine.as_ref().and_then(Machine::due).is_some_and(|at| at <= self.now.ms) {
            self.run(|machine, now, out| machine.tick(now, out));
        }
    }

    fn crash(&mut self) {
        self.happened.insert("the daemon died");
        self.daemon.die();
        self.come_back();
    }

    /// What was on its way is done or not; nobody hears of it.
    fn come_back(&mut self) {
        self.unkept = false;
        self.machine = None;
        for (_, call) in std::mem::take(&mut self.calls) {
            if self.dice.percent(50) && !matches!(call, Call::Toast { .. }) {
                self.server.act(&call, false);
                self.happened.insert("a call was done and nobody heard");
            }
        }
        self.poll = None;
        self.daemon.start();
        // A sending that was confirmed and not written down is as unknown to the next life as one that was not.
        let kept = self.daemon.kept(NAME).unwrap_or_default();
        let cards = kept["cards"].as_array().cloned().unwrap_or_default();
        let known: BTreeSet<i64> = cards
            .iter()
            .flat_map(|card| card["messages"].as_array().cloned().unwrap_or_default())
            .filter_map(|message| message.as_i64())
            .collect();
        for (id, shown) in &mut self.server.messages {
            shown.unheard |= !known.contains(id);
        }
        self.link = self.daemon.link();
        self.attach();
    }

    /// The server does one of the calls that are on their way.
    fn serve(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let at = self.dice.index(self.calls.len());
        let (number, call) = self.calls.remove(at).unwrap();
        let sent = match self.dice.below(100) {
            _ if self.calm => self.server.act(&call, true),
            0..=4 => Sent::Unreachable("never arrived".to_owned()),
            5..=9 => {
                self.server.act(&call, false);
                self.happened.insert("the reply to a call was lost");
                Sent::Unreachable("no reply".to_owned())
            }
            10..=14 => refused(429, "Too Many Requests: retry after 2"),
            15..=19 => refused(502, "Bad Gateway"),
            20..=22 if matches!(call, Call::Send { .. }) => {
                self.happened.insert("blocked");
                refused(403, "Forbidden: bot was blocked by the user")
            }
            _ => self.server.act(&call, true),
        };
        let heard = Heard::Sent { number, sent };
        self.run(|machine, now, out| machine.heard(heard, now, out));
    }

    fn poll(&mut self) {
        let Some((number, offset)) = self.poll.take() else { return };
        let lost = !self.calm && self.dice.percent(15);
        let (confirmed, sent) = self.server.poll(offset);
        for tap in confirmed {
            // Nothing is forgotten that was not answered.
            let ask = self.look(&tap.handle);
            let open = ask.as_ref().is_some_and(|ask| ask.state == wire::AskState::Open);
            assert!(!(tap.counts && open), "seed {}: a tap was forgotten: {tap:?}", self.seed);
        }
        let sent = if lost { Sent::Unreachable("gone".to_owned()) } else { sent };
        let heard = Heard::Polled { number, sent };
        self.run(|machine, now, out| machine.heard(heard, now, out));
    }

    /// What holds at every moment.
    fn check(&mut self) {
        let seed = self.seed;
        for (_, ask) in self.daemon.asks() {
            let Some(outcome) = ask.outcome.as_ref().filter(|o| o.source == Some(Source::Remote)) else {
                continue;
            };
            let allow = outcome.kind == askd_core::OutcomeKind::Allowed;
            let handle = &ask.ask.handle.0;
            let tapped = self
                .server
                .taps
                .values()
                .any(|tap| tap.counts && tap.handle == *handle && tap.allow == allow);
            assert!(tapped, "seed {seed}: {handle} was answered by nobody");
        }
        for (handle, allow) in &self.answered {
            let tapped = self
                .server
                .taps
                .values()
                .any(|tap| tap.counts && tap.handle == *handle && tap.allow == *allow);
            assert!(tapped, "seed {seed}: an answer for {handle} that nobody gave");
        }
        let slots = self.daemon.core().slots(&self.surface()).map_or(0, BTreeSet::len);
        assert!(slots <= usize::try_from(self.max_open).unwrap(), "seed {seed}: {slots} slots");
    }

    /// Everything works again, for long enough.
    fn drain(&mut self) {
        self.calm = true;
        for _ in 0..2000 {
            self.elapse(1000);
            while !self.calls.is_empty() {
                self.serve();
            }
            self.poll();
            self.check();
            let open = self.daemon.core().open().count();
            if open > 0 && self.dice.percent(20) {
                self.answer_here();
            }
            if open == 0 && self.calls.is_empty() && !self.server.waits() && self.machine_is_idle() {
                break;
            }
        }
        let seed = self.seed;
        assert!(!self.server.waits(), "seed {seed}: a tap waits for ever");
        assert_eq!(self.daemon.core().open().count(), 0, "seed {seed}");
        for (id, shown) in &self.server.messages {
            // One whose sending was never confirmed is known to nobody until somebody taps it.
            assert!(
                shown.buttons.is_empty() || shown.unheard,
                "seed {seed}: message {id} is live, and its ask is over: {shown:?}"
            );
            if shown.unheard {
                self.happened.insert("a card that nobody knows");
            }
        }
        for tap in self.server.taps.values().filter(|tap| tap.counts) {
            assert!(
                self.look(&tap.handle).is_some_and(|ask| ask.state == wire::AskState::Settled),
                "seed {seed}"
            );
        }
    }

    fn machine_is_idle(&self) -> bool {
        // With nothing to send, only its poll is under way.
        self.machine.as_ref().is_some_and(|machine| machine.due().is_none())
    }
}
