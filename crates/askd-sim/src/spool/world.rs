//! One world from its beginning to its end, and what must hold in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use askd_agents::spool::machine::{Action, AskNo, Evidence, Found, Id, Machine};
use askd_agents::spool::wire;
use askd_client::spool::{Put, digest_of};
use askd_core::{AskId, Command, Decision, LinkId, OutcomeKind, Refusal};
use askd_wire::{Observation, ObservationBatch, RaiseAsk};
use serde_json::Value;

use super::disk::{Disk, Which};
use crate::dice::Dice;
use crate::proxy::daemon::Daemon;

const SESSION: &str = "s";
/// How long those requesters wait that give up by themselves.
const LIMIT: Duration = Duration::from_secs(600);
const WALL: i64 = 1_800_000_000_000;

/// An ask's thread of a server.
struct Thread {
    raise: RaiseAsk,
    id: Option<AskId>,
    linked: bool,
    told: bool,
    /// It looks for the ask that the response in place, which says this, is the answer to.
    recall: Option<Option<bool>>,
    orders: VecDeque<Order>,
}

impl Thread {
    fn new(raise: RaiseAsk, recall: Option<Option<bool>>) -> Self {
        Self { raise, id: None, linked: false, told: false, recall, orders: VecDeque::new() }
    }
}

enum Order {
    Withdraw(&'static str),
    Handed,
    Confirmed,
    Elsewhere(Option<bool>),
}

/// One process that serves the tree.
struct Server {
    machine: Machine,
    threads: BTreeMap<AskNo, Thread>,
    link: LinkId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Make,
    Write,
    Wait,
    /// It has its answer, and its request is still there.
    Remove,
    Done,
}

/// A requester.
struct Child {
    step: Step,
    limit: Option<Duration>,
    since: Duration,
    got: Option<Value>,
    gave_up: bool,
    dead: bool,
    /// Somebody else answered it first.
    other: Option<bool>,
    /// Somebody took its request away while it waited: whoever serves may never have seen it.
    robbed: bool,
    /// Its answer was in place and went together with its request: it may have been fetched, as far as anybody can say.
    lost: bool,
    /// How often its session went to another server while its request was there: that one cannot know of an answer that
    /// was in place before, and asks again.
    passed: usize,
    /// What it asks; the next one of its name asks something else.
    text: String,
    number: usize,
}

pub(crate) struct World {
    seed: u64,
    dice: Dice,
    disk: Disk,
    daemon: Daemon,
    servers: [Option<Server>; 2],
    /// Who holds the session's lock.
    holder: Option<usize>,
    children: BTreeMap<String, Child>,
    /// Those whose names others have now.
    past: Vec<(String, Child)>,
    begun: usize,
    now: Duration,
    looked: Duration,
    server_died: bool,
    /// What people said, by what was asked.
    said: BTreeMap<String, Vec<Decision>>,
    pub(crate) happened: BTreeSet<&'static str>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = Self {
            seed,
            dice: Dice::new(seed),
            disk: Disk::new(seed % 2 == 1),
            daemon: Daemon::new(),
            servers: [None, None],
            holder: None,
            children: BTreeMap::new(),
            past: Vec::new(),
            begun: 0,
            now: Duration::from_secs(100_000),
            looked: Duration::ZERO,
            server_died: false,
            said: BTreeMap::new(),
            happened: BTreeSet::new(),
        };
        world.start(0);
        world
    }

    pub(crate) fn live(&mut self) {
        for _ in 0..300 {
            self.step();
        }
        self.drain();
    }

    fn happen(&mut self, what: &'static str) {
        self.happened.insert(what);
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..7 if self.begun < 10 => self.child_begins(),
            7..35 => self.child_works(),
            35..60 => self.thread_works(),
            60..72 => self.look(),
            72..80 => self.person_answers(),
            80..88 => {
                let ms = [5, 50, 450, 1000, 2100][self.dice.index(5)];
                self.pass(ms);
            }
            88..93 => self.somebody_removes(),
            93 => self.disk.full = !self.disk.full && self.dice.percent(50),
            94 => self.daemon_dies_or_comes(),
            95 if self.dice.percent(30) => self.server_dies_or_comes(),
            96 => self.child_dies_or_gives_up(),
            97 if self.dice.percent(40) => self.somebody_else_answers(),
            98 if self.dice.percent(20) => self.pass(60_000),
            99 if self.dice.percent(50) => self.lock_is_removed(),
            _ => self.look(),
        }
    }

    // ---- requesters

    fn child_begins(&mut self) {
        // A name that somebody had who is gone, with or without his answer, is used again.
        let over = |(_, child): &(&String, &Child)| child.step == Step::Done || child.dead;
        let free: Vec<String> = self.children.iter().filter(over).map(|(stem, _)| stem.clone()).collect();
        let stem = if !free.is_empty() && self.dice.percent(50) {
            free[self.dice.index(free.len())].clone()
        } else {
            format!("r{}", self.children.len())
        };
        self.begun += 1;
        let number = self.begun;
        let limit = self.dice.percent(40).then_some(LIMIT);
        let child = Child {
            step: Step::Make,
            limit,
            since: self.now,
            got: None,
            gave_up: false,
            dead: false,
            other: None,
            robbed: false,
            lost: false,
            passed: 0,
            text: String::new(),
            number,
        };
        if let Some(before) = self.children.insert(stem.clone(), child) {
            self.past.push((stem, before));
            self.happen("a name was used again");
        }
    }

    fn child_works(&mut self) {
        let alive: Vec<String> = self
            .children
            .iter()
            .filter(|(_, child)| child.step != Step::Done && !child.dead)
            .map(|(stem, _)| stem.clone())
            .collect();
        if !alive.is_empty() {
            let stem = alive[self.dice.index(alive.len())].clone();
            self.child_step(&stem);
        }
    }

    fn child_step(&mut self, stem: &str) {
        let now = self.now;
        let child = self.children.get_mut(stem).unwrap();
        match child.step {
            Step::Make => {
                self.disk.make(Which::Requests);
                child.step = Step::Write;
            }
            Step::Write => {
                let limit = child.limit.map(|l| format!(r#","gives_up_secs":{}"#, l.as_secs()));
                let limit = limit.unwrap_or_default();
                let number = child.number;
                let text =
                    format!(r#"{{"askd":1,"id":"{stem}","tool":"T","input":{{"n":{number}}}{limit}}}"#);
                child.text.clone_from(&text);
                if self.disk.write(Which::Requests, stem, &text) {
                    child.step = Step::Wait;
                    child.since = now;
                } else {
                    child.step = Step::Make;
                    self.happened.insert("the second race");
                }
            }
            Step::Wait => {
                let response = self.disk.read(Which::Responses, stem).map(|(_, text)| text);
                // One that says that it answers another request is not for this one.
                let is_to = |text: &String| {
                    wire::answers(text.as_bytes()).is_none_or(|to| to == digest_of(child.text.as_bytes()))
                };
                if let Some(text) = response.filter(is_to) {
                    child.got = Some(serde_json::from_str(&text).unwrap());
                    self.disk.remove(Which::Responses, stem);
                    child.step = Step::Remove;
                } else if child.limit.is_some_and(|limit| now >= child.since + limit) {
                    child.gave_up = true;
                    child.step = Step::Remove;
                    self.happened.insert("gave up by itself");
                }
            }
            Step::Remove => {
                self.disk.remove(Which::Requests, stem);
                self.disk.rude_clean_up();
                child.step = Step::Done;
            }
            Step::Done => {}
        }
    }

    fn child_dies_or_gives_up(&mut self) {
        let waiting: Vec<String> = self
            .children
            .iter()
            .filter(|(_, child)| child.step == Step::Wait && !child.dead)
            .map(|(stem, _)| stem.clone())
            .collect();
        let Some(stem) = (!waiting.is_empty()).then(|| waiting[self.dice.index(waiting.len())].clone())
        else {
            return;
        };
        let child = self.children.get_mut(&stem).unwrap();
        if self.dice.percent(50) {
            child.dead = true;
            self.happen("a requester died");
            let id = id(&stem);
            if let Some(server) = self.holder.and_then(|n| self.servers[n].as_mut()) {
                server.machine.died(&id);
            }
            self.act();
        } else {
            child.gave_up = true;
            child.step = Step::Remove;
            self.happen("a requester left");
        }
    }

    // ---- everybody else

    fn somebody_removes(&mut self) {
        let answered: BTreeSet<String> =
            self.disk.look().into_iter().flat_map(|seen| seen.responses).collect();
        match self.dice.below(8) {
            0 => self.disk.remove_all(Some(Which::Responses)),
            1 => self.disk.remove_all(Some(Which::Requests)),
            2 => self.disk.remove_all(None),
            3 => self.disk.remove_sentinel(Which::Requests),
            4 => self.disk.remove_sentinel(Which::Responses),
            _ => self.disk.rude_clean_up(),
        }
        for (stem, child) in &mut self.children {
            child.lost |= child.step == Step::Wait
                && answered.contains(stem)
                && self.disk.read(Which::Responses, stem).is_none();
            child.robbed |= child.step == Step::Wait && self.disk.read(Which::Requests, stem).is_none();
        }
        self.happen("somebody removed");
    }

    fn somebody_else_answers(&mut self) {
        let stems: Vec<String> = self.children.keys().cloned().collect();
        let waits = |world: &mut Self, stem: &String| {
            world.children[stem].step == Step::Wait
                && world.disk.read(Which::Requests, stem).is_some()
                && world.disk.read(Which::Responses, stem).is_none()
        };
        let Some(stem) = stems.into_iter().find(|stem| waits(self, stem)) else { return };
        let allowed = self.dice.percent(50);
        let outcome = if allowed { "allowed" } else { "denied" };
        let text = format!(r#"{{"askd":1,"id":"{stem}","outcome":"{outcome}","cause":"other","text":""}}"#);
        self.disk.make(Which::Responses);
        self.disk.write(Which::Responses, &stem, &text);
        self.children.get_mut(&stem).unwrap().other = Some(allowed);
        self.happen("somebody else answered");
    }

    fn person_answers(&mut self) {
        let open: Vec<(AskId, String)> =
            self.daemon.asks().filter(|(_, ask)| ask.is_open()).map(|(id, ask)| (id, asked(ask))).collect();
        if open.is_empty() || !self.daemon.is_up() {
            return;
        }
        let (ask, stem) = open[self.dice.index(open.len())].clone();
        let decision = if self.dice.percent(50) { Decision::Allow } else { Decision::Deny };
        let option = if decision == Decision::Allow { "allow_once" } else { "reject_once" };
        if self.daemon.answer(ask, option, decision, "terminal").is_ok() {
            self.said.entry(stem).or_default().push(decision);
            if self.servers.iter().all(Option::is_none) {
                self.happen("answered while nobody served");
            }
        }
    }

    fn daemon_dies_or_comes(&mut self) {
        if self.daemon.is_up() {
            if self.dice.percent(40) {
                self.daemon.die();
                self.happen("the daemon died");
                for server in self.servers.iter_mut().flatten() {
                    for thread in server.threads.values_mut() {
                        thread.linked = false;
                    }
                }
            }
        } else {
            self.daemon.start();
        }
    }

    fn server_dies_or_comes(&mut self) {
        let n = self.dice.index(2);
        match self.servers[n].take() {
            Some(server) => {
                self.server_died = true;
                self.happen("a server died");
                let _ = self.daemon.run(&Command::LinkClosed { link: server.link });
                if self.holder == Some(n) {
                    self.holder = None;
                }
            }
            None => self.start(n),
        }
    }

    /// Somebody tidies the place of the locks: the other one gets it, and who had it finds that out at his next look.
    fn lock_is_removed(&mut self) {
        if let Some(holder) = self.holder
            && self.servers[1 - holder].is_some()
        {
            self.holder = Some(1 - holder);
            for child in self.children.values_mut() {
                child.passed += usize::from(matches!(child.step, Step::Wait | Step::Remove));
            }
            self.happen("a lock was removed");
        }
    }

    fn start(&mut self, n: usize) {
        let link = self.daemon.link();
        self.servers[n] = Some(Server { machine: Machine::new(), threads: BTreeMap::new(), link });
    }

    // ---- the serving side

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
        self.daemon.pass(ms);
        if self.now >= self.looked + Duration::from_secs(1) {
            self.look();
        }
        for n in 0..2 {
            if let Some(server) = &mut self.servers[n] {
                server.machine.tick(self.now, WALL);
            }
        }
        self.act();
    }

    fn look(&mut self) {
        self.looked = self.now;
        for n in 0..2 {
            if self.holder.is_some_and(|holder| holder != n) {
                let seen = self.disk.look();
                if let Some(server) = &mut self.servers[n] {
                    server.machine.other_has(SESSION, seen.as_ref());
                    self.act();
                }
                continue;
            }
            if self.servers[n].is_none() {
                continue;
            }
            let seen = self.disk.look();
            let server = self.servers[n].as_mut().unwrap();
            if server.machine.looked_at().is_empty()
                && seen.as_ref().is_none_or(|seen| seen.requests_dir.is_none())
            {
                continue;
            }
            self.holder = Some(n);
            for (stem, stamp) in seen.iter().flat_map(|seen| &seen.requests) {
                let id = id(stem);
                if !server.machine.wants(&id, *stamp, self.now) {
                    continue;
                }
                let Some((stamp, text)) = self.disk.read(Which::Requests, stem) else { continue };
                let child = &self.children[stem];
                let found = Found {
                    stamp,
                    request: wire::read(text.as_bytes(), stem, SESSION, LIMIT),
                    evidence: if child.dead { Evidence::Gone } else { Evidence::Unknown },
                    age: self.now - child.since,
                    answered: self.disk.read(Which::Responses, stem).map(|(_, text)| text.into_bytes()),
                    outdated: self
                        .disk
                        .read(Which::Responses, stem)
                        .is_some_and(|(written, _)| written.inode < stamp.inode),
                    kept_in: seen.as_ref().and_then(|seen| seen.requests_dir.filter(|_| seen.kept)),
                };
                server.machine.found(id, found, self.now, WALL);
            }
            server.machine.scanned(SESSION, seen.as_ref(), self.now);
            self.act();
        }
    }

    fn act(&mut self) {
        for n in 0..2 {
            while let Some(server) = &mut self.servers[n] {
                let actions = server.machine.take();
                if actions.is_empty() {
                    break;
                }
                for action in actions {
                    self.act_on(n, action);
                }
            }
        }
    }

    fn act_on(&mut self, n: usize, action: Action) {
        let Some(server) = &mut self.servers[n] else { return };
        let mut order = |no: AskNo, order: Order| {
            if let Some(thread) = server.threads.get_mut(&no) {
                thread.orders.push_back(order);
            }
        };
        match action {
            Action::Keep(name) => {
                let kept = self.disk.keep();
                server.machine.kept(&name, kept);
            }
            Action::Raise(no, raise) => {
                server.threads.insert(no, Thread::new(*raise, None));
            }
            Action::Recall(no, raise, said) => {
                server.threads.insert(no, Thread::new(*raise, Some(said)));
            }
            Action::Withdraw(no, cause) => order(no, Order::Withdraw(cause)),
            Action::Handed(no) => order(no, Order::Handed),
            Action::Confirmed(no) => order(no, Order::Confirmed),
            Action::Over(no) => drop(server.threads.remove(&no)),
            Action::AnsweredElsewhere(no, id) => {
                let said = self.disk.read(Which::Responses, &id.stem);
                let said = said.and_then(|(_, text)| serde_json::from_str::<Value>(&text).ok());
                let said = said.and_then(|told| match told["outcome"].as_str() {
                    Some("allowed") => Some(true),
                    Some("denied") => Some(false),
                    _ => None,
                });
                order(no, Order::Elsewhere(said));
            }
            Action::Answer(id, bytes, beside) => {
                let request =
                    self.disk.read(Which::Requests, &id.stem).map(|(_, text)| digest_of(text.as_bytes()));
                let is_there =
                    request.as_ref().map_or(beside.or_none, |digest| beside.digest.as_ref() == Some(digest));
                if !is_there {
                    self.happened.insert("an answer found another request in its place");
                    return server.machine.not_beside(&id, self.now);
                }
                let there = self.disk.read(Which::Responses, &id.stem).map(|(_, text)| text);
                let put = self.disk.put(&id.stem, &String::from_utf8(bytes.clone()).unwrap());
                if put.is_err() {
                    self.happened.insert("the disk was full");
                }
                // What somebody else wrote says nothing of it.
                let to = wire::answers(&bytes);
                if put == Ok(Put::Placed) && wire::says(&bytes).is_some() && to.is_some() {
                    // Beside a request lies no answer but its own, and nobody's that people did not give to that.
                    assert!(request.is_none() || request == to, "seed {}: another one's answer", self.seed);
                    let kind = if wire::says(&bytes) == Some(true) {
                        OutcomeKind::Allowed
                    } else {
                        OutcomeKind::Denied
                    };
                    let children = self.children.values().chain(self.past.iter().map(|(_, child)| child));
                    let mut to = children.filter(|child| to == Some(digest_of(child.text.as_bytes())));
                    let number = to.next().unwrap().number.to_string();
                    let settled = |ask: &askd_core::AskState| {
                        asked(ask) == number
                            && ask.outcome.as_ref().is_some_and(|outcome| outcome.kind == kind)
                    };
                    assert!(
                        self.daemon.asks().any(|(_, ask)| settled(ask)),
                        "seed {}: nobody gave this answer to {number}",
                        self.seed
                    );
                }
                server.machine.placed(&id, put, there.as_ref().map(String::as_bytes), self.now);
            }
            Action::RemoveRequest(id) => self.disk.remove(Which::Requests, &id.stem),
            Action::RemoveResponse(id, bytes) => {
                let there = self.disk.read(Which::Responses, &id.stem).map(|(_, text)| text);
                if bytes.is_empty() || there.is_some_and(|there| there.as_bytes() == bytes) {
                    self.disk.remove(Which::Responses, &id.stem);
                }
            }
            Action::Leave(_) => {
                self.disk.leave();
                if self.holder == Some(n) {
                    self.holder = None;
                }
                self.happened.insert("left");
            }
            Action::Beat(_) | Action::Unbeat(_) | Action::Tell(_) => {}
        }
    }

    fn thread_works(&mut self) {
        let n = self.dice.index(2);
        let Some(server) = &self.servers[n] else { return };
        let threads: Vec<AskNo> = server.threads.keys().copied().collect();
        if !threads.is_empty() {
            let no = threads[self.dice.index(threads.len())];
            self.thread_step(n, no);
        }
    }

    fn thread_step(&mut self, n: usize, no: AskNo) {
        let server = self.servers[n].as_mut().unwrap();
        let Some(thread) = server.threads.get_mut(&no) else { return };
        if !self.daemon.is_up() {
            // A thread that has its outcome waits in silence with what it has to tell.
            if !thread.told {
                server.machine.lost(self.now);
            }
            return;
        }
        if let Some(said) = thread.recall.take() {
            let known = self
                .daemon
                .asks()
                .find(|(_, ask)| asked(ask) == asks(&thread.raise))
                .map(|(id, ask)| (id, ask.outcome.as_ref().map(|outcome| outcome.kind)));
            let ours = match known {
                Some((_, Some(kind))) => {
                    said == Some(true) && kind == OutcomeKind::Allowed
                        || said == Some(false) && kind == OutcomeKind::Denied
                }
                _ => false,
            };
            (thread.id, thread.linked, thread.told) = (known.map(|(id, _)| id), true, true);
            if !ours {
                thread.orders.clear();
                match known {
                    Some((_, None)) => thread.orders.push_back(Order::Elsewhere(said)),
                    _ => drop(server.threads.remove(&no)),
                }
            } else {
                self.happened.insert("an answer of an earlier run was known again");
            }
            server.machine.recalled(no, ours);
            return self.act();
        }
        let token = self.daemon.token();
        match (thread.orders.pop_front(), thread.id) {
            (Some(Order::Withdraw(cause)), Some(ask)) => {
                let cause = cause_of(cause);
                let done = self.daemon.run(&Command::Withdraw { ask, token, cause });
                assert!(!matches!(done, Err(Refusal::NotRecorded(_))), "seed {}", self.seed);
                thread.told = true;
                if let Some(outcome) = self.daemon.outcome(ask) {
                    server.machine.outcome(no, &outcome, self.now, WALL);
                }
            }
            (Some(Order::Withdraw(_)), None) => server.machine.refused(no, "never asked", self.now, WALL),
            (Some(Order::Handed), Some(ask)) => {
                let _ = self.daemon.run(&Command::Handed { ask, token });
            }
            (Some(Order::Confirmed), Some(ask)) => {
                let _ = self.daemon.run(&Command::Confirmed { ask, token });
                server.threads.remove(&no);
            }
            (Some(Order::Elsewhere(Some(allowed))), _) => {
                let call = thread.raise.tool_call.clone().unwrap();
                let batch = ObservationBatch {
                    agent: thread.raise.agent.clone(),
                    session: thread.raise.session.clone(),
                    parent: None,
                    session_title: None,
                    cwd: None,
                    instance: None,
                    place: None,
                    observations: vec![Observation::OwnPromptAnswered { call, allowed }],
                };
                self.daemon.observe(&batch);
                server.threads.remove(&no);
            }
            (Some(_), _) => drop(server.threads.remove(&no)),
            // Who has its outcome asks no more, whatever becomes of its connection.
            (None, _) if !thread.linked && !thread.told => {
                match self.daemon.raise(&thread.raise, server.link) {
                    Ok(ask) => {
                        thread.id = Some(ask);
                        thread.linked = true;
                        server.machine.raised();
                    }
                    Err(_) => server.machine.lost(self.now),
                }
            }
            (None, Some(ask)) if !thread.told => {
                if let Some(outcome) = self.daemon.outcome(ask) {
                    thread.told = true;
                    server.machine.outcome(no, &outcome, self.now, WALL);
                }
            }
            (None, _) => {}
        }
        self.act();
    }

    // ---- the end

    /// No more faults: everybody comes to an end.
    fn drain(&mut self) {
        self.daemon.start();
        self.disk.full = false;
        if self.servers.iter().all(Option::is_none) {
            self.start(0);
        }
        for _ in 0..40 {
            self.pass(450);
            self.look();
            for _ in 0..3 {
                for n in 0..2 {
                    let Some(server) = &self.servers[n] else { continue };
                    for no in server.threads.keys().copied().collect::<Vec<_>>() {
                        self.thread_step(n, no);
                    }
                }
                for stem in self.children.keys().cloned().collect::<Vec<_>>() {
                    if !self.children[&stem].dead {
                        self.child_step(&stem);
                    }
                }
            }
            for _ in 0..3 {
                self.person_answers();
            }
        }
        self.judge();
        // Long afterwards nothing is left.
        for _ in 0..8 {
            self.pass(200_000);
            self.look();
            for stem in self.children.keys().cloned().collect::<Vec<_>>() {
                if !self.children[&stem].dead {
                    self.child_step(&stem);
                }
            }
        }
        let all = self.children.values().chain(self.past.iter().map(|(_, child)| child));
        let dead = all.into_iter().any(|child| child.dead || child.other.is_some());
        if !self.server_died && !dead {
            // Of a requester without a limit nobody can say that it will not come for an answer that somebody took
            // away and that was put in place again.
            let may_stay = |stem: &String| self.children[stem].limit.is_none();
            let left = self.disk.files();
            assert!(left.iter().all(may_stay), "seed {}: files are left: {left:?}", self.seed);
            if left.is_empty() {
                assert!(self.disk.is_gone(), "seed {}: directories are left", self.seed);
                self.happen("nothing is left");
            }
        }
    }

    fn judge(&mut self) {
        let seed = self.seed;
        for (stem, child) in self.children.iter().chain(self.past.iter().map(|(stem, child)| (stem, child))) {
            let number = child.number.to_string();
            let asks: Vec<_> = self.daemon.asks().filter(|(_, ask)| asked(ask) == number).collect();
            let said = self.said.get(&number).map(Vec::as_slice).unwrap_or_default();
            if !self.server_died {
                let decided = |ask: &askd_core::AskState| {
                    let kind = ask.outcome.as_ref().map(|outcome| outcome.kind);
                    matches!(kind, Some(OutcomeKind::Allowed | OutcomeKind::Denied))
                };
                // Again only for what had its answer.
                let answered = asks.iter().filter(|(_, ask)| decided(ask)).count();
                let most = 1 + child.passed.min(answered);
                assert!(asks.len() <= most, "seed {seed}: {stem} was asked {} times", asks.len());
                assert!(said.len() <= most, "seed {seed}: {stem} was answered {} times", said.len());
            }
            if let Some(got) = &child.got {
                assert_eq!(got["id"], stem.as_str(), "seed {seed}: another one's answer");
                let allowed = got["outcome"] == "allowed";
                if got["cause"] == "other" {
                    // What somebody else left for the one before of this name says nothing of that, and is not ours.
                    let all = self.children.iter().chain(self.past.iter().map(|(stem, child)| (stem, child)));
                    let mut same = all.filter(|(other, _)| *other == stem);
                    let said = same.any(|(_, child)| child.other == Some(allowed));
                    assert!(said, "seed {seed}: {stem}");
                } else if allowed || got["outcome"] == "denied" {
                    let decision = if allowed { Decision::Allow } else { Decision::Deny };
                    assert!(said.contains(&decision), "seed {seed}: {stem} got {got}, people said {said:?}");
                    let kind = if allowed { OutcomeKind::Allowed } else { OutcomeKind::Denied };
                    let recorded = |ask: &askd_core::AskState| {
                        ask.outcome.as_ref().is_some_and(|outcome| outcome.kind == kind)
                    };
                    assert!(asks.iter().any(|(_, ask)| recorded(ask)), "seed {seed}: {stem}");
                    self.happened.insert("answered");
                }
            } else if !child.gave_up && !child.dead && !self.server_died {
                // With its server alive all the time, whoever waits gets an answer; but for one whose request went before
                // it was seen, and one that somebody else has answered in a directory that was taken away then.
                assert!(
                    child.robbed && (asks.is_empty() || child.lost) || child.other.is_some(),
                    "seed {seed}: {stem} waits for ever at {:?} (robbed {}, lost {}), asked {}, said {said:?}",
                    child.step,
                    child.robbed,
                    child.lost,
                    asks.len()
                );
            }
            let left = child.dead || child.gave_up;
            let undecided = said.is_empty() && child.other.is_none();
            if left && undecided && !self.server_died {
                let open = asks.iter().any(|(_, ask)| ask.is_open());
                assert!(!open, "seed {seed}: {stem} is gone and its ask is open");
            }
        }
    }
}

/// Which request an ask is of.
fn asked(ask: &askd_core::AskState) -> String {
    number_in(ask.ask.action.input.as_deref())
}

fn asks(raise: &RaiseAsk) -> String {
    number_in(raise.action.input.as_ref().map(|raw| raw.get()))
}

fn number_in(input: Option<&str>) -> String {
    let input: Value = serde_json::from_str(input.unwrap_or("null")).unwrap_or_default();
    input["n"].to_string()
}

fn id(stem: &str) -> Id {
    Id { session: SESSION.to_owned(), stem: stem.to_owned() }
}

fn cause_of(cause: &str) -> askd_core::Cause {
    match cause {
        "requester_gone" => askd_core::Cause::RequesterGone,
        "requester_limit" => askd_core::Cause::RequesterLimit,
        "superseded" => askd_core::Cause::Superseded,
        _ => askd_core::Cause::Cancelled,
    }
}
