//! What the daemon does around the shipped writer loop: it gathers commands, runs a batch, and only then tells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use askd_core::command::Command;
use askd_core::event::Scope;
use askd_core::{AskId, LinkId, Now, Refusal, SurfaceId};
use askd_journal::{Fault, Faults, Position};
use askd_writer::{Point, Probe, Writer};

use crate::dice::EntryIds;
use crate::disk::{Disk, Met};
use crate::flaw::Flaw;
use crate::overrides::Stack;
use crate::story::tell;
use crate::transport::{Back, Conn, Mail, Sender};
use crate::world::{Happening, World};

/// A held connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) requester: usize,
    /// When the newest message sent on it arrives.
    pub(crate) front: u64,
}

/// One daemon, running or not.
pub(crate) struct Daemon {
    pub(crate) writer: Option<Writer<Disk>>,
    /// Counts its processes.
    pub(crate) life: u64,
    inbox: Vec<Mail>,
    batch_planned: bool,
    tick_plan: u64,
    pub(crate) links: BTreeMap<LinkId, Link>,
    next_link: u64,
    /// Held requests of each open ask.
    pub(crate) waiters: BTreeMap<AskId, Vec<Conn>>,
    /// How far surfaces were told.
    pub(crate) followed: Position,
    faults: Option<Faults>,
    met: Arc<Met>,
    bomb: Bomb,
    /// True time until which overdue defaults have to wait for remote surfaces.
    pub(crate) hold_until: Option<u64>,
    pub(crate) hold_at_most: Option<u64>,
    pub(crate) polled: BTreeSet<SurfaceId>,
    /// The newest batch says that a remote surface was polled.
    pub(crate) polling: bool,
    /// What people set for every session: acknowledged, and what it may have been in the newest batch.
    pub(crate) everywhere: Stack,
    pub(crate) perhaps: Vec<Stack>,
    /// What the writer has to know before anything else: a start or a wake, and what could not be recorded.
    first: Vec<Command>,
    /// The newest batch, or what is left of the queue, says that a requester came or left.
    pub(crate) moving: bool,
    /// Remote surfaces before the newest batch.
    remote_before: BTreeSet<SurfaceId>,
    /// Entries that were written and not told of.
    pub(crate) owed: usize,
    pub(crate) started: Option<Now>,
    /// Scopes of attached surfaces before and after the newest batch.
    pub(crate) reach: (Vec<Scope>, Vec<Scope>),
    spins: u32,
    /// It was told to stop.
    stopping: bool,
}

impl Daemon {
    pub(crate) fn new() -> Self {
        Self {
            writer: None,
            life: 0,
            inbox: Vec::new(),
            batch_planned: false,
            tick_plan: 0,
            links: BTreeMap::new(),
            next_link: 0,
            waiters: BTreeMap::new(),
            followed: 0,
            faults: None,
            met: Arc::new(Met::default()),
            bomb: Bomb::default(),
            hold_until: None,
            hold_at_most: None,
            polled: BTreeSet::new(),
            polling: false,
            everywhere: Stack::default(),
            perhaps: vec![Stack::default()],
            first: Vec::new(),
            moving: false,
            remote_before: BTreeSet::new(),
            owed: 0,
            started: None,
            reach: (Vec::new(), Vec::new()),
            spins: 0,
            stopping: false,
        }
    }
}

impl Daemon {
    /// It lets go of who waits.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping
    }
}

/// Ends the process at a chosen point of a batch.
#[derive(Clone, Default)]
struct Bomb(Arc<AtomicUsize>);

impl Bomb {
    fn arm(&self, point: Option<Point>) {
        let index = point.and_then(|p| Point::ALL.iter().position(|q| *q == p)).map_or(0, |i| i + 1);
        self.0.store(index, Ordering::Relaxed);
    }
}

impl Probe for Bomb {
    fn dies_at(&mut self, point: Point) -> bool {
        let armed = self.0.load(Ordering::Relaxed);
        let dies = Point::ALL.get(armed.wrapping_sub(1)) == Some(&point);
        if dies {
            self.0.store(0, Ordering::Relaxed);
        }
        dies
    }
}

impl World {
    pub(crate) fn start(&mut self, d: usize) {
        if self.daemons[d].writer.is_some() {
            return;
        }
        let journal = self.store.open();
        let faults = journal.faults();
        if self.chaos && self.dice.permille(self.plan.blind) {
            faults.break_reads(1);
        }
        let ids = Box::new(EntryIds(self.dice.fork()));
        let now = self.clock.stamp();
        let daemon = &mut self.daemons[d];
        let disk = Disk { inner: journal, met: daemon.met.clone(), flaw: self.flaw };
        let settings = self.plan.settings.clone();
        match Writer::open(disk, settings, ids, Box::new(daemon.bomb.clone()), now) {
            Err(error) => {
                tell!(self, None, "daemon {d} cannot start: {error}");
                self.counts.add("start failed");
                self.soon(1_000, Happening::Start { daemon: d });
            }
            Ok(writer) => {
                *daemon = Daemon {
                    writer: Some(writer),
                    life: daemon.life + 1,
                    followed: self.ledger.last,
                    faults: Some(faults),
                    met: daemon.met.clone(),
                    bomb: daemon.bomb.clone(),
                    started: Some(now),
                    ..Daemon::new()
                };
                let life = daemon.life;
                if life > 1 {
                    self.counts.add("restart");
                }
                tell!(self, None, "daemon {d} starts, life {life}");
                self.check_loaded(d);
                self.woke(d);
                let after = self.dice.between(100, 3_000);
                self.soon(after, Happening::LookForDead { daemon: d, life });
                for surface in 0..self.surfaces.len() {
                    if self.surfaces[surface].plan.daemon == d && self.surfaces[surface].wanted {
                        let after = self.dice.span(10, 20_000);
                        self.soon(after, Happening::Attach { surface });
                    }
                }
            }
        }
    }

    /// The first thing after a start or a wake.
    pub(crate) fn woke(&mut self, d: usize) {
        if self.daemons[d].writer.is_none() || self.flaw == Some(Flaw::ForgetsWake) {
            self.begin_hold(d);
            self.plan_tick(d);
            return;
        }
        self.daemons[d].first.insert(0, Command::Woke);
        self.plan_batch(d);
    }

    /// A start or a wake: from here on overdue defaults wait, when there are remote surfaces at all.
    fn begin_hold(&mut self, d: usize) {
        let settings = &self.plan.settings;
        let Some(writer) = &self.daemons[d].writer else { return };
        let remote = settings.remotes > 0 || writer.state().surfaces().any(|(_, s)| s.remote);
        let until = remote.then(|| self.clock.now + settings.wake_hold_ms);
        self.daemons[d].hold_until = until;
        // A wait that is on stays on.
        self.daemons[d].hold_at_most = until.or(self.daemons[d].hold_at_most);
        self.daemons[d].polled.clear();
    }

    /// What was fetched was not recorded: the wait may begin anew, if the batch came that far.
    pub(crate) fn hold_again(&mut self, d: usize) {
        let until = self.clock.now + self.plan.settings.wake_hold_ms;
        let daemon = &mut self.daemons[d];
        if daemon.hold_at_most.is_some_and(|until| until > self.clock.now) {
            daemon.hold_at_most = Some(until);
            daemon.polled.clear();
        }
    }

    fn remotes(&self, d: usize) -> BTreeSet<SurfaceId> {
        let Some(writer) = &self.daemons[d].writer else { return BTreeSet::new() };
        writer.state().surfaces().filter(|(_, s)| s.remote).map(|(id, _)| id.clone()).collect()
    }

    /// The hold is over when everyone who is expected was polled.
    pub(crate) fn polled(&mut self, d: usize, surface: &SurfaceId) {
        self.daemons[d].polled.insert(surface.clone());
        let daemon = &self.daemons[d];
        let Some(writer) = &daemon.writer else { return };
        // One that came with the same batch was not there when the wait ended.
        let before = &daemon.remote_before;
        let remote: Vec<_> =
            writer.state().surfaces().map(|(id, _)| id).filter(|id| before.contains(*id)).collect();
        let expected = remote.len().max(usize::try_from(self.plan.settings.remotes).unwrap_or(0));
        let all = daemon.polled.len() >= expected && remote.iter().all(|id| daemon.polled.contains(*id));
        if all {
            let everybody = before.iter().all(|id| daemon.polled.contains(id));
            self.daemons[d].hold_until = None;
            // For one that left meanwhile it may wait to the end.
            if everybody {
                self.daemons[d].hold_at_most = None;
            }
        }
    }

    pub(crate) fn open_conn(&mut self, d: usize, requester: usize) -> Option<Conn> {
        let now = self.clock.now;
        let daemon = &mut self.daemons[d];
        daemon.writer.as_ref()?;
        daemon.next_link += 1;
        let link = LinkId(daemon.next_link);
        daemon.links.insert(link, Link { requester, front: now });
        Some(Conn { daemon: d, life: daemon.life, link })
    }

    pub(crate) fn enqueue(&mut self, d: usize, mail: Mail) {
        self.daemons[d].inbox.push(mail);
        self.plan_batch(d);
    }

    fn plan_batch(&mut self, d: usize) {
        if !self.daemons[d].batch_planned {
            self.daemons[d].batch_planned = true;
            let after = self.dice.between(0, 4);
            self.soon(after, Happening::Batch { daemon: d, life: self.daemons[d].life });
        }
    }

    pub(crate) fn tick(&mut self, d: usize, life: u64, plan: u64) {
        if self.is_up(d, life) && self.daemons[d].tick_plan == plan {
            self.enqueue(d, Mail { command: Command::Tick, from: Sender::Shell });
        }
    }

    fn plan_tick(&mut self, d: usize) {
        let now = self.clock.stamp();
        let Some(writer) = &self.daemons[d].writer else { return };
        let wanted = writer.poll_timeout(now);
        self.daemons[d].tick_plan += 1;
        if let Some((after, _)) = wanted {
            let (life, plan) = (self.daemons[d].life, self.daemons[d].tick_plan);
            self.soon(after, Happening::Tick { daemon: d, life, plan });
        }
    }

    /// One batch of what has gathered, or of a part of it; answers first.
    pub(crate) fn batch(&mut self, d: usize, life: u64) {
        if !self.is_up(d, life) {
            return;
        }
        self.daemons[d].batch_planned = false;
        let mut group = std::mem::take(&mut self.daemons[d].inbox);
        let first = std::mem::take(&mut self.daemons[d].first);
        if group.is_empty() && first.is_empty() {
            return;
        }
        if !group.is_empty() && self.dice.percent(25) {
            let most = self.dice.between(1, group.len() as u64);
            let rest = group.split_off(usize::try_from(most).unwrap_or(1));
            self.daemons[d].inbox = rest;
            if !self.daemons[d].inbox.is_empty() {
                self.plan_batch(d);
            }
        }
        group.sort_by_key(|mail| match mail.command {
            Command::Answer(_) => 0,
            // Whoever left by then is not there any more when a deadline passes.
            Command::Tick => 2,
            _ => 1,
        });
        group.splice(0..0, first.into_iter().map(|command| Mail { command, from: Sender::Shell }));
        self.disturb(d);
        let commands: Vec<Command> = group.iter().map(|mail| mail.command.clone()).collect();
        for mail in &group {
            tell!(self, mail.command.needs(), "daemon {d} handles {}", shown(&mail.command));
        }
        if commands.iter().any(|c| matches!(c, Command::Woke)) {
            self.begin_hold(d);
        }
        let left = self.daemons[d].inbox.iter().map(|mail| &mail.command);
        self.daemons[d].moving =
            commands.iter().chain(left).any(|c| matches!(c, Command::LinkClosed { .. } | Command::Raise(_)));
        self.daemons[d].polling = commands.iter().any(|c| matches!(c, Command::RemotePolled { .. }));
        self.may_be_in_force(d, &group);
        let now = self.clock.stamp();
        self.reply_early(d, &group);
        let before = self.reach(d);
        self.daemons[d].remote_before = self.remotes(d);
        let Some(writer) = self.daemons[d].writer.as_mut() else { return };
        let result = writer.run(&commands, now);
        self.daemons[d].reach = (before, self.reach(d));
        let fresh = self.absorb(d);
        if fresh > 0 {
            self.wake_others(d);
        }
        match result {
            Err(died) => {
                self.counts.add(match died.0 {
                    Point::Drained => "crash when drained",
                    Point::Applied => "crash when applied",
                    Point::Committed => "crash when committed",
                    Point::Released => "crash when released",
                });
                tell!(self, None, "daemon {d} dies: {}", died.0.name());
                self.crash(d, &group);
            }
            Ok(batched) => {
                let stopped = commands.iter().any(|c| matches!(c, Command::Stopping));
                if self.release(d, &group, batched, fresh) && self.daemons[d].writer.is_some() {
                    if stopped {
                        self.stopped(d);
                    } else {
                        self.watch_spins(d, &commands);
                        self.plan_tick(d);
                        self.plan_retry(d);
                    }
                }
            }
        }
    }

    /// A flawed shell tells what it expects of the batch.
    fn reply_early(&mut self, d: usize, group: &[Mail]) {
        if self.flaw != Some(Flaw::RepliesEarly) {
            return;
        }
        let now = self.clock.stamp();
        for mail in group {
            if let (Command::Answer(_), Some(writer)) = (&mail.command, &self.daemons[d].writer) {
                let expected = writer.state().handle(&mail.command, now).reply;
                self.soon(0, Happening::Back { to: mail.from, back: Back::Reply(expected) });
            }
        }
    }

    /// Faults of the disk and the end of the process, for the next batch.
    fn disturb(&mut self, d: usize) {
        if !self.chaos {
            return;
        }
        let (plan, dice) = (&self.plan, &mut self.dice);
        let daemon = &mut self.daemons[d];
        let Some(faults) = &daemon.faults else { return };
        let waiting = faults.waiting();
        if waiting == 0 && dice.permille(plan.full) {
            for _ in 0..dice.between(1, 3) {
                faults.inject(match dice.below(3) {
                    0 => Fault::Full,
                    1 => Fault::ReadOnly,
                    _ => Fault::Broken("no space left on device".to_owned()),
                });
            }
            self.counts.add("journal full");
        } else if waiting == 0 && dice.permille(plan.unknown) {
            match dice.below(4) {
                0 | 1 => {
                    faults.inject(Fault::UnknownWritten);
                    self.counts.add("unknown and written");
                }
                2 => {
                    faults.inject(Fault::UnknownLost);
                    self.counts.add("unknown and lost");
                }
                _ => {
                    let settles = usize::try_from(dice.below(8)).unwrap_or(0);
                    faults.inject(Fault::UnknownUnseen { settles });
                    self.counts.add("unknown and unseen");
                    // The disk is as bad as before when the process ends.
                    if dice.percent(50) {
                        daemon.bomb.arm(Some(*dice.pick(&Point::ALL)));
                    }
                }
            }
            if dice.permille(plan.blind) {
                faults.break_reads(1);
            }
        }
        if dice.permille(plan.blind) {
            faults.break_reads(usize::try_from(dice.between(1, 3)).unwrap_or(1));
            self.counts.add("reads broken");
        }
        if dice.permille(plan.crash) {
            daemon.bomb.arm(Some(*dice.pick(&Point::ALL)));
        }
    }

    /// What could not be recorded of the shell's own commands comes first in the next batch, in the order it had.
    pub(crate) fn shell_reply(&mut self, d: usize, command: &Command, refused: Option<&Refusal>) {
        if matches!(refused, Some(Refusal::NotRecorded(_))) && *command != Command::Tick {
            self.daemons[d].first.push(command.clone());
        }
    }

    /// What failed is tried again after a while, if nothing else comes before.
    fn plan_retry(&mut self, d: usize) {
        if !self.daemons[d].first.is_empty() {
            let life = self.daemons[d].life;
            self.soon(1_000, Happening::Batch { daemon: d, life });
        }
    }

    /// A tick that is wanted at once, again and again, although it changes nothing.
    fn watch_spins(&mut self, d: usize, commands: &[Command]) {
        let now = self.clock.stamp();
        let Some(writer) = &self.daemons[d].writer else { return };
        let ticked = commands.iter().any(|c| matches!(c, Command::Tick));
        let wanted = writer.poll_timeout(now);
        let at_once = wanted.is_some_and(|(after, _)| after == 0);
        let failing = self.daemons[d].faults.as_ref().is_some_and(|f| f.waiting() > 0);
        let daemon = &mut self.daemons[d];
        daemon.spins = if ticked && at_once && !failing { daemon.spins + 1 } else { 0 };
        if daemon.spins > 20 {
            self.broken(&[], format!("daemon {d} wants a tick at once for ever: {wanted:?}"));
        }
    }

    /// The process is gone: what was not committed never was.
    pub(crate) fn crash(&mut self, d: usize, in_hand: &[Mail]) {
        if self.daemons[d].writer.take().is_none() {
            return;
        }
        // What its log held and nobody could see comes back with the next start.
        self.reviving = true;
        let revived = self.absorb(d);
        self.reviving = false;
        if revived > 0 {
            self.counts.add("unseen until a crash");
            self.wake_others(d);
        }
        let life = self.daemons[d].life;
        self.daemons[d].bomb.arm(None);
        let inbox = std::mem::take(&mut self.daemons[d].inbox);
        for mail in in_hand.iter().chain(&inbox) {
            let after = self.dice.between(0, 50);
            self.soon(after, Happening::Back { to: mail.from, back: Back::Lost });
        }
        let links = std::mem::take(&mut self.daemons[d].links);
        for (link, held) in links {
            let conn = Conn { daemon: d, life, link };
            let after = self.dice.between(0, 50);
            self.soon(after, Happening::ConnLost { requester: held.requester, conn });
        }
        self.daemons[d].waiters.clear();
        for s in 0..self.surfaces.len() {
            if self.surfaces[s].plan.daemon == d && self.surfaces[s].attached.take().is_some() {
                self.desk_down(s);
            }
        }
        let after = if self.chaos { self.dice.span(20, 60_000) } else { 100 };
        self.soon(after, Happening::Start { daemon: d });
    }

    /// An orderly stop: those who are left hear that nobody has an opinion, or see the connection end.
    pub(crate) fn stop(&mut self, d: usize) {
        if self.daemons[d].writer.is_some() && !self.daemons[d].stopping {
            self.daemons[d].stopping = true;
            self.sent.stops += 1;
            self.counts.add("orderly stop");
            tell!(self, None, "daemon {d} is told to stop");
            self.enqueue(d, Mail { command: Command::Stopping, from: Sender::Shell });
        }
    }

    fn stopped(&mut self, d: usize) {
        let waiting: Vec<Conn> = self.daemons[d].waiters.values().flatten().copied().collect();
        for conn in waiting {
            if self.dice.percent(50) {
                self.tell_waiter(conn, crate::transport::Told::Released);
            }
        }
        if let Some(writer) = self.daemons[d].writer.as_mut() {
            // A head that stays behind is closed at the next start.
            let _ = writer.flush();
        }
        self.absorb(d);
        self.crash(d, &[]);
    }

    pub(crate) fn look_for_dead(&mut self, d: usize, life: u64) {
        if !self.is_up(d, life) {
            return;
        }
        let Some(writer) = &self.daemons[d].writer else { return };
        if writer.poll_timeout(self.clock.stamp()).is_some_and(|(_, why)| why.contains("read again")) {
            // What it knows is not complete just now.
            self.soon(1_000, Happening::LookForDead { daemon: d, life });
            return;
        }
        for instance in writer.state().instances() {
            if !self.agents.iter().any(|a| a.alive && a.instance == instance) {
                tell!(self, None, "daemon {d} sees that {instance} is gone");
                let command = Command::AgentGone { instance };
                self.enqueue(d, Mail { command, from: Sender::Shell });
            }
        }
    }

    pub(crate) fn count_conflicts(&mut self) {
        for daemon in &self.daemons {
            for _ in 0..daemon.met.stream_conflicts.swap(0, Ordering::Relaxed) {
                self.counts.add("conflict on a stream");
            }
            for _ in 0..daemon.met.claim_conflicts.swap(0, Ordering::Relaxed) {
                self.counts.add("conflict on a claim");
            }
        }
    }
}

/// A command in a few words.
fn shown(command: &Command) -> String {
    match command {
        Command::Raise(raise) => {
            format!("raise {} key {} {} {}", raise.id, raise.key, raise.session, raise.action.tool)
        }
        Command::Answer(answer) => format!(
            "answer {:?} by {} ({:?}) digest {} refused {:?}",
            answer.decision, answer.surface, answer.option, answer.digest, answer.refused
        ),
        Command::Observe(seen) => format!("observation of {}: {:?}", seen.session, seen.seen),
        other => format!("{other:?}"),
    }
}
