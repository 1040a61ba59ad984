//! What is remembered of a session's calls, spawns and threads, until something comes of them. It is in memory only, it is
//! bounded for each session, and it weighs on whoever the session belongs to: where that one has no room, what is oldest
//! in those of its sessions that have most is forgotten. That costs a correlation and never makes a wrong one: of what
//! was forgotten, nothing else is taken for it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use crate::digest::Digest;
use crate::event::{CallInfo, SpawnSeen};
use crate::gate::{CallPlace, Gate};
use crate::id::{Hash256, Instance, Owner, SessionKey};
use crate::time::Stamp;

use super::State;
use super::weight::{of_instance, texts};

/// Calls, spawns and threads of one session at most.
const REMEMBERED: usize = 1024;
/// What one of each costs besides its texts, about.
const EACH_CALL: usize = 256;
const EACH_SPAWN: usize = 192;
const EACH_GATE: usize = 64 + size_of::<Gate>();
/// Of what an owner has this part is forgotten at once, so that it is not looked for with every call.
const AT_ONCE: usize = 8;

/// A call that was announced and is not known to have ended.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) subagent: Option<String>,
    pub(super) digest: Digest,
    /// The process that announced it, when that is another one than the session's own.
    pub(super) side: Option<Instance>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    calls: BTreeMap<String, Call>,
    order: VecDeque<String>,
    spawns: VecDeque<SpawnSeen>,
    /// Doom-loop gates by thread; the main thread has no work id.
    gates: BTreeMap<Option<String>, Gate>,
    /// Bytes of all that.
    weight: usize,
    forgotten: Forgotten,
}

/// What was forgotten before its time. An ask about it may still come, and nothing that is like it may be taken for it.
#[derive(Debug, Clone, Copy, Default)]
struct Forgotten {
    /// Of each forgotten call one of so many bits, by its thread and content.
    calls: [u64; 16],
    spawn: bool,
}

impl Forgotten {
    fn place(thread: Option<&str>, digest: Digest) -> (usize, u64) {
        let thread = thread.map_or_else(String::new, |thread| format!("/{thread}"));
        let Hash256([first, second, ..]) = Hash256::of(format!("{digest}{thread}").as_bytes());
        (usize::from(first) % 16, 1 << (second % 64))
    }

    fn call(&mut self, call: &Call) {
        let (word, bit) = Self::place(call.subagent.as_deref(), call.digest);
        self.calls[word] |= bit;
    }
}

impl Remembered {
    pub(super) fn call(&self, call: &str) -> Option<&Call> {
        self.calls.get(call)
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = (&String, &Call)> {
        self.calls.iter()
    }

    /// A call of this thread and content was forgotten: which one an ask is about cannot be told.
    pub(super) fn is_unsure(&self, thread: Option<&str>, digest: Digest) -> bool {
        let (word, bit) = Forgotten::place(thread, digest);
        self.forgotten.calls[word] & bit != 0
    }

    /// The spawns of which one may be a child's; none where one was forgotten, for it may have been that one.
    pub(super) fn spawns(&self) -> impl Iterator<Item = &SpawnSeen> {
        self.spawns.iter().filter(|_| !self.forgotten.spawn)
    }

    pub(super) fn spawn_of(&self, call: &str) -> Option<&SpawnSeen> {
        self.spawns.iter().find(|spawn| spawn.call == call)
    }

    pub(super) fn gate(&self, thread: &Option<String>) -> Option<&Gate> {
        self.gates.get(thread)
    }

    pub(super) fn threads(&self) -> impl Iterator<Item = &Option<String>> {
        self.gates.keys()
    }

    /// True when the call was not known before.
    pub(super) fn remember_call(&mut self, name: &str, info: CallInfo) -> bool {
        let CallInfo { subagent, tool: _, digest, side } = info;
        let call = Call { subagent, digest, side };
        self.weight += of_call(name, &call);
        let before = self.calls.insert(name.to_owned(), call);
        match &before {
            Some(before) => self.weight -= of_call(name, before),
            None => self.order.push_back(name.to_owned()),
        }
        while self.order.len() > REMEMBERED {
            self.forget_oldest_call();
        }
        before.is_none()
    }

    fn forget_oldest_call(&mut self) {
        let Some(name) = self.order.pop_front() else { return };
        if let Some(call) = self.calls.remove(&name) {
            self.weight -= of_call(&name, &call);
            self.forgotten.call(&call);
        }
    }

    pub(super) fn forget_call(&mut self, name: &str) {
        if let Some(call) = self.calls.remove(name) {
            self.weight -= of_call(name, &call);
            self.order.retain(|c| c != name);
        }
    }

    pub(super) fn remember_spawn(&mut self, spawn: SpawnSeen) {
        self.forget_spawn(&spawn.call);
        self.weight += of_spawn(&spawn);
        self.spawns.push_back(spawn);
        while self.spawns.len() > REMEMBERED {
            self.forget_oldest_spawn();
        }
    }

    fn forget_oldest_spawn(&mut self) {
        if let Some(spawn) = self.spawns.pop_front() {
            self.weight -= of_spawn(&spawn);
            self.forgotten.spawn = true;
        }
    }

    pub(super) fn forget_spawn(&mut self, call: &str) {
        let gone = self.spawns.iter().filter(|spawn| spawn.call == call);
        self.weight -= gone.map(of_spawn).sum::<usize>();
        self.spawns.retain(|spawn| spawn.call != call);
    }

    /// A call of this thread is about to run.
    pub(super) fn call_started(
        &mut self,
        thread: Option<&String>,
        call: Digest,
        place: CallPlace<'_>,
        now: Stamp,
    ) -> Option<crate::gate::Repeated> {
        let thread = thread.cloned();
        // The main thread's comes first and stays.
        if self.gates.len() >= REMEMBERED && !self.gates.contains_key(&thread) {
            self.forget_last_gate();
        }
        if !self.gates.contains_key(&thread) {
            let gate = Gate::default();
            self.weight += of_gate(&thread, &gate);
            self.gates.insert(thread.clone(), gate);
        }
        let gate = self.gates.get_mut(&thread)?;
        self.weight -= of_gate(&thread, gate);
        let repeated = gate.call_started(call, place, now);
        self.weight += of_gate(&thread, gate);
        repeated
    }

    pub(super) fn call_ended(&mut self, thread: &Option<String>) {
        // It holds as much as before.
        if let Some(gate) = self.gates.get_mut(thread) {
            gate.call_ended();
        }
    }

    pub(super) fn forget_gate(&mut self, thread: &Option<String>) {
        if let Some(gate) = self.gates.remove(thread) {
            self.weight -= of_gate(thread, &gate);
        }
    }

    fn forget_last_gate(&mut self) {
        if let Some((thread, gate)) = self.gates.pop_last() {
            self.weight -= of_gate(&thread, &gate);
        }
    }

    /// Forgets the older part of it: one of `parts`.
    fn forget_part(&mut self, parts: usize) {
        let (calls, spawns, gates) = (self.calls.len(), self.spawns.len(), self.gates.len());
        (0..calls.div_ceil(parts)).for_each(|_| self.forget_oldest_call());
        (0..spawns.div_ceil(parts)).for_each(|_| self.forget_oldest_spawn());
        (0..gates.div_ceil(parts)).for_each(|_| self.forget_last_gate());
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    #[cfg(test)]
    pub(super) fn number_of_threads(&self) -> usize {
        self.gates.len()
    }
}

impl State {
    /// Something is learned of a session, and what its owner has no room for is forgotten.
    pub(super) fn remember<T>(
        &mut self,
        key: &SessionKey,
        learn: impl FnOnce(&mut super::Session) -> T,
    ) -> Option<T> {
        let session = self.sessions.get_mut(key)?;
        let (owner, before) = (session.info.owner.clone(), session.seen.weight());
        let learned = learn(session);
        let after = session.seen.weight();
        self.remembered.take_off(owner.as_ref(), before);
        self.remembered.add(owner.as_ref(), after);
        if after > before && !self.remembers_within_limits(owner.as_ref()) {
            self.forget_for_room(owner.as_ref());
        }
        Some(learned)
    }

    fn remembers_within_limits(&self, owner: Option<&Owner>) -> bool {
        self.remembered.room(owner, (0, 0), self.settings.max_remembered_bytes).is_ok()
    }

    fn forget_for_room(&mut self, owner: Option<&Owner>) {
        let its = |s: &&mut super::Session| s.info.owner.as_ref() == owner && s.seen.weight() > 0;
        let mut all: Vec<_> = self.sessions.values_mut().filter(its).collect();
        all.sort_by_key(|session| Reverse(session.seen.weight()));
        let enough = all.iter().map(|session| session.seen.weight()).sum::<usize>() / AT_ONCE;
        let mut freed = 0;
        // The older half of each first.
        for parts in [2, 1] {
            for session in &mut all {
                let before = session.seen.weight();
                session.seen.forget_part(parts);
                let less = before - session.seen.weight();
                self.remembered.take_off(owner, less);
                freed += less;
                let most = self.settings.max_remembered_bytes;
                if freed >= enough && self.remembered.room(owner, (0, 0), most).is_ok() {
                    return;
                }
            }
        }
    }
}

fn of_call(name: &str, call: &Call) -> usize {
    let Call { subagent, digest: _, side } = call;
    // Its name is in the order, too.
    EACH_CALL + 2 * name.len() + texts([subagent]) + side.as_ref().map_or(0, of_instance)
}

fn of_spawn(spawn: &SpawnSeen) -> usize {
    let SpawnSeen { call, parent, name, kind, background: _ } = spawn;
    EACH_SPAWN + call.len() + texts([parent, name, kind])
}

fn of_gate(thread: &Option<String>, gate: &Gate) -> usize {
    EACH_GATE + texts([thread]) + gate.weight()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::BootId;

    #[test]
    fn s7_threads_without_end_take_bounded_room_and_the_main_thread_is_watched_all_the_same() {
        let now = Stamp { boot: BootId(uuid::Uuid::nil()), boot_ms: 1, wall_ms: 1 };
        let call = Digest::of("Bash", Some("{}"), None, "");
        let mut seen = Remembered::default();
        let mut loops = Vec::new();
        for batch in 0..3 {
            let place = |name| CallPlace { batch: Some(name), turn: None };
            let name = format!("b{batch}");
            loops.push(seen.call_started(None, call, place(&name), now).is_some());
            for thread in 0..2 * REMEMBERED {
                let thread = format!("work-{batch}-{thread}");
                seen.call_started(Some(&thread), call, place("b"), now);
            }
            assert!(seen.number_of_threads() <= REMEMBERED, "{}", seen.number_of_threads());
        }
        assert_eq!(loops, [false, false, true]);
    }

    #[test]
    fn s7_what_is_remembered_weighs_as_long_as_it_is_and_no_longer() {
        let now = Stamp { boot: BootId(uuid::Uuid::nil()), boot_ms: 1, wall_ms: 1 };
        let digest = |n: u32| Digest::of("Bash", Some(&n.to_string()), None, "");
        let mut seen = Remembered::default();
        for n in 0..3_000 {
            let thread = (n % 3 > 0).then(|| format!("w{}", n % 700));
            let (name, turn) = (format!("c{}", n % 2_000), format!("t{}", n / 100));
            let (subagent, tool) = (thread.clone(), "Bash".to_owned());
            seen.remember_call(&name, CallInfo { subagent, tool, digest: digest(n % 5), side: None });
            let place = CallPlace { batch: None, turn: Some(&turn) };
            seen.call_started(thread.as_ref(), digest(n % 5), place, now);
            if n % 7 == 0 {
                let call = name.clone();
                let spawn =
                    SpawnSeen { call, parent: thread.clone(), name: None, kind: None, background: true };
                seen.remember_spawn(spawn);
            }
            match n % 11 {
                0 => seen.forget_call(&format!("c{}", n / 2)),
                1 => seen.forget_spawn(&name),
                2 => seen.forget_gate(&thread),
                3 => seen.call_ended(&thread),
                4 if n % 100 == 4 => seen.forget_part(2),
                _ => {}
            }
            let calls: usize = seen.calls.iter().map(|(name, call)| of_call(name, call)).sum();
            let gates: usize = seen.gates.iter().map(|(thread, gate)| of_gate(thread, gate)).sum();
            let spawns: usize = seen.spawns.iter().map(of_spawn).sum();
            assert_eq!(seen.weight, calls + gates + spawns, "{n}");
            assert_eq!(seen.calls.len(), seen.order.len(), "{n}");
        }
        assert!(!seen.calls.is_empty() && !seen.gates.is_empty() && !seen.spawns.is_empty());
        seen.forget_part(1);
        assert_eq!(seen.weight(), 0);
    }
}
